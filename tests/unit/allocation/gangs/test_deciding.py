"""Which domain a gang gets, which pods are left out, and what a refusal says."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED, SelectorsNotRun, StepLimit
from reconciler.allocation.gangs.deciding import decide_gang, too_few
from reconciler.allocation.gangs.kinds import (
    NO_TOPOLOGY,
    UNPLACED,
    GangGranted,
    GangQuestion,
    GangUnsatisfied,
    Member,
    kinds_of,
    pod_interactions,
)
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.plan import Granted, Reason
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Forked, Trial
from tests.tools.alignment_world import classes, gpu_nic_claim
from tests.tools.alignment_world import machine as gpu_nic_machine
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    gpu_slice,
    held,
    hold,
    request,
    resource_slice,
    store,
)
from tests.tools.scenario import asking, machine, sized

STEPS = 1_000
RACK, BLOCK = Tier("rack", required=True), Tier("block", required=True)
NEAR_RACK, NEAR_BLOCK = Tier("rack", required=False), Tier("block", required=False)


def node(name: str, cpu: str = "64", **labels: Any) -> Object:
    made = machine(name)
    made["metadata"]["labels"] |= labels
    return sized(made, cpu=cpu)


def world(*objects: Object, on_wanted: Any = None) -> Trial:
    nodes = Nodes(on_wanted=on_wanted)
    for one in objects:
        if one["kind"] == "Node":
            nodes.note(Changed("Node", Node.model_validate(one)))
    return Trial(store(device_class(), *objects), nodes, supposed=False)


def racks(sizes: Sequence[int], gpus: int = 8, racks_a_block: int = 2) -> list[Object]:
    """Racks with so many nodes each: `r0-0` and so on."""
    made = []
    for rack, size in enumerate(sizes):
        for n in range(size):
            name = f"r{rack}-{n}"
            labels = {"rack": f"r{rack}", "block": f"b{rack // racks_a_block}"}
            made += [node(name, **labels), gpu_slice(name, gpus)]
    return made


def member(name: str, gpus: int = 8, raw: Object | None = None, **spec: Any) -> Member:
    wanted = claim(name, request(count=gpus)) if raw is None else raw
    pod = asking(name, name, cpu="1", **spec)
    pod["metadata"]["labels"] = {"index": name}
    return Member(Pod.model_validate(pod), (ResourceClaim.model_validate(wanted),))


def gang(pods: int, *tiers: Tier, gpus: int = 8, least: int | None = None, **more: Any) -> GangQuestion:
    members = tuple(member(f"p{n}", gpus) for n in range(pods))
    return question(members, *tiers, least=least, **more)


def question(members: Sequence[Member], *tiers: Tier, least: int | None = None, **more: Any) -> GangQuestion:
    key = GangKey("default", GangSource.ANNOTATION, "g")
    return GangQuestion(key, tuple(members), len(members) if least is None else least, tiers, **more)


def answer(trial: Trial, asked: GangQuestion, steps: int = STEPS) -> GangGranted | GangUnsatisfied:
    return decide_gang(asked, trial, steps=steps, budget=UNLIMITED)


def granted(trial: Trial, asked: GangQuestion, steps: int = STEPS) -> GangGranted:
    outcome = answer(trial, asked, steps)
    assert isinstance(outcome, GangGranted), outcome
    return outcome


def refused(trial: Trial, asked: GangQuestion, steps: int = STEPS) -> GangUnsatisfied:
    outcome = answer(trial, asked, steps)
    assert isinstance(outcome, GangUnsatisfied), outcome
    return outcome


def nodes_of(outcome: GangGranted) -> list[str]:
    return [seat.node for seat in outcome.seats]


def test_the_smallest_domain_that_suffices_is_chosen_then_the_first_by_name():
    """r0 has three nodes, r1 and r2 have two, r3 has one."""
    trial = world(*racks([3, 2, 2, 1]))
    outcome = granted(trial, gang(2, RACK))
    assert nodes_of(outcome) == ["r1-0", "r1-1"]
    assert outcome.domain == ((RACK, "r1"),)
    with Trial(trial.store, trial.nodes, supposed=False) as later:
        assert nodes_of(granted(later, gang(1, RACK))) == ["r3-0"]


def test_free_devices_make_a_domain_small_not_all_of_them():
    busy = held("x", *(hold(f"gpu-{n}", pool="r0-0") for n in range(8)))
    trial = world(*racks([3, 3]), busy)
    assert granted(trial, gang(2, RACK)).domain == ((RACK, "r0"),)


def test_the_tightest_tier_that_can_be_met_is_met():
    trial = world(*racks([1, 1, 2, 2]))
    outcome = granted(trial, gang(3, NEAR_RACK, BLOCK))
    assert outcome.domain == ((BLOCK, "b1"),)
    assert refused(trial, gang(5, NEAR_RACK, BLOCK)).reason == UNPLACED
    trial.back_to(0)
    assert granted(trial, gang(2, NEAR_RACK, BLOCK)).domain == ((NEAR_RACK, "r2"), (BLOCK, "b1"))
    trial.back_to(0)
    assert granted(trial, gang(6, NEAR_RACK, NEAR_BLOCK)).domain == ()


def test_more_pods_count_more_than_a_tighter_domain():
    trial = world(*racks([2, 2]))
    outcome = granted(trial, gang(4, NEAR_RACK, least=2))
    assert (len(outcome.seats), outcome.left_out, outcome.domain) == (4, (), ())


def test_the_last_pods_are_left_out():
    trial = world(*racks([3]))
    outcome = granted(trial, gang(5, RACK, least=2))
    assert [seat.pod.name for seat in outcome.seats] == ["p0", "p1", "p2"]
    assert [key.name for key in outcome.left_out] == ["p3", "p4"]


def test_members_with_a_place_determine_the_domain():
    trial = world(*racks([1, 3]))
    outcome = granted(trial, gang(1, RACK, nodes=("r1-2",)))
    assert outcome.domain == ((RACK, "r1"),)
    apart = refused(trial, gang(1, RACK, nodes=("r1-2", "r0-0")))
    assert apart.reason == UNPLACED
    assert "with the values of the nodes on which its other pods are" in apart.message
    trial.back_to(0)
    assert granted(trial, gang(1, NEAR_RACK, nodes=("r1-2", "r0-0"))).domain == ()
    gone = refused(trial, gang(1, RACK, nodes=("lost",)))
    assert gone.reason == UNPLACED
    assert gone.message.endswith("; of these, lost does not exist")
    assert granted(trial, gang(1, NEAR_RACK, nodes=("lost",))).domain == ()
    assert granted(trial, gang(1, RACK, nodes=("lost", "r1-2"))).seats[0].node.startswith("r1-")


def cliques() -> list[Object]:
    """Two nodes; the devices 0 and 1 of each are in clique x, 2 and 3 in clique y or in both."""
    both = [["x", "y"], "y"]
    content = [device(f"gpu-{n}", {"clique": value}) for n, value in enumerate(["x", "x", *both])]
    return [
        part
        for name in ("a", "b")
        for part in (node(name), resource_slice(f"{name}-d", content, pool=name, nodeName=name))
    ]


def devices_of(outcome: GangGranted) -> list[str]:
    return [
        f"{result.pool}/{result.device}"
        for seat in outcome.seats
        for plan in seat.plans
        for result in plan.allocation.devices.results
    ]


@pytest.mark.parametrize("key", ["d/clique", "clique"])
def test_an_attribute_is_shared_across_nodes(key: str):
    tier = Tier(key, required=True)
    trial = world(*cliques())
    outcome = granted(trial, gang(2, tier, gpus=2))
    assert outcome.domain == ((tier, "y"),)
    assert devices_of(outcome) == ["a/gpu-2", "a/gpu-3", "b/gpu-2", "b/gpu-3"]


def test_devices_that_other_members_have_determine_the_attribute():
    tier = Tier("d/clique", required=True)
    trial = world(*cliques())
    outcome = granted(trial, gang(1, tier, gpus=2, devices=(DeviceID("d", "b", "gpu-0"),)))
    assert outcome.domain == ((tier, "x"),)


def test_a_tier_that_names_nothing_is_refused():
    outcome = refused(world(*racks([1])), gang(1, Tier("row", required=True)))
    assert outcome.reason == NO_TOPOLOGY
    assert "requires row, which is no label of a node" in outcome.message
    assert granted(world(*racks([1])), gang(1, Tier("row", required=False))).domain == ()


def test_a_refusal_counts_what_fits_and_what_is_short():
    trial = world(*racks([3, 2]))
    outcome = refused(trial, gang(4, RACK))
    assert (outcome.reason, outcome.fits, outcome.short) == (UNPLACED, 3, (("devices of class any", 8),))
    assert outcome.message == (
        "3 of 4 pods fit together at most in rack=r0; 4 are needed; 2 domains were considered. "
        "Short: 8 devices of class any"
    )
    assert not list(trial.store.assumptions)


def test_a_refusal_counts_one_as_one():
    found = too_few(0, 1, 1, met=(), domains=1, short=[("devices of class any", 1), ("cpu", 1)])
    assert found == "0 of 1 pod fit together at most; 1 is needed. Short: 1 device of class any, 1m cpu"


def taking(name: str, cpus: int) -> Object:
    """A device that stands for so many CPUs of its node."""
    return device(name, nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": str(cpus)}}})


def test_a_refusal_counts_what_devices_take_of_nodes():
    content = [taking(f"d{n}", 4) for n in range(3)]
    trial = world(node("a", cpu="10", rack="r"), resource_slice("a-d", content, pool="a", nodeName="a"))
    outcome = refused(trial, gang(3, RACK, gpus=1))
    assert (outcome.reason, outcome.fits, outcome.short) == (UNPLACED, 2, (("cpu", 5000),))


def test_devices_that_a_member_holds_already_count_for_it_alone():
    """Both members are of one kind. One holds 4 CPUs, the other 1: 11 suffice for all of it."""
    content = [taking("large", 4), taking("small", 1), taking("d0", 2), taking("d1", 2)]
    had = [held("p0-had", hold("large", pool="a")), held("p1-had", hold("small", pool="a"))]
    here = resource_slice("a-d", content, pool="a", nodeName="a")
    trial = world(node("a", cpu="11"), here, *had)
    members = [
        Member(Pod.model_validate(asking(name, name, one["metadata"]["name"], cpu="1")), asked.claims, (own,))
        for name, one in zip(("p0", "p1"), had, strict=True)
        for asked, own in [(member(name, 1), ResourceClaim.model_validate(one))]
    ]
    assert devices_of(granted(trial, question(members))) == ["a/d0", "a/d1"]


def test_a_refusal_names_the_room_that_is_short():
    trial = world(node("a", cpu="2", rack="r"), gpu_slice("a"))
    outcome = refused(trial, gang(3, RACK, gpus=1))
    assert (outcome.fits, outcome.short) == (2, (("cpu", 1000),))


def test_giving_up_is_no_proof():
    """Two pods fit before the steps are used up."""
    trial = world(*racks([8], gpus=1))
    outcome = refused(trial, gang(8, RACK, gpus=1), steps=3)
    assert outcome.reason == Reason.GAVE_UP
    assert "It is unknown whether they fit" in outcome.message
    assert not list(trial.store.assumptions)


def test_what_was_found_before_giving_up_is_used_if_it_is_enough():
    trial = world(*racks([8], gpus=1))
    outcome = granted(trial, gang(8, RACK, gpus=1, least=1), steps=3)
    assert 1 <= len(outcome.seats) < 8
    assert len(list(trial.store.assumptions)) == len(outcome.seats)
    assert trial.nodes.room.charged(outcome.seats[0].pod) is not None


def test_a_claim_that_no_node_can_meet_is_the_reason():
    wrong = claim("p1", request(device_class="none"))
    outcome = refused(world(*racks([2])), question([member("p0"), member("p1", raw=wrong)]))
    assert outcome.reason == Reason.CLASS_NOT_FOUND
    assert outcome.message.startswith("pod default/p1: ")


def test_objects_that_are_not_listed_yet_are_the_reason():
    term = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "labelSelector": {}, "topologyKey": "rack"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    trial = world(*racks([2]), on_wanted=lambda _: None)
    outcome = refused(trial, question([member("p0", affinity=affinity)]))
    assert outcome.reason == "ObjectsNotListed"


def test_selectors_that_never_ran_are_left_to_a_thread():
    slow = claim("p0", request(selectors=[{"cel": {"expression": "device.driver.matches('^d+$')"}}]))
    with world(*racks([2])) as trial, pytest.raises(SelectorsNotRun):
        decide_gang(question([member("p0", raw=slow)]), trial, steps=STEPS, budget=StepLimit(100))


def test_pods_that_differ_in_labels_and_names_alone_are_alike():
    trial = world(*racks([2]))
    members = gang(8).members
    company = pod_interactions(members, trial.nodes)
    assert [len(kind.members) for kind in kinds_of(members, trial.snapshot, trial.nodes, company)] == [8]
    members = tuple(member(f"p{n}", affinity=apart_from("index", "p0")) for n in range(3))
    company = pod_interactions(members, trial.nodes)
    kinds = kinds_of(members, trial.snapshot, trial.nodes, company)
    assert [kind.positions for kind in kinds] == [(0,), (1, 2)]


def apart_from(label: str, value: str, key: str = "kubernetes.io/hostname") -> Object:
    term = {"labelSelector": {"matchLabels": {label: value}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def stateful(name: str, **spec: Any) -> Member:
    """A pod with labels of its own and of all."""
    one = member(name, 1, **spec)
    metadata = one.pod.metadata.model_copy(update={"labels": {"app": "x", "index": name}})
    return replace(one, pod=one.pod.model_copy(update={"metadata": metadata}))


def test_pods_that_spread_take_turns_on_domains():
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    members = [stateful(f"p{n}", topologySpreadConstraints=[constraint]) for n in range(4)]
    found = nodes_of(granted(world(*racks([1, 1])), question(members)))
    assert sorted(found) == ["r0-0", "r0-0", "r1-0", "r1-0"]


def test_a_cluster_without_nodes_and_a_gang_without_pods():
    assert refused(world(), gang(1)).message == "there are no nodes"
    assert refused(world(), gang(1, RACK)).reason == NO_TOPOLOGY
    assert granted(world(), gang(0)).seats == ()


def test_alike_pods_on_alike_nodes_are_decided_once():
    """The decision takes many steps; each further pod takes one, to look at its node."""
    few, many = (granted(world(*racks([40])), gang(pods, RACK)) for pods in (2, 40))
    assert many.steps - few.steps == 38


@pytest.mark.parametrize("pairs", [1, 2])
def test_repeated_plans_are_those_of_the_allocator(pairs: int):
    """Nodes differ in what is held; claims want GPUs and NICs in pairs."""
    machines = [
        part
        for n in range(6)
        for part in gpu_nic_machine(
            f"n{n}", [(f"n{n}-{p}", 0) for p in range(4)], [(f"n{n}-{3 - p}", 0) for p in range(4)]
        )
    ]
    taken = [held(f"h{n}", hold("gpu-1", driver="gpu", pool=f"n{n}")) for n in (1, 4)]
    trial = world(*classes(), *machines, *taken)
    for raw in machines:
        if raw["kind"] == "Node":
            raw["metadata"]["labels"] = {"kubernetes.io/hostname": raw["metadata"]["name"]}
            trial.nodes.note(Changed("Node", Node.model_validate(raw)))
    members = [
        member(f"p{n}", raw=gpu_nic_claim(f"p{n}", pairs, pairs, joint_allocation={"pairs": True}))
        for n in range(9)
    ]
    outcome = granted(trial, question(members))
    plain = store(*classes(), *machines, *taken)
    by_name = {member.pod.key: member.claims for member in members}
    for seat in outcome.seats:
        alone = decide(by_name[seat.pod], plain.snapshot(), nodes=[seat.node])
        assert isinstance(alone, Granted)
        assert alone.plans == seat.plans
        for plan in alone.plans:
            plain.assume(plan)


def test_a_claim_in_common_is_planned_with_its_first_user():
    shared = ResourceClaim.model_validate(claim("common", request()))
    members = [member(f"p{n}", 1) for n in range(2)]
    members = [replace(one, claims=(*one.claims, shared)) for one in members]
    outcome = granted(world(*racks([2])), question(members))
    assert nodes_of(outcome) == ["r0-0", "r0-0"]
    assert [[plan.claim.name for plan in seat.plans] for seat in outcome.seats] == [["p0", "common"], ["p1"]]


def test_a_member_that_is_counted_on_a_node_already_is_counted_once():
    """It has allocated claims that pin it: its room is not needed twice."""
    trial = world(node("a", cpu="1"), gpu_slice("a"))
    asked = gang(1)
    pod = asked.members[0].pod
    trial.nodes.host(pod.key, pod, "a", {"cpu": 1000, "pods": 1})
    assert nodes_of(granted(trial, asked)) == ["a"]
    trial.back_to(0)
    assert trial.nodes.room.left("a", "cpu") == 0


def test_a_fork_in_a_thread_gives_the_same_answer():
    trial = world(*racks([2, 3, 2]))
    apart = Trial(Forked.fork_of(trial.store).store(), trial.nodes.fork(), supposed=False)
    asked = gang(2, RACK)
    assert granted(apart, asked) == granted(trial, asked)


def test_a_pod_does_not_take_the_only_device_that_another_may_use():
    """First fit would give it to the first pod."""
    content = [device("good", {"kind": "good"}), device("poor", {"kind": "poor"})]
    trial = world(node("a"), resource_slice("a-d", content, pool="a", nodeName="a"))
    selector = [{"cel": {"expression": "device.attributes['d'].kind == 'good'"}}]
    picky = claim("p1", request(selectors=selector))
    outcome = granted(trial, question([member("p0", 1), member("p1", raw=picky)]))
    assert devices_of(outcome) == ["a/poor", "a/good"]


def test_members_that_ask_for_huge_counts_have_no_place():
    """Their needs add up to more than 64 bits hold. The others get their places."""
    most = 2**63 - 1
    twice = member("d", raw=claim("d", request("r", count=most), request("s", count=most)))
    members = [member("a"), member("b", most), member("c", most - 1), twice]
    found = granted(world(*racks([2])), question(members, RACK, least=1))
    assert len(nodes_of(found)) == 1
    refused(world(*racks([2])), question(members, RACK, least=2))


def test_pods_without_claims_need_room_alone():
    members = [Member(Pod.model_validate(asking(f"p{n}", cpu="2")), ()) for n in range(3)]
    trial = world(node("a", cpu="4", rack="r0"), node("b", cpu="2", rack="r0"), node("c", cpu="5", rack="r1"))
    outcome = granted(trial, question(members, RACK))
    assert nodes_of(outcome) == ["a", "a", "b"]
    assert all(seat.plans == () for seat in outcome.seats)


def test_pods_that_keep_apart_are_counted_by_their_domains():
    """Counting proves it: no search is needed."""
    members = [stateful(f"p{n}", affinity=apart_from("app", "x")) for n in range(4)]
    assert len(set(nodes_of(granted(world(*racks([4])), question(members))))) == 4
    outcome = refused(world(*racks([3])), question(members))
    assert (outcome.reason, outcome.fits, outcome.steps) == (UNPLACED, 3, 0)
