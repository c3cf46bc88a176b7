"""`dra-reconciler capacity`: the nodes to add, for manifests and for a cluster."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.embedded import serve
from tests.tools import small_fleet
from tests.tools.processes import Overheard
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, requests, template, together

FLEET = together(CLASS, gpus("n1", 2), gpus("n2", 4))


def demand(*items: str, version: str = "dra-reconciler.io/v1alpha1") -> str:
    lines = "".join(f"- {item}\n" for item in items)
    return f"apiVersion: {version}\nkind: Demand\nitems:\n{lines}"


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., Result]:
    """Runs the command on manifests: the fleet, the demand, and others as `@NAME`."""

    def run(asked: str, *arguments: str, world: str = FLEET, **files: str) -> Result:
        for name, text in {"asked": asked, "world": world, **files}.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        texts = [f"{tmp_path / arg[1:]}.yaml" if arg[:1] == "@" else arg for arg in arguments]
        first = ["--demand", str(tmp_path / "asked.yaml")] if asked else []
        first += ["-f", str(tmp_path / "world.yaml")] if world else []
        return CliRunner().invoke(main, ["capacity", *first, *texts])

    return run


def test_the_cheapest_nodes_come_first_with_what_each_holds(say):
    asked = demand(f"{{name: triple, count: 4, spec: {requests(3)}}}", "{count: 2, claim: one}")
    result = say(together(asked, claim("one")))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "add 3 nodes like n2: proven cheapest"
    tables = [line.split() for line in result.stdout.splitlines() if line]
    assert ["triple", "4", "1", "3", "n2"] in tables
    assert ["3", "x", "n2", "3", "3", "3", "yes"] in tables
    assert ["n2", "3", "1", "x", "triple"] in tables


def test_costs_decide_between_shapes_and_mix_them(say):
    asked = demand(f"{{name: one, count: 11, spec: {requests(1)}}}")
    result = say(asked, "--cost", "n2=5", "-o", "json")
    found = json.loads(result.stdout)
    told = (found["addNodes"], found["options"][0]["cost"], found["options"][0]["optimal"])
    assert told == ({"n1": 3}, 3, True)
    assert [one["nodes"] for one in found["options"]] == [{"n1": 3}, {"n2": 2}]
    assert found["items"][0]["fitNow"] == 6


def test_without_a_demand_document_each_manifest_counts_once(say):
    result = say(together(claim("a", 2), template("b", 4), pod("p", "x=c"), claim("c", 2)), "-o", "json")
    found = json.loads(result.stdout)
    assert sum(one["count"] for one in found["items"]) == 3
    assert found["addNodes"] == {"n2": 1} or found["addNodes"] == {"n1": 1}


def test_a_pod_without_claims_is_no_demand_whatever_else_it_requests(say):
    spec = {
        "containers": [
            {"name": "c", "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu": "9"}}}
        ]
    }
    asked = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    result = say(asked)
    assert (result.exit_code, "no pod with claims" in result.stderr) == (2, True), result.output


def test_what_is_pending_in_the_fleet_can_be_the_demand(say):
    result = say("", "--pending", world=together(FLEET, pod("p", "x=c"), claim("c", 4), claim("d", 4)))
    assert result.stdout.splitlines()[0] == "add 1 node like n2: proven cheapest"


def test_pods_that_run_are_part_of_the_fleet(say):
    """What they hold is held, and nothing is asked for them; a pod with a template is asked for."""
    held = yaml.safe_dump(
        {**small_fleet.claim("c"), "status": small_fleet.held("gpu.example.com", "n1", "gpu-0")}
    )
    world = together(CLASS, gpus("n1", 1), held, pod("runs", "x=c", spec="nodeName: n1"))
    assert say("", "--pending", world=world).stdout == "nothing is pending: no node is needed\n"
    waits = together(world, pod("waits", "x:t"), template("t"))
    result = say("", "--pending", world=waits)
    assert result.stdout.splitlines()[0] == "add 1 node like n1: proven cheapest"


def test_nodes_of_a_file_are_shapes(say):
    asked = demand(f"{{name: big, spec: {requests(8)}}}")
    result = say(asked, "--shape-file", "@more", more=gpus("huge", 8))
    assert result.stdout.splitlines()[0] == "add 1 node like huge: proven cheapest"


def test_what_no_shape_holds_is_named_with_the_reason(say):
    result = say(demand(f"{{name: big, spec: {requests(8)}}}"))
    assert result.exit_code == 1
    assert "big does not fit on an empty n2: NoMatchingDevice: " in result.stdout


def test_a_node_whose_counters_are_invalid_holds_nothing(say):
    draws = "{counterSet: s, counters: {other: {value: '1'}}}"
    broken = gpus("n3", 1, slices=2).replace("{name: gpu-0", f"{{name: gpu-0, consumesCounters: [{draws}]")
    sets = gpus("n3", 0, slices=2, name="sets").replace(
        "devices: []", "sharedCounters: [{name: s, counters: {m: {value: '4'}}}]"
    )
    result = say(
        together(demand("{count: 1, claim: one}"), claim("one")), world=together(CLASS, broken, sets)
    )
    assert result.exit_code == 1, result.output
    assert "one does not fit on an empty n3: InvalidPool" in result.stdout


def test_room_for_pods_on_new_nodes_counts(say):
    """Two pods of 5 CPU need two nodes of 8, although one has devices for both."""
    world = together(
        CLASS,
        node("n1").replace("metadata", "status: {allocatable: {cpu: '8', pods: '9'}}, metadata"),
        gpus("n1", 4),
    )
    spec = "containers: [{name: main, resources: {requests: {cpu: '5'}}}]"
    asked = together(demand("{count: 4, pod: p}"), pod("p", "x:t", spec=spec), template("t"))
    result = say(asked, "-o", "json", world=world)
    best = json.loads(result.stdout)["options"][0]
    assert (best["total"], best["optimal"]) == (3, True)


@pytest.mark.loopback
async def test_a_cluster_is_only_read(say):
    api = Overheard()
    nodes = together(node("n1"), node("n2"))
    gates = "schedulingGates: [{name: dra-reconciler.io/allocation}]"
    gated = pod("p", "x=d", spec=f"{gates}, containers: [{{name: main, image: example.com/main}}]")
    api.load([*yaml.safe_load_all(together(FLEET, nodes, claim("c", 4), claim("d", 3), gated))])
    async with serve(api) as url:
        pending = await asyncio.to_thread(say, "", "--pending", "--server", url, world="")
        asked = await asyncio.to_thread(say, claim("e"), "--server", url, world="")
    assert pending.stdout.splitlines()[0] == "add 1 node like n2: proven cheapest", pending.output
    assert asked.stdout.splitlines()[0] == "fits now: no node is needed"
    assert set(api.methods) == {"GET"}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("{count: -1, claim: one}", "items[0].count: must be a whole number from 0 to 100000"),
        ("{count: 1}", "items[0]: must have exactly one of spec, pod, claim and template"),
        ("{claim: won}", "names claim default/won, which is not pending in the same manifests; did you mean"),
        ("{count: 0, claim: one}", "items: must ask for something: set the count of one to 1 or more"),
        ("{claim: one, cuont: 2}", "items[0].cuont: is not known; did you mean count?"),
        ("{spec: {devices: {requests: [{name: 7}]}}}", "items[0].spec: "),
    ],
)
def test_an_invalid_item_is_named_with_its_field(say, item: str, message: str):
    result = say(together(demand(item), claim("one")))
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "n3"], "--shape: there is no node n3; known nodes (2): n1, n2"),
        (["--cost", "n3=1"], "--cost: there is no shape n3; known shapes (2): n1, n2"),
        (["--cost", "n1=free"], "--cost n1=free: write NODE=COST with a positive number"),
        (["--pending"], "Name a demand: either --demand FILE, or --pending."),
    ],
)
def test_wrong_options_are_explained(say, arguments: list[str], message: str):
    result = say(claim("one"), *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


KARPENTER_NODE = {
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "topology.kubernetes.io/zone": "a",
    "karpenter.k8s.aws/ec2nodeclass": "gpus",
    "karpenter.k8s.aws/instance-gpu-count": "8",
    "karpenter.sh/nodepool": "training",
    "eks.amazonaws.com/nodegroup": "big",
    "team": "research",
}


def labelled_fleet(**labels: str) -> str:
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": labels}}
    made["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    return together(FLEET, yaml.safe_dump(made))


TRIPLES = demand(f"{{name: triple, count: 4, spec: {requests(3)}}}")


def test_new_nodes_as_node_claims_of_karpenter(say):
    result = say(TRIPLES, "-o", "nodeclaims", "--shape", "n2", world=labelled_fleet(**KARPENTER_NODE))
    assert result.exit_code == 0, result.output
    first, *others = yaml.safe_load_all(result.stdout)
    assert others == [first] * 2
    kept = ("karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "team")
    labels = {key: KARPENTER_NODE[key] for key in kept}
    assert first["metadata"] == {"generateName": "n2-", "labels": labels}
    assert first["spec"] == {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpus"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
        ],
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
    }


def test_new_nodes_as_growth_of_node_groups(say):
    result = say(TRIPLES, "-o", "nodegroups", "--shape", "n2", world=labelled_fleet(**KARPENTER_NODE))
    assert yaml.safe_load(result.stdout) == {"id": "big", "delta": 3}


@pytest.mark.parametrize(
    ("devices", "code", "said"),
    [
        (1, 0, "note: all fits now; no nodes are named\n"),
        (9, 1, "note: part fits on no shape, see -o table; no nodes are named\n"),
    ],
)
@pytest.mark.parametrize("output", ["nodeclaims", "nodegroups"])
def test_an_answer_without_new_nodes_says_why(say, output: str, devices: int, code: int, said: str):
    asked = demand(f"{{name: some, count: 1, spec: {requests(devices)}}}")
    result = say(asked, "-o", output, world=labelled_fleet(**KARPENTER_NODE))
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


@pytest.mark.parametrize(
    ("output", "labels", "missing"),
    [
        ("nodeclaims", {}, "karpenter.k8s.aws/ec2nodeclass"),
        ("nodeclaims", {"karpenter.k8s.aws/ec2nodeclass": "a"}, "node.kubernetes.io/instance-type"),
        ("nodegroups", {}, "eks.amazonaws.com/nodegroup"),
    ],
)
def test_a_shape_that_an_autoscaler_cannot_make_is_named(say, output: str, labels, missing: str):
    result = say(TRIPLES, "-o", output, "--shape", "n2", world=labelled_fleet(**labels))
    assert result.exit_code == 2
    assert "node n2 has none of the labels" in result.stderr
    assert missing in result.stderr
