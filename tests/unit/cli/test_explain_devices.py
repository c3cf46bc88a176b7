"""`dra-reconciler explain --pod` for pods that request Koordinator's devices."""

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.plugins.koordinator import vocabulary
from tests.tools.builders import device_class, gpu_slice
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import KoordinatorCluster, machine, node, wants
from tests.tools.processes import answered

ONE, TWO = {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}
BESIDE = {
    vocabulary.JOINT_ALLOCATE: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
    vocabulary.ALLOCATE_HINT: {"rdma": {"vfSelector": {}}},
}


def explain(*arguments: str, objects: list[dict[str, Any]] | None = None) -> Result:
    files = ["-f", "-"] if objects else []
    text = yaml.safe_dump_all(objects or [])
    return CliRunner().invoke(main, ["explain", "--pod", *arguments, *files], input=text)


def funnel(result: Result) -> dict[str, int]:
    (told,) = json.loads(result.stdout)
    return {step["about"]: step["left"] for step in told["requests"][-1]["funnel"]}


def test_a_pending_pod_is_explained_by_gate_and_node_with_holders_and_remedy():
    older = wants("older", ONE) | {}
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    machines = [machine("a", gpu(0), gpu(1, health=False)), machine("b", gpu(0))]
    result = explain("late", objects=[*machines, older, wants("late", TWO)])
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    head, _, counts = lines[0].rpartition(": ")
    assert head == "pod default/late: UnhealthyDevices: 0/2 nodes can give the devices"
    assert counts == "1 with enough devices only if all were healthy, 1 with fewer than 2 gpu devices"
    assert "request gpu of pod default/late needs 2 devices" in lines
    assert any(line.split() == ["2", "█" * 16, "health"] for line in lines)
    assert "nearest miss: b: 1 of 2 for request gpu; the node has no other gpu device" in lines
    assert any("gpu 0 has too little free (held by default/older)" in line for line in lines)
    assert lines[-1].startswith("what to do: Repair the devices.")


def test_a_pod_that_fits_names_its_node():
    result = explain("p", objects=[machine("n", gpu(0)), wants("p", ONE)])
    assert result.exit_code == 0
    assert result.stdout.startswith("pod default/p: can be allocated on node n\n")
    assert "nearest miss" not in result.stdout


def test_json_has_the_same_fields_as_for_claims():
    result = explain("p", "-o", "json", objects=[machine("n", gpu(0)), wants("p", TWO)])
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)
    assert (told["pod"], told["claims"], told["reason"]) == ("default/p", [], "ExceedsNodeCapacity")
    (request,) = told["requests"]
    assert [step["gate"] for step in request["funnel"]] == [
        "selector", "taints", "capacity", "groups", "held", "enough",
    ]  # fmt: skip
    assert (request["wanted"], request["devices"], request["smallestSets"]) == (2, 1, [[]])
    assert told["nearest"][0]["lacks"][0]["have"] == 1


def test_the_gate_of_several_devices_is_named_and_whether_waiting_helps():
    apart = machine("n", gpu(0, (0, "a")), nic(0, (0, "b"), vfs=1))
    never = explain("p", "-o", "json", objects=[apart, wants("p", ONE | {"rdma": 1}, annotations=BESIDE)])
    assert json.loads(never.stdout)[0]["reason"] == "JointScopeImpossible"
    found = funnel(never)
    assert (found["free virtual functions"], found["all types on one node"]) == (1, 1)
    assert found["all types on common PCIe switches"] == 0
    assert json.loads(never.stdout)[0]["nearest"][0]["together"]


def test_nodes_where_the_pod_cannot_run_are_a_gate():
    zoned = wants("p", ONE, nodeSelector={"zone": "z"})
    result = explain("p", "-o", "json", objects=[node("n"), machine("n", gpu(0)), zoned])
    assert result.exit_code == 1
    assert funnel(result)["nodes where the pod can run"] == 0
    assert json.loads(result.stdout)[0]["reason"] == "NoSuitableNode"


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"annotations": {vocabulary.ALLOCATED: '{"gpu":[{"minor":0}]}'}, "nodeName": "n"}, 0, "allocated: "),
        ({"annotations": {vocabulary.ALLOCATE_HINT: '{"tpu": {}}'}}, 1, "MalformedAnnotation: "),
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}, 1, "TwoKindsOfDevices: "),
    ],
)
def test_pods_that_need_no_decision_say_why(fields: dict[str, Any], code: int, said: str):
    result = explain("p", objects=[machine("n", gpu(0)), wants("p", ONE, **fields)])
    assert (result.exit_code, said in result.stdout) == (code, True), result.output


def test_without_a_device_object_the_pod_is_explained_too():
    result = explain("p", objects=[wants("p", ONE)])
    assert result.exit_code == 1
    assert result.stdout.startswith("pod default/p: NoDevicesOfType: no node has a Device object")


SERVED = device_class("gpu")
SERVED["spec"]["extendedResourceName"] = "nvidia.com/gpu"


def test_a_class_serves_the_same_name_unless_there_are_device_objects():
    some = [SERVED, gpu_slice("n1"), node("n1"), wants("p", ONE)]
    result = explain("p", objects=some)
    assert (result.exit_code, "p-extended-resources" in result.stdout) == (0, True), result.output
    result = explain("p", objects=[*some, machine("n", gpu(0))])
    assert "p-extended-resources" not in result.stdout


@pytest.mark.loopback
async def test_a_class_of_a_cluster_serves_the_same_name():
    cluster = KoordinatorCluster([SERVED, gpu_slice("n1"), node("n1"), wants("p", ONE)])
    result = await answered(cluster.api, "explain", "--pod", "p")
    assert (result.exit_code, "p-extended-resources" in result.stdout) == (0, True), result.output


@pytest.mark.loopback
async def test_an_invalid_object_of_a_cluster_is_named_once():
    invalid = machine("n2", gpu(0))
    invalid["spec"]["devices"][0]["resources"] = {"koordinator.sh/gpu-core": "abc"}
    cluster = KoordinatorCluster([node("n1"), machine("n1", gpu(0)), invalid, wants("p", ONE)])
    result = await answered(cluster.api, "explain", "--pod", "p")
    assert (result.exit_code, result.output.count("refused: Device n2: ")) == (0, 1), result.output


def test_the_release_can_be_asked():
    pod = wants("p", {"rdma": 1}, annotations={vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "No"}}})
    objects = [machine("n", nic(0)), pod]
    assert explain("p", objects=objects).exit_code == 1
    assert explain("p", "--koordinator-semantics", "upstream", objects=objects).exit_code == 0


@pytest.mark.loopback
async def test_a_pod_on_a_cluster_is_explained_as_the_reconciler_meets_it():
    """Other pending pods do not come first; pods with devices hold them."""
    held = {vocabulary.ALLOCATED: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'}
    cluster = KoordinatorCluster(
        [
            node("n"),
            machine("n", gpu(0), gpu(1)),
            wants("held", ONE, annotations=held, gates=(), nodeName="n"),
            wants("first", ONE),
            wants("late", ONE),
            wants("big", TWO),
            wants("free", ONE, gates=()),
        ]
    )
    fits, waits, free = [
        await answered(cluster.api, "explain", "--pod", name) for name in ("late", "big", "free")
    ]
    assert (fits.exit_code, waits.exit_code) == (0, 1), waits.output
    assert waits.stdout.startswith("pod default/big: InsufficientDevices: ")
    assert "gpu 0 has too little free (held by default/held)" in waits.stdout
    assert "note: dra-reconciler serves only pods with the scheduling gate" in free.stderr
