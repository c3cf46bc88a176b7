"""`dra-reconciler allocate` on Koordinator's Device objects and the pods that request their devices."""

import json
from pathlib import Path
from typing import Any

import yaml

from reconciler.plugins.koordinator import names
from tests.tools.allocate_command import ALL, NO, allocate
from tests.tools.checkout import ROOT
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.short_manifests import CLASS, claim, gpus, together
from tests.tools.small_fleet import node

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
    assert found["metadata"]["annotations"][names.ALLOCATED] == ANNOTATION
    assert "schedulingGates" not in found["spec"]
    required = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n"]
    assert found["spec"]["containers"][0]["image"] == "example.com/main"
    assert list(yaml.safe_load_all(allocate(tmp_path, "-o", "yaml", f=text).stdout)) == [found]


def test_pods_with_devices_keep_them_and_higher_priorities_come_first(tmp_path: Path):
    held = wants("held", GPU, annotations={names.ALLOCATED: ANNOTATION}, nodeName="n", gates=())
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
    functions = {names.ALLOCATE_HINT: '{"rdma": {"vfSelector": {}}}'}
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
    bad = wants("bad", GPU, annotations={names.JOINT_ALLOCATE: "{"})
    odd = machine("odd", gpu(0) | {"minor": -1})
    both = wants("both", GPU, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    result = allocate(tmp_path, f=written(machine("n", gpu(0)), odd, bad, both, wants("p", GPU)))
    assert result.exit_code == NO
    assert "refused: " in result.stderr
    assert "Device odd" in result.stderr
    assert f"Pod default/bad: {names.JOINT_ALLOCATE}: not JSON at line 1 column 2" in result.stdout
    assert "use only one" in result.stdout


def test_the_rules_of_the_release_can_be_selected(tmp_path: Path):
    alone = {names.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "PCIeLevel"}}}
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
    given = json.loads(found["metadata"]["annotations"][names.ALLOCATED])
    assert [entry["minor"] for entry in given["gpu"]] == [0, 1]
    assert [entry["extension"]["vfs"] for entry in given["rdma"]] == [[{"busID": "01:00.0"}]]


def test_claims_and_koordinator_pods_are_printed_in_turn(tmp_path: Path):
    text = together(CLASS, gpus("n1"), claim("a"), written(machine("n", gpu(0)), wants("p", GPU)))
    result = allocate(tmp_path, f=text)
    assert "1 claim allocated" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 pod allocated"
