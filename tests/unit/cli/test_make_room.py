"""`make-room` and `drain`: their tables, JSON, and what they say where there is nothing to ask."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.embedded import ApiServer
from tests.tools.processes import answered
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, template, together

OWNER = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]"
HELD = """\
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
  reservedFor: [{resource: pods, name: old, uid: u}]
"""
OLD = together(claim("old") + HELD, pod("old", "c=old", spec="nodeName: n1", metadata=f"uid: u, {OWNER}"))
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {selector: {}}
"""
NODES = together(node("n1"), node("n2"))
WORLD = together(CLASS, NODES, gpus("n1"), gpus("n2", 1), OLD, BUDGET)
GANG = "annotations: {dra-reconciler.io/gang: g, dra-reconciler.io/gang-size: '2'}"
GATED = "priority: 9, schedulingGates: [{name: dra-reconciler.io/allocation}]"
MEMBERS = together(
    template("two", 2), *(pod(name, "c:two", spec=GATED, metadata=GANG) for name in ("m1", "m2"))
)


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., Result]:
    """Runs a command on manifests."""

    def run(*arguments: str, more: str = "") -> Result:
        (tmp_path / "all.yaml").write_text(together(WORLD, more) if more else WORLD)
        return CliRunner().invoke(main, [*arguments, "-f", str(tmp_path / "all.yaml")])

    return run


PAIR = claim("pair", 2)
IMPORTANT = together(PAIR, pod("big", "c=pair", spec="priority: 1000"))


def test_the_victims_what_they_free_and_where_they_could_go(say):
    result = say("make-room", "pair", more=IMPORTANT)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith("fits without 1 pod of lower priority: pod default/big\n")
    assert "budget default/keep does not allow 1 eviction of these" in result.stdout
    assert "proved: nothing costs less" in result.stdout
    assert ["default/old", "gpu.example.com/n1/gpu-0", "n2,", "gpu.example.com/n2/gpu-0"] in lines
    assert ["default/big", "default/pair", "gpu", "gpu.example.com/n1/gpu-1", "n1"] in lines


def test_the_answer_for_programs(say):
    result = say("make-room", "big", "--pod", "-o", "json", more=IMPORTANT)
    found = json.loads(result.stdout)
    assert (found["wanted"], found["priority"], found["optimal"]) == ("pod default/big", 1000, True)
    assert found["budgetsViolated"] == [{"budget": "default/keep", "evictions": 1}]
    assert [one["pods"] for one in found["evict"]] == [["default/old"]]
    assert {one["device"] for one in found["places"][0]["devices"]} == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["pair"], 1, "no room can be made: claim default/pair: NoRoomToMake: there is no pod of lower"),
        (["pair", "--priority", "1"], 0, "fits without 1 pod of lower priority: claim default/pair"),
        (["pair", "--priority", "1", "--moves-only"], 0, "fits without 1 pod"),
        (["old"], 0, "default/old: the claim is allocated\n"),
        (["old", "--pod"], 0, "default/old: the pod has no pending claims\n"),
        (["piar"], 2, "there is no claim default/piar; did you mean default/pair?"),
        (["old2", "--pod"], 2, "there is no pod default/old2; did you mean default/old?"),
        (["g", "--gang"], 2, "no pod is of a gang default/g"),
        (["a/b/c"], 2, "'a/b/c' is not a name: write NAME or NAMESPACE/NAME"),
        (["pair", "--pod", "--gang"], 2, "of a pod or of a gang, not both"),
    ],
)
def test_what_is_asked_about(say, asked: list[str], code: int, said: str):
    result = say("make-room", *asked, more=PAIR)
    assert said in result.output
    assert result.exit_code == code


GROUP = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: h}
spec: {schedulingPolicy: {gang: {minCount: 1}}, preemptionPolicy: PreemptLowerPriority}
"""
NEVER = f"preemptionPolicy: Never, schedulingGroup: {{podGroupName: h}}, {GATED}"


def test_the_policy_of_a_group_counts_only_with_its_gate(say):
    """Its pod says Never, and the group that others may leave."""
    of_group = together(template("two", 2), GROUP, pod("m3", "c:two", spec=NEVER))
    assert "is Never" not in say("make-room", "m3", "--pod", more=of_group).stdout
    off = ("--feature-gates", "PodGroupPreemptionPolicy=false")
    assert (
        "preemptionPolicy of gang default/h is Never; the PreemptLowerPriority of PodGroup default/h needs "
        "the feature gate PodGroupPreemptionPolicy; it is off"
    ) in say("make-room", "m3", "--pod", *off, more=of_group).stdout
    assert "Never" not in say("doctor", more=of_group).stdout


def test_a_gang_by_its_name_or_by_one_of_its_pods(say):
    by_name = say("make-room", "g", "--gang", more=MEMBERS)
    assert "no room can be made: gang default/g: NoRoomToMake" in by_name.stdout
    assert say("make-room", "m2", "--pod", more=MEMBERS).stdout == by_name.stdout
    never = MEMBERS.replace(GATED, f"preemptionPolicy: Never, {GATED}")
    assert "preemptionPolicy of gang default/g is Never" in say("make-room", "g", "--gang", more=never).stdout
    equal = say("make-room", "g", "--gang", "--priority", "0", more=MEMBERS)
    assert "there is no pod of lower priority" in equal.stdout
    assert "there is no pod of lower priority" not in by_name.stdout
    more = together(MEMBERS, gpus("n3", 2), node("n3"))
    result = say("make-room", "g", "--gang", "-o", "json", more=more)
    assert [one["node"] for one in json.loads(result.stdout)["places"]] == ["n1", "n3"]


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["n1"], 0, "can be emptied, in this order: 1 step\nbudget default/keep allows no eviction now"),
        (["n1", "n2"], 1, "cannot be emptied: 1 of 1\n"),
        (["n2"], 0, "empty: nothing that has to go elsewhere\n"),
        (["--pool", "n1"], 0, "n2, gpu.example.com/n2/gpu-0"),
        (["--pool", "x"], 2, "there is no device in pool x"),
        (["--driver-version", "1.2"], 2, "there is no device with driverVersion 1.2"),
        (["--taint", "broken"], 2, "there is no device with taint broken"),
        (["n3"], 2, "there is no node n3; known nodes (2): n1, n2"),
        ([], 2, "Name nodes, or one of --pool, --driver-version and --taint"),
        (["n1", "--pool", "n1"], 2, "Name nodes, or one of"),
    ],
)
def test_drains(say, asked: list[str], code: int, said: str):
    result = say("drain", *asked)
    assert said in result.output
    assert result.exit_code == code


def test_the_steps_of_a_drain_for_programs(say):
    found = yaml.safe_load(say("drain", "n1", "-o", "yaml").stdout)
    assert (found["empties"], found["stuck"]) == (True, [])
    (step,) = found["steps"]
    assert step["goesTo"][0]["node"] == "n2"
    assert step["waitsForBudgets"] == ["default/keep"]


@pytest.mark.loopback
async def test_a_cluster_is_read_with_its_budgets():
    """The server gives pods other uids, so the claim is not reserved yet."""
    api = ApiServer()
    for one in yaml.safe_load_all(together(WORLD, IMPORTANT)):
        if one["kind"] == "Pod":
            one["spec"]["containers"] = [{"name": "main", "image": "example.com/main"}]
        one.get("status", {}).pop("reservedFor", None)
        api.load([one])
    result = await answered(api, "make-room", "pair", "-n", "default", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["evict"][0]["pods"] == ["default/old"]


def test_koordinators_devices_are_not_placed(say):
    spec = "nodeName: n2, containers: [{name: m, resources: {requests: {koordinator.sh/gpu: 100}}}]"
    held = f"{OWNER}, annotations: {{scheduling.koordinator.sh/device-allocated: '{{}}'}}"
    other = pod("other", spec=spec, metadata=held)
    result = say("drain", "n2", more=other)
    assert "KoordinatorDevices: pod default/other holds Koordinator's devices" in result.stdout
    assert result.exit_code == 1
    result = say("make-room", "other", "--pod", more=pod("other", spec=spec.partition(", ")[2]))
    assert "the pod requests Koordinator's devices" in result.stdout
    assert result.exit_code == 1
