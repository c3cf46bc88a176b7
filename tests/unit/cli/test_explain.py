"""`dra-reconciler explain`: output, input and exit codes."""

import json

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.cli.output import plain
from reconciler.embedded import ApiServer
from tests.tools.processes import answered, served
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, template, together

FLEET = together(CLASS, gpus("n1", 2), gpus("n2", 1))


def explain(*arguments: str, manifests: str = "") -> Result:
    files = ["-f", "-"] if manifests else []
    return CliRunner().invoke(main, ["explain", *arguments, *files], input=manifests)


def test_a_pending_claim_is_explained_with_funnel_nearest_miss_and_remedy():
    result = explain("default/big", manifests=together(FLEET, claim("big", 3)))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("claim default/big: NeverFits: request gpu: 3 of 3 devices match")
    assert "request gpu of claim default/big needs 3 devices" in lines
    bars = {words: bar for left, bar, words in (line.split(maxsplit=2) for line in lines[3:] if "█" in line)}
    assert len(bars["class gpu"]) == 24
    assert any(line.split() == ["0", "3", "devices", "on", "one", "node"] for line in lines)
    assert "nearest miss: n1: 2 of 3 for request gpu; the node has no other device" in lines
    assert lines[-1].startswith("what to do: Waiting does not help. Request less")


IGNORED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: ignored}
spec:
  driver: gpu.example.com
  nodeName: n3
  pool: {name: n3, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, taints: [{key: k, effect: NoSchedule}, {key: l, effect: NoExecute}]}
  - {name: gpu-1, nodeAllocatableResources: {cpu: {overhead: {perPod: "1"}}}}
  - {name: gpu-2, allowMultipleAllocations: true}
"""
RULE = """\
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: rule}
spec: {deviceSelector: {driver: gpu.example.com}, taint: {key: k, effect: NoSchedule}}
"""


def test_what_is_ignored_without_its_gate_is_told_once():
    off = [
        *("DRADeviceTaints", "DRADeviceTaintRules", "DRANodeAllocatableResources"),
        "DRAConsumableCapacity",
    ]
    gates = ("--feature-gates", ",".join(f"{gate}=false" for gate in off))
    manifests = together(FLEET, IGNORED, RULE, claim("big", 4))
    said = explain("big", *gates, manifests=manifests).stdout.splitlines()
    assert "taints of 1 device are ignored: the feature gate DRADeviceTaints is off" in said
    used = "nodeAllocatableResources of 1 device are ignored: the feature gate DRANodeAllocatableResources"
    assert f"{used} is off" in said
    assert "shares of 1 device are ignored: the feature gate DRAConsumableCapacity is off" in said
    assert "ignored" not in explain("big", manifests=manifests).stdout
    found = CliRunner().invoke(main, ["doctor", *gates, "-f", "-"], input=manifests).stdout
    fields = ("taints", off[0]), ("spec", off[0]), ("taint", off[1]), ("nodeAllocatable", off[2])
    for field, gate in (*fields, ("allowMultipleAllocations", off[3])):
        assert any(f"ignored: {field}" in line and gate in line for line in found.splitlines())


def test_earlier_claims_hold_devices_as_in_allocate():
    wanted = [
        claim(name, metadata=f"creationTimestamp: '2026-01-0{n}T00:00:00Z'")
        for n, name in enumerate("abcd", 1)
    ]
    result = explain("d", manifests=together(FLEET, *wanted))
    assert result.exit_code == 1
    assert "gpu-0 is held by default/a; gpu-1 is held by default/b" not in result.stdout  # one is wanted
    assert "nearest miss: n1: 0 of 1 for request gpu; gpu-0 is held by default/a" in result.stdout
    assert explain("c", manifests=together(FLEET, *wanted)).exit_code == 0


def test_a_claim_that_can_be_allocated_shows_its_node():
    result = explain("one", manifests=together(FLEET, claim("one")))
    assert result.exit_code == 0
    assert result.stdout.startswith("claim default/one: can be allocated on node n1\n")
    assert "what to do" not in result.stdout


@pytest.mark.parametrize(("asked", "who"), [(["one"], ""), (["p", "--pod"], "one: ")])
def test_what_is_allocated_shows_its_devices(asked: list[str], who: str):
    held = yaml.safe_load(claim("one"))
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}
    held["status"] = {"allocation": {"devices": {"results": [device]}}}
    result = explain(*asked, manifests=together(FLEET, yaml.safe_dump(held), pod("p", "gpu=one")))
    said = f"default/{asked[0]}: allocated: {who}gpu.example.com/n1/gpu-1 for request gpu\n"
    assert (result.exit_code, result.stdout) == (0, said)


def test_all_claims_of_a_pod_are_explained_together():
    objects = together(FLEET, template("t", 1), claim("two", 2), pod("p", "a=two", "b:t"))
    by_pod, by_claim = explain("--pod", "p", manifests=objects), explain("two", manifests=objects)
    assert by_pod.stdout == by_claim.stdout
    assert by_pod.exit_code == 1
    assert by_pod.stdout.startswith("claims default/two, default/p-b: NeverFits: ")
    assert "these cannot hold together: default/two gpu, default/p-b gpu" in by_pod.stdout


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_contain_everything(output: str):
    result = explain("big", "-o", output, manifests=together(FLEET, claim("big", 3)))
    (told,) = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert (told["claims"], told["allocatable"], told["reason"]) == (["default/big"], False, "NeverFits")
    (request,) = told["requests"]
    assert [step["gate"] for step in request["funnel"]] == [
        "class", "taints", "held", "capacity", "counters", "nodes", "enough", "together",
    ]  # fmt: skip
    assert (request["wanted"], request["devices"], request["left"]) == (3, 3, 0)
    assert request["smallestSets"] == [[]]
    why = ["the node has no other device"]
    lacks = [{"claim": "default/big", "request": "gpu", "have": 2, "wanted": 3, "why": why}]
    assert told["nearest"][0] == {"node": "n1", "lacks": lacks, "together": ""}


def test_a_pod_whose_claim_is_missing_cannot_be_allocated():
    result = explain("--pod", "p", manifests=together(FLEET, pod("p", "a=nowhere")))
    said = "default/p: ClaimNotFound: claim default/nowhere is not among the objects read\n"
    assert (result.exit_code, result.stdout) == (1, said)


def test_a_pod_without_claims_is_not_pending():
    result = explain("--pod", "p", "-o", "json", manifests=together(FLEET, pod("p")))
    assert result.exit_code == 0
    assert json.loads(result.stdout)[0]["allocatable"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "there is no claim default/missing"),
        (["missing", "-n", "other"], "there is no claim other/missing"),
        (["--pod", "missing"], "there is no pod default/missing"),
        (["p"], "there is no claim default/p; there is a pod of that name; use --pod to explain it"),
    ],
)
def test_an_unknown_name_is_a_usage_error(arguments: list[str], message: str):
    result = explain(*arguments, manifests=together(FLEET, pod("p")))
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_files_and_a_cluster_exclude_each_other():
    result = explain("c", "--server", "http://127.0.0.1:1", manifests=FLEET)
    assert result.exit_code == 2
    assert "not both" in result.stderr


def test_control_characters_in_names_are_escaped():
    strange = claim("c", device_class='"\\e[31m"')
    result = explain("c", manifests=together(FLEET, strange))
    assert "\x1b" not in result.stdout
    assert plain("\x1b[31m") in result.stdout


# -- a cluster


async def ask(api: ApiServer, *arguments: str) -> Result:
    return await answered(api, "explain", *arguments)


@pytest.mark.loopback
async def test_pending_claims_on_a_cluster_hold_nothing():
    """Other pending claims do not come first."""
    api = served(FLEET, node("n1"), node("n2"), claim("first", 2), claim("late", 2), claim("big", 3))
    fine, waits = await ask(api, "late"), await ask(api, "big", "-o", "json")
    assert (fine.exit_code, waits.exit_code) == (0, 1)
    assert "can be allocated on node n1" in fine.stdout
    assert json.loads(waits.stdout)[0]["reason"] == "NeverFits"


@pytest.mark.loopback
async def test_nodes_that_the_reconciler_does_not_use_are_not_used():
    cordoned = "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: true}}\n"
    api = served(FLEET, cordoned, node("n2"), claim("two", 2))
    result = await ask(api, "two", "-o", "json")
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)
    assert (told["nodesConsidered"], [miss["node"] for miss in told["nearest"]]) == (1, ["n2"])


@pytest.mark.loopback
async def test_the_pod_of_a_claim_limits_the_nodes():
    bound = pod("p", "a=one", spec="nodeSelector: {zone: b}, containers: [{name: main, image: main}]")
    api = served(FLEET, node("n1", zone="a"), node("n2", zone="b"), claim("one", 2), bound)
    by_claim, by_pod = await ask(api, "one"), await ask(api, "p", "--pod")
    assert by_claim.stdout == by_pod.stdout
    assert "nearest miss: n2: 1 of 2" in by_claim.stdout
    assert "n1" not in by_claim.stdout


@pytest.mark.loopback
async def test_a_claim_that_is_not_managed_is_explained_with_a_note():
    labelled = claim("ours", metadata='labels: {dra-reconciler.io/managed: "true"}')
    api = served(FLEET, node("n1"), node("n2"), claim("theirs"), labelled)
    theirs, ours = await ask(api, "theirs"), await ask(api, "ours")
    assert "\nnote: default/theirs: dra-reconciler allocates it only with " in theirs.stderr
    assert (theirs.exit_code, ours.exit_code, "note" in ours.stderr) == (0, 0, False)


@pytest.mark.loopback
async def test_a_blocked_pod_on_a_cluster_has_a_reason():
    waiting = pod("p", "a=nowhere", spec="containers: [{name: main, image: main}]")
    gated = waiting.replace("spec: {", "spec: {schedulingGates: [{name: dra-reconciler.io/allocation}], ")
    result = await ask(served(FLEET, node("n1"), gated), "p", "--pod")
    said = "default/p: ClaimNotFound: claim default/nowhere does not exist\n"
    assert (result.exit_code, result.stdout) == (1, said)
