"""`dra-reconciler migrate`: what is printed, that it is valid, and that the pods then get their devices."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.api.migrate.workloads import POD_SPECS
from reconciler.cli import main
from tests.tools.definitions import dropped, published
from tests.tools.output_schemas import fitting
from tests.tools.release_schemas import assert_published
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.short_manifests import gpus, node, together

Json = dict[str, Any]
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  initContainers: [{name: warm, image: i, resources: {limits: {example.com/gpu: 3}}}]
  containers:
  - {name: a, image: i, resources: {limits: {example.com/gpu: 2}}}
  - {name: b, image: i, resources: {limits: {example.com/gpu: 1}}}
"""
SPEC = "spec: {containers: [{name: a, image: i, resources: {limits: {example.com/gpu: 2}}}]}"
TEMPLATE = f"template: {{metadata: {{labels: {{a: b}}}}, {SPEC}}}"
SELECTED = f"selector: {{matchLabels: {{a: b}}}}, {TEMPLATE}"
JOB = TEMPLATE.replace("containers:", "restartPolicy: Never, containers:")
WORKLOADS = {
    "Deployment": f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: x}}, spec: {{{SELECTED}}}}}",
    "ReplicaSet": f"{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: x}}, spec: {{{SELECTED}}}}}",
    "DaemonSet": f"{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: x}}, spec: {{{SELECTED}}}}}",
    "StatefulSet": "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, "
    f"spec: {{serviceName: s, {SELECTED}}}}}",
    "Job": f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: x}}, spec: {{{JOB}}}}}",
    "CronJob": "{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, "
    f"spec: {{schedule: '* * * * *', jobTemplate: {{spec: {{{JOB}}}}}}}}}",
    "JobSet": "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, "
    f"spec: {{replicatedJobs: [{{name: j, template: {{spec: {{{JOB}}}}}}}]}}}}",
    "PodTemplate": f"{{apiVersion: v1, kind: PodTemplate, metadata: {{name: x}}, {TEMPLATE}}}",
    "ReplicationController": "{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, "
    f"spec: {{selector: {{a: b}}, {TEMPLATE}}}}}",
    "Pod": f"{{apiVersion: v1, kind: Pod, metadata: {{name: x}}, {SPEC}}}",
}


def run(folder: Path, text: str, *options: str) -> Result:
    path = folder / "in.yaml"
    path.write_text(text)
    return CliRunner().invoke(main, ["migrate", "-f", str(path), *options])


@pytest.mark.parametrize("kind", WORKLOADS)
def test_everything_that_makes_pods_is_rewritten_and_valid(kind: str, tmp_path: Path):
    result = run(tmp_path, together(CLASS, WORKLOADS[kind]), "-o", "yaml")
    assert result.exit_code == 0, result.output
    template, device_class, workload = yaml.safe_load_all(result.stdout)
    assert template["metadata"]["name"] == "gpu-2"
    assert device_class["metadata"]["name"] == "gpu"
    assert "example.com/gpu" not in str(workload)
    assert "gpu-2" in str(workload)
    for made in (template, *(jobs_of(workload) if workload["kind"] == "JobSet" else [workload])):
        assert_published(made)


def jobs_of(jobset: Json) -> list[Json]:
    """The Jobs that its controller makes: its definition takes their type over from batch/v1."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": one["name"], **one["template"].get("metadata", {})},
            "spec": one["template"]["spec"],
        }
        for one in jobset["spec"]["replicatedJobs"]
    ]


JOBSET = f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: x, labels: {{kueue.x-k8s.io/queue-name: q}}, annotations: {{a: b}}}}
spec:
  network: {{enableDNSHostnames: true, subdomain: s}}
  successPolicy: {{operator: All, targetReplicatedJobs: [workers]}}
  failurePolicy: {{maxRestarts: 3}}
  suspend: true
  replicatedJobs:
  - name: driver
    replicas: 1
    template:
      spec:
        parallelism: 1
        template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}
  - name: workers
    replicas: 4
    dependsOn: [{{name: driver, status: Ready}}]
    template:
      metadata: {{labels: {{a: b}}}}
      spec: {{parallelism: 2, completionMode: Indexed, completions: 2, {JOB}}}
"""


def test_of_a_jobset_only_the_pods_that_need_devices_change(tmp_path: Path):
    result = run(tmp_path, together(CLASS, JOBSET), "-o", "yaml")
    assert result.exit_code == 0, result.output
    made = list(yaml.safe_load_all(result.stdout))[-1]
    before = yaml.safe_load(JOBSET)
    for job in jobs_of(made):
        assert_published(job)
    for one in published():
        if one.name == "jobsets.jobset.x-k8s.io/v1alpha2":
            jsonschema.Draft202012Validator(one.schema).validate(made)
            assert list(dropped(one.schema, made)) == []
    assert made["spec"]["replicatedJobs"][0] == before["spec"]["replicatedJobs"][0]
    pods = [found["spec"]["replicatedJobs"][1]["template"]["spec"]["template"] for found in (before, made)]
    rewritten = pods[1].pop("spec")
    assert rewritten["resourceClaims"] == [{"name": "a-gpu", "resourceClaimTemplateName": "gpu-2"}]
    assert rewritten["schedulingGates"]
    pods[0].pop("spec")
    assert made == before


def test_every_kind_has_a_test():
    assert {kind for _, kind in POD_SPECS} == WORKLOADS.keys()


async def test_the_pods_get_their_devices(tmp_path: Path):
    result = run(tmp_path, together(CLASS, POD), "-o", "json")
    found = Cluster([])
    found.load(*fitting("migrate", result.stdout)["items"])
    found.load(*yaml.safe_load_all(together(node("n1"), gpus("n1", 4))))
    async with reconciling(found, controllers=True):
        await found.until(lambda: not found.gated("p"))
    assert sorted(len(one["status"]["allocation"]["devices"]["results"]) for one in found.claims()) == [1, 2]


def test_by_default_it_shows_the_differences(tmp_path: Path):
    result = run(tmp_path, together(CLASS, POD))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "--- new ResourceClaimTemplate default/gpu-2"
    assert "--- Pod default/p" in lines
    assert "-        example.com/gpu: 2" in lines
    assert "+  - name: a-gpu" in lines
    assert lines[-1] == "1 object to change, 2 new templates"
    again = run(tmp_path, run(tmp_path, together(CLASS, POD), "-o", "yaml").stdout)
    assert again.stdout == "0 objects to change, 0 new templates\n"
    names = run(tmp_path, together(CLASS, POD), "-o", "name").stdout.splitlines()
    assert names[0] == "resourceclaimtemplate.resource.k8s.io/gpu-2"
    assert names[-1] == "pod/p"


def test_templates_can_be_made_ahead_for_the_policy(tmp_path: Path):
    (tmp_path / "map.yaml").write_text("resources: {nvidia.com/gpu: {class: gpu, name: fast}}")
    result = CliRunner().invoke(
        main, ["migrate", "--map", str(tmp_path / "map.yaml"), "--templates", "3", "-n", "x", "-o", "yaml"]
    )
    assert result.exit_code == 0, result.output
    made = list(yaml.safe_load_all(result.stdout))
    assert [one["metadata"] for one in made] == [{"name": f"fast-{n}", "namespace": "x"} for n in (1, 2, 3)]
    assert run(tmp_path, together(CLASS, POD), "--templates", "1", "-o", "name").exit_code == 0
    assert CliRunner().invoke(main, ["migrate"]).exit_code == 2


def test_what_is_left_is_named_and_decides_the_exit_code(tmp_path: Path):
    unknown = run(tmp_path, POD)
    assert unknown.exit_code == 1
    assert (
        "not rewritten: example.com/gpu of Pod default/p stands for no class; name one with --map"
    ) in " ".join(unknown.stderr.split())
    (tmp_path / "map.yaml").write_text("resources: {example.com/gpu: {class: fast}}")
    mapped = run(tmp_path, POD, "--map", str(tmp_path / "map.yaml"), "--without-gate")
    assert mapped.exit_code == 0
    assert "deviceClassName: fast" in mapped.stdout
    assert "schedulingGates" not in mapped.stdout
    (tmp_path / "map.yaml").write_text("resources: 1")
    assert run(tmp_path, POD, "--map", str(tmp_path / "map.yaml")).exit_code == 2
    (tmp_path / "map.yaml").write_text("a: [")
    assert run(tmp_path, POD, "--map", str(tmp_path / "map.yaml")).exit_code == 2
    wrong = run(tmp_path, together(CLASS, POD.replace("gpu: 3", "gpu: 3m")))
    assert wrong.exit_code == 1
    assert "3m is not a whole number of devices" in wrong.stderr
    assert run(tmp_path, "- 1\n").exit_code == 2
