"""`dra-reconciler allocate`: output and exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.plugins.koordinator import vocabulary
from tests.tools.checkout import ROOT
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, pod, template, together
from tests.tools.small_fleet import node


def test_the_table_names_claim_request_devices_and_node(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim("a", 2)))
    assert result.exit_code == ALL
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["CLAIM", "REQUEST", "DEVICE", "NODE"],
        ["default/a", "gpu", "gpu.example.com/n1/gpu-0", "n1"],
        ["default/a", "gpu", "gpu.example.com/n1/gpu-1", "n1"],
        ["nodes", "without", "a", "Node", "object:", "n1"],
        ["1", "claim", "allocated"],
    ]
    assert result.stderr == ""


def test_wide_has_the_pod_and_name_the_claims_as_kubectl_names_them(tmp_path: Path):
    text = together(CLASS, gpus("n1", 2), template("t"), pod("p", "x:t"), claim("a"))
    wide = [line.split() for line in allocate(tmp_path, "-o", "wide", f=text).stdout.splitlines()]
    assert wide[0] == ["CLAIM", "REQUEST", "DEVICE", "NODE", "POD"]
    assert {line[0]: line[4] for line in wide[1:3]} == {"default/p-x": "default/p", "default/a": "-"}
    names = allocate(tmp_path, "-o", "name", f=text).stdout.splitlines()
    assert sorted(names) == ["resourceclaim.resource.k8s.io/a", "resourceclaim.resource.k8s.io/p-x"]


def test_a_claim_that_is_not_allocated_has_a_line_with_counts(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1", 2), claim("a"), claim("b", 2)))
    assert result.exit_code == NO
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("not allocated"))
    assert line.startswith(
        "not allocated: claim default/b: request gpu: 2 of 2 devices match class and selectors; 1 is free; "
    )
    assert "the request needs 2 devices" in line
    assert result.stdout.splitlines()[-1] == "1 claim allocated, 1 pending"


def test_a_slice_of_a_node_that_is_gone_gives_no_device(tmp_path: Path):
    """As kube-scheduler, which knows only nodes with a Node object."""
    described = yaml.safe_dump(node("n2"))
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), described, claim("a")))
    assert result.exit_code == NO
    assert "0 are on nodes that can use them" in result.stdout
    assert "no device of nodes that are not among the Node objects is given: n1" in result.stdout


def test_the_claims_of_a_pod_are_named_with_it(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, template("t"), pod("p", "x:t", "y:t"), pod("q", "z=gone")))
    assert "not allocated: claims default/p-x, default/p-y of pod default/p: " in result.stdout
    assert "not allocated: pod default/q: claim default/gone is not among the objects read" in result.stdout
    assert result.exit_code == NO


def test_names_are_never_cut_without_a_terminal(tmp_path: Path):
    name = "n" * 200
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim(name)))
    assert name in result.stdout


def test_text_from_manifests_is_not_markup(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim("'[red]a[/red] :smile:'")))
    assert "default/[red]a[/red] :smile:" in result.stdout


@pytest.mark.parametrize("output", ["table", "yaml", "json"])
def test_control_characters_in_manifests_are_escaped(tmp_path: Path, output: str):
    names = ('"a\\e[31mb"', '"c\\rd"', '"e\\x9bf"')
    documents = (claim(name, metadata="labels: {}") for name in names)
    broken = '{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "\\ud800"}}'
    result = allocate(tmp_path, "-o", output, f=together(CLASS, gpus("n1"), *documents), g=broken)
    assert "ResourceClaim default/\\ud800: metadata.name: must be valid UTF-8 text" in result.stderr
    for text in (result.stdout, result.stderr):
        assert not set(text) & {"\x1b", "\r", "\x9b", "\ud800"}


def test_the_yaml_contains_only_the_claims(tmp_path: Path):
    result = allocate(
        tmp_path, "-o", "yaml", f=together(CLASS, gpus("n1"), claim("a"), claim("b", 2), claim("c"))
    )
    assert result.exit_code == NO
    written = list(yaml.safe_load_all(result.stdout))
    assert [one["metadata"]["name"] for one in written] == ["a", "c"]
    assert written[0]["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert written[0]["status"]["allocation"]["allocationTimestamp"].endswith("Z")
    assert "&id" not in result.stdout
    assert "not allocated: claim default/b" in result.stderr
    assert "nodes without a Node object" in result.stderr


def test_the_json_is_one_list(tmp_path: Path):
    result = allocate(tmp_path, "-o", "json", f=together(CLASS, gpus("n1"), claim("a")))
    written = json.loads(result.stdout)
    assert (written["apiVersion"], written["kind"]) == ("v1", "List")
    assert [one["metadata"]["name"] for one in written["items"]] == ["a"]


@pytest.mark.parametrize(
    ("output", "stdout"), [("yaml", ""), ("json", '{"apiVersion":"v1","kind":"List","items":[]}')]
)
def test_output_without_allocations_is_well_formed(tmp_path: Path, output: str, stdout: str):
    result = allocate(tmp_path, "-o", output, f=CLASS)
    assert "".join(result.stdout.split()) == stdout
    assert result.exit_code == ALL


def test_its_own_output_can_be_read_from_standard_input(tmp_path: Path):
    first = allocate(tmp_path, "-o", "yaml", f=together(CLASS, gpus("n1", 1), claim("a")))
    (tmp_path / "f.yaml").unlink()
    again = allocate(tmp_path, "-f", "-", stdin=first.stdout, g=together(CLASS, gpus("n1", 1), claim("b")))
    assert again.stdout.splitlines()[-1] == "0 claims allocated, 1 pending, 1 already allocated"


def test_files_can_be_arguments_without_a_flag(tmp_path: Path):
    """So that a shell pattern works."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text(together(CLASS, gpus("n1")))
    (tmp_path / "b.yaml").write_text(claim("a"))
    result = allocate(tmp_path, str(tmp_path / "b.yaml"), str(tmp_path / "sub"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (ALL, "1 claim allocated")


BAD = {
    "malformed YAML": ("a: b: c", "bad.yaml:1:5: mapping values are not allowed"),
    "a quantity that is none": (
        gpus("n9").replace("{name: gpu-0}", "{name: gpu-0, capacity: {memory: {value: 10Gib}}}"),
        "ResourceSlice n9-gpus: spec.devices[0].capacity.memory.value: '10Gib' is not a quantity",
    ),
    "an object twice": (claim("a"), "bad.yaml:1: ResourceClaim default/a: metadata.name: is also in "),
    "an unknown version": (
        claim("x").replace("/v1", "/v1alpha2"),
        "bad.yaml:1: ResourceClaim default/x: apiVersion: resource.k8s.io/v1alpha2 is not supported",
    ),
    "a document that is no object": ("- 1", "bad.yaml:1: document: is a list, not an object"),
    "a document without a kind": ("a: 1", "bad.yaml:1: document: kind: is missing"),
    "a key twice": ("kind: A\nkind: B", "bad.yaml:2:1: the key 'kind' occurs twice in one mapping"),
    "a claim whose spec is a list": (
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x}, spec: []}",
        "ResourceClaim default/x: spec: must be an object",
    ),
}


@pytest.mark.parametrize(("text", "line"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("output", ["table", "yaml"])
def test_only_invalid_input_is_refused(tmp_path: Path, text: str, line: str, output: str):
    result = allocate(tmp_path, "-o", output, good=together(CLASS, gpus("n1"), claim("a")), bad=text)
    assert result.exit_code == NO
    (refusal,) = (one for one in result.stderr.splitlines() if one.startswith("refused: "))
    assert line in refusal
    assert "gpu-0" in result.stdout


def test_the_exit_code_of_invalid_input_wins_over_pending_claims(tmp_path: Path):
    assert allocate(tmp_path, f=together(claim("a"), "- 1\n")).exit_code == NO


def test_a_missing_class_is_named(tmp_path: Path):
    result = allocate(tmp_path, f=together(gpus("n1"), claim("a", device_class="nope")))
    assert result.exit_code == NO
    assert "not allocated: claim default/a: request gpu: there is no DeviceClass nope" in result.stdout


def test_a_pool_that_is_incomplete_in_its_newest_generation_is_reported(tmp_path: Path):
    slices = gpus("n1", generation=1, slices=2, name="one"), gpus("n1", generation=2, slices=2, name="two")
    result = allocate(tmp_path, f=together(CLASS, *slices, claim("a")))
    assert result.exit_code == NO
    assert (
        "pool gpu.example.com/n1 cannot be used: 1 of 2 slices of generation 2 are published" in result.stdout
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-f", "does/not/exist.yaml"],
        ["-o", "xml", "-f", "-"],
        ["--semantics", "1.35", "-f", "-"],
        ["--feature-gates", "Nope=true", "-f", "-"],
        ["--steps", "0", "-f", "-"],
        ["--nope"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_another_exit_code_than_invalid_input(arguments: list[str]):
    result = CliRunner().invoke(main, ["allocate", *arguments], input="")
    assert result.exit_code == USAGE
    assert "Error: " in result.stderr


def test_gates_and_releases_reach_the_decision(tmp_path: Path):
    tainted = gpus("n1", 1).replace("{name: gpu-0}", "{name: gpu-0, taints: [{key: k, effect: NoSchedule}]}")
    text = together(CLASS, tainted, claim("a"))
    assert allocate(tmp_path, f=text).exit_code == NO
    assert allocate(tmp_path, "--feature-gates", "DRADeviceTaints=false", f=text).exit_code == ALL
    counters = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: elsewhere}
spec:
  driver: other.example.com
  nodeName: n2
  pool: {name: n2, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: c, counters: {m: {value: 1}}}]
"""
    every = claim("a").replace("count: 1", "allocationMode: All")
    spread = together(CLASS, gpus("n1"), counters, every)
    assert allocate(tmp_path, "--semantics", "1.37", f=spread).exit_code == ALL
    assert allocate(tmp_path, "--semantics", "1.36", f=spread).exit_code == NO  # POOL-7


def test_steps_bound_the_search(tmp_path: Path):
    result = allocate(tmp_path, "--steps", "1", f=together(CLASS, gpus("n1", 4), claim("a", 3)))
    assert result.exit_code == NO


def test_a_closed_pipe_prints_no_error(tmp_path: Path):
    (tmp_path / "f.yaml").write_text(
        together(CLASS, gpus("n1", 1), *(claim(f"claim-{n}") for n in range(2000)))
    )
    command = f"{sys.executable} -m reconciler allocate -f {tmp_path} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stderr == ""
    assert done.stdout.startswith("CLAIM")


# -- `dra-reconciler allocate` on Koordinator's Device objects and the pods that request their devices.


GPU = {"nvidia.com/gpu": 1}
ANNOTATION = (
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"80Gi",'
    '"koordinator.sh/gpu-memory-ratio":"100"},"id":"gpu-0"}]}'
)


def written(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump_all(objects)


def test_the_table_shows_the_shares_and_why_other_pods_are_pending(tmp_path: Path):
    result = allocate(tmp_path, f=written(machine("n", gpu(0)), wants("p", GPU), wants("q", GPU)))
    assert result.exit_code == NO
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["POD", "NODE", "DEVICE", "SHARE"]
    share = "gpu-core 100, gpu-memory 80Gi, gpu-memory-ratio 100"
    assert lines[1].split() == ["default/p", "n", "gpu/0", *share.split()]
    why = "0/1 nodes can give the devices: 1 with too few free devices"
    assert lines[2:] == [f"not allocated: pod default/q: {why}", "1 pod allocated, 1 pending"]


def test_wide_has_the_annotation_and_name_the_pods(tmp_path: Path):
    text = written(machine("n", gpu(0)), wants("p", GPU))
    line = allocate(tmp_path, "-o", "wide", f=text).stdout.splitlines()[1]
    assert line.split()[-1] == ANNOTATION
    assert allocate(tmp_path, "-o", "name", f=text).stdout == "pod/p\n"


def test_json_and_yaml_are_the_pods_as_run_writes_them(tmp_path: Path):
    text = written(machine("n", gpu(0)), wants("p", GPU, nodeSelector={}))
    result = allocate(tmp_path, "-o", "json", f=text)
    assert result.exit_code == ALL
    (found,) = json.loads(result.stdout)["items"]
    assert found["metadata"]["annotations"][vocabulary.ALLOCATED] == ANNOTATION
    assert "schedulingGates" not in found["spec"]
    required = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n"]
    assert found["spec"]["containers"][0]["image"] == "example.com/main"
    assert list(yaml.safe_load_all(allocate(tmp_path, "-o", "yaml", f=text).stdout)) == [found]


def test_pods_with_devices_keep_them_and_higher_priorities_come_first(tmp_path: Path):
    held = wants("held", GPU, annotations={vocabulary.ALLOCATED: ANNOTATION}, nodeName="n", gates=())
    result = allocate(
        tmp_path,
        f=written(machine("n", gpu(0), gpu(1)), held, wants("low", GPU), wants("high", GPU, priority=1)),
    )
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == ["default/high", "not"]
    assert "gpu/1" in result.stdout


def test_a_pod_gets_devices_on_a_node_where_it_can_run(tmp_path: Path):
    zone = node("b") | {"metadata": {"name": "b", "labels": {"zone": "z"}}}
    machines = [machine(name, gpu(0)) for name in ("a", "b")]
    pods = [wants("p", GPU, nodeSelector={"zone": "z"}), wants("q", GPU, nodeSelector={"zone": "x"})]
    result = allocate(tmp_path, f=written(node("a"), zone, *machines, *pods))
    assert result.stdout.splitlines()[1].split()[:2] == ["default/p", "b"]
    assert "pod default/q: 0/2 nodes can give the devices: 1 with too few free devices" in result.stdout
    assert "1 could, but the pod cannot run there" in result.stdout


def test_what_no_node_has_is_not_reported_as_held(tmp_path: Path):
    functions = {vocabulary.ALLOCATE_HINT: '{"rdma": {"vfSelector": {}}}'}
    pods = [
        wants("fpga", {"koordinator.sh/fpga": 1}),
        wants("many", {"nvidia.com/gpu": 16}),
        wants("function", {"koordinator.sh/rdma": 1}, annotations=functions),
    ]
    result = allocate(tmp_path, f=written(machine("n", gpu(0), nic(0)), *pods))
    found = dict(line.split(": ", 2)[1:] for line in result.stdout.splitlines() if line.startswith("not "))
    assert {pod: why.rpartition(": ")[2] for pod, why in found.items()} == {
        "pod default/fpga": "1 without fpga devices",
        "pod default/many": "1 with fewer than 16 gpu devices",
        "pod default/function": "1 without rdma virtual functions",
    }


def test_only_invalid_objects_are_refused(tmp_path: Path):
    bad = wants("bad", GPU, annotations={vocabulary.JOINT_ALLOCATE: "{"})
    odd = machine("odd", gpu(0) | {"minor": -1})
    both = wants("both", GPU, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    result = allocate(tmp_path, f=written(machine("n", gpu(0)), odd, bad, both, wants("p", GPU)))
    assert result.exit_code == NO
    assert "refused: " in result.stderr
    assert "Device odd" in result.stderr
    assert f"Pod default/bad: {vocabulary.JOINT_ALLOCATE}: not JSON at line 1 column 2" in result.stdout
    assert "use only one" in result.stdout


def test_the_rules_of_the_release_can_be_selected(tmp_path: Path):
    alone = {vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "PCIeLevel"}}}
    text = written(
        machine("n", nic(0, (0, "x"))), wants("a", {"rdma": 1}), wants("b", {"rdma": 1}, annotations=alone)
    )
    assert allocate(tmp_path, f=text).exit_code == NO
    assert allocate(tmp_path, "--koordinator-semantics", "upstream", f=text).exit_code == ALL


def test_the_pod_of_the_documentation_gets_devices(tmp_path: Path):
    page = (ROOT / "docs" / "koordinator.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    near = (0, "x")
    fleet = machine("n", gpu(0, near), gpu(1, near), nic(0, (0, "y"), vfs=1), nic(1, near, vfs=1))
    result = allocate(tmp_path, "-o", "json", a=written(fleet), b=example)
    assert result.exit_code == ALL
    (found,) = json.loads(result.stdout)["items"]
    given = json.loads(found["metadata"]["annotations"][vocabulary.ALLOCATED])
    assert [entry["minor"] for entry in given["gpu"]] == [0, 1]
    assert [entry["extension"]["vfs"] for entry in given["rdma"]] == [[{"busID": "01:00.0"}]]


def test_claims_and_koordinator_pods_are_printed_in_turn(tmp_path: Path):
    text = together(CLASS, gpus("n1"), claim("a"), written(machine("n", gpu(0)), wants("p", GPU)))
    result = allocate(tmp_path, f=text)
    assert "1 claim allocated" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 pod allocated"


# -- `allocate` on manifests, in this process.


ALL, NO, USAGE = 0, 1, 2


def allocate(tmp_path: Path, *options: str, stdin: str | None = None, **files: str) -> Result:
    """The outcome of `allocate` on these files, all given with -f."""
    arguments = ["allocate", *options]
    for name, text in files.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        arguments += ["-f", str(path)]
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result
