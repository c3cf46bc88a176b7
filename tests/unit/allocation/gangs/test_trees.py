"""Trees of groups: a domain for each level, as many groups as are needed, all of it or nothing."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from reconciler.allocation.dra.budget import UNLIMITED, StepLimit, Unfinished
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import (
    NO_TOPOLOGY,
    UNPLACED,
    AskedGroup,
    GangGranted,
    GangQuestion,
    GangUnsatisfied,
    Member,
)
from reconciler.allocation.gangs.places import gang_still_fits
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.plan import Reason
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Trial
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    gpu_slice,
    match,
    request,
    resource_slice,
    store,
)
from tests.tools.scenario import asking, machine

RACK, BLOCK = Tier("rack", required=True), Tier("block", required=True)


def world(*objects: Object) -> Trial:
    nodes = Nodes()
    for one in objects:
        if one["kind"] == "Node":
            nodes.note(Changed("Node", Node.model_validate(one)))
    return Trial(store(device_class(), *objects), nodes, supposed=False)


def racks(*blocks: Sequence[int], gpus: int = 8) -> list[Object]:
    """Blocks of racks with so many nodes each: `b0-r0-0` and so on."""
    made = []
    for block, sizes in enumerate(blocks):
        for rack, size in enumerate(sizes):
            for n in range(size):
                name = f"b{block}-r{rack}-{n}"
                one = machine(name)
                one["metadata"]["labels"] |= {"rack": f"b{block}-r{rack}", "block": f"b{block}"}
                made += [one, gpu_slice(name, gpus)]
    return made


def member(name: str, gpus: int = 8, near: bool = False) -> Member:
    near_bus = [match("d/bus")] if near else []
    wanted = claim(name, request(count=gpus), constraints=near_bus)
    return Member(Pod.model_validate(asking(name, name)), (ResourceClaim.model_validate(wanted),))


def tree(
    sizes: Sequence[int], *tiers: Tier, least: int | None = None, gpus: int = 8, near: bool = False
) -> GangQuestion:
    """Groups `g0`, `g1` and so on of so many pods, each in a rack."""
    members: list[Member] = []
    groups: list[AskedGroup] = []
    for number, size in enumerate(sizes):
        at = tuple(range(len(members), len(members) + size))
        members += [member(f"g{number}-{n}", gpus, near) for n in range(size)]
        groups.append(AskedGroup(f"g{number}", size, (RACK,), members=at))
    return asked(members, AskedGroup("top", least or len(sizes), tiers, groups=tuple(groups)))


def asked(members: Sequence[Member], top: AskedGroup) -> GangQuestion:
    key = GangKey("default", GangSource.COMPOSITE, "top")
    return GangQuestion(key, tuple(members), top.least_pods, tree=top)


def answer(trial: Trial, question: GangQuestion, steps: int = 1_000) -> GangGranted | GangUnsatisfied:
    return decide_gang(question, trial, steps=steps, budget=UNLIMITED)


def nodes_of(trial: Trial, question: GangQuestion) -> dict[str, str]:
    outcome = answer(trial, question)
    assert isinstance(outcome, GangGranted), outcome
    return {seat.pod.name: seat.node for seat in outcome.seats}


def refused(trial: Trial, question: GangQuestion, steps: int = 1_000) -> GangUnsatisfied:
    outcome = answer(trial, question, steps)
    assert isinstance(outcome, GangUnsatisfied), outcome
    assert not list(trial.store.assumptions)
    return outcome


def test_each_group_gets_a_rack_in_the_block_of_the_tree():
    """The first block has more nodes, but only one rack that is large enough."""
    trial = world(*racks([3, 1, 1, 1], [2, 2]))
    question = tree([2, 2], BLOCK)
    found = nodes_of(trial, question)
    assert found == {"g0-0": "b1-r0-0", "g0-1": "b1-r0-1", "g1-0": "b1-r1-0", "g1-1": "b1-r1-1"}


def test_groups_of_different_sizes_are_shared_out():
    """The large group needs the large rack, which would hold the small one, too."""
    trial = world(*racks([3, 2]))
    found = nodes_of(trial, tree([2, 3], BLOCK))
    assert {name for name, node in found.items() if "r0" in node} == {"g1-0", "g1-1", "g1-2"}


def test_as_many_groups_as_possible_get_a_place_and_the_others_nothing():
    outcome = answer(world(*racks([2, 2, 1])), tree([2, 2, 2], BLOCK, least=1))
    assert isinstance(outcome, GangGranted)
    assert {key.name for key in outcome.left_out} == {"g2-0", "g2-1"}
    assert outcome.domain == ((BLOCK, "b0"),)


def test_groups_of_groups_have_domains_of_their_own():
    """Two pairs, each in a block."""
    members = [member(f"p{n}") for n in range(4)]
    leaves = [AskedGroup(f"g{n}", 1, (RACK,), members=(n,)) for n in range(4)]
    pairs = [AskedGroup(f"pair{n}", 2, (BLOCK,), groups=tuple(leaves[2 * n : 2 * n + 2])) for n in range(2)]
    question = asked(members, AskedGroup("top", 2, groups=tuple(pairs)))
    told = nodes_of(world(*racks([1, 1], [1], [1, 1])), question)
    assert told == {"p0": "b0-r0-0", "p1": "b0-r1-0", "p2": "b2-r0-0", "p3": "b2-r1-0"}
    found = refused(world(*racks([1, 1], [1], [1])), question).message
    assert found.startswith("1 of 2 groups of default/top fit together at most; 2 are needed")
    assert "pair1 needs 2 groups together in one block; there is room for 1 such group" in found


def test_a_domain_that_counting_allows_but_devices_do_not_is_left():
    """All racks have devices for two pods; of the first, too few are on one bus."""

    def on(name: str, *buses: str) -> Object:
        return resource_slice(
            f"{name}-gpus",
            [device(f"gpu-{n}", {"bus": f"{name}-{bus}"}) for n, bus in enumerate(buses)],
            pool=name,
            nodeName=name,
        )

    nodes = [one for one in racks([1, 1, 1]) if one["kind"] == "Node"]
    split = [on(f"b0-r{rack}-0", *buses) for rack, buses in enumerate(("xxyz", "xxyy", "yyzz"))]
    question = tree([2, 2], BLOCK, gpus=2, near=True)
    found = nodes_of(world(*nodes, *split), question)
    assert {name[:2]: node for name, node in found.items()} == {"g0": "b0-r1-0", "g1": "b0-r2-0"}
    outcome = refused(world(*nodes, *split[:2]), question)
    assert outcome.message.endswith("g1 finds no domain and devices beside the others")


def test_pods_that_run_determine_the_domains_of_their_groups():
    members = [member("g0-1"), member("g1-0")]
    groups = (
        AskedGroup("g0", 0, (RACK,), ("b1-r0-0",), members=(0,)),
        AskedGroup("g1", 1, (RACK,), members=(1,)),
    )
    question = asked(members, AskedGroup("top", 2, (BLOCK,), ("b1-r0-0",), groups=groups))
    busy = tree([1], BLOCK)
    trial = world(*racks([1, 1], [2, 1]))
    assert nodes_of(trial, busy) == {"g0-0": "b0-r0-0"}
    assert nodes_of(trial, question) == {"g0-1": "b1-r0-0", "g1-0": "b1-r1-0"}


def test_a_refusal_says_how_many_groups_fit_and_which_one_does_not():
    outcome = refused(world(*racks([2, 2, 1], [2, 1, 1])), tree([2, 2, 2], BLOCK))
    assert outcome.reason == UNPLACED
    assert outcome.message == (
        "2 of 3 groups of default/top fit together at most in block=b0; 3 are needed; 2 domains were "
        "considered. g2 needs 2 pods together in one rack; there is room for 2 such groups"
    )


def test_a_refusal_of_what_was_left_out_says_which_group_it_is():
    """Also of a group in a group, and of one whose pods do not all exist."""
    done, few = AskedGroup("done", 0, (RACK,)), AskedGroup("few", 2, (RACK,), members=(0,))
    outcome = refused(world(*racks([2])), asked([member("few-0")], AskedGroup("top", 1, groups=(done, few))))
    assert outcome.message == (
        "default/top has all groups that it needs, and no more pods of it fit. "
        "few needs 2 pods together; it has 1 to place"
    )
    left = AskedGroup("left", 2, (RACK,), members=(0, 1))
    within = AskedGroup("within", 1, (BLOCK,), nodes=("b0-r0-0",), groups=(done, left))
    top = AskedGroup("top", 1, nodes=("b0-r0-0",), groups=(within,))
    outcome = refused(world(*racks([1, 1], [2])), asked([member("left-0"), member("left-1")], top))
    assert outcome.message == (
        "default/top has all groups that it needs, and no more pods of it fit. "
        "left needs 2 pods together in one rack; there is room for 0 such groups"
    )


def test_a_refusal_names_pools_that_are_not_ready_and_does_not_count_them():
    question = tree([1, 1], BLOCK)
    one, other = machine("a"), machine("b")
    for at, made in enumerate((one, other)):
        made["metadata"]["labels"] |= {"rack": f"r{at}", "block": "b"}
    unready = gpu_slice("b", 8)
    unready["spec"]["pool"]["resourceSliceCount"] = 2
    found = refused(world(one, gpu_slice("a", 8), other, unready), question).message
    assert found == (
        "1 of 2 groups of default/top fit together at most in block=b; 2 are needed. g1 needs 1 pod together "
        "in one rack; there is room for 1 such group. 8 devices that match are in pools that are not ready "
        "(pool d/b: 1 of 2 slices of generation 1 are published)"
    )


def test_a_key_that_nothing_has_is_refused_unless_enough_groups_do_without():
    zone = Tier("zone", required=True)
    outcome = refused(world(*racks([1])), tree([1], zone))
    assert (outcome.reason, "zone" in outcome.message) == (NO_TOPOLOGY, True)
    question = tree([1, 1], least=1)
    assert question.tree is not None
    first, second = question.tree.groups
    other = structs.replace(question.tree, groups=(structs.replace(first, tiers=(zone,)), second))
    assert nodes_of(world(*racks([1])), asked(question.members, other)) == {"g1-0": "b0-r0-0"}


def test_giving_up_is_no_proof():
    outcome = refused(world(*racks([2, 2])), tree([2, 2], BLOCK), steps=0)
    assert outcome.reason == Reason.GAVE_UP


def test_an_answer_is_possible_later_as_long_as_its_nodes_are_free():
    trial = world(*racks([2, 2]))
    question = tree([2, 2], BLOCK)
    before = trial.snapshot
    outcome = answer(trial, question)
    assert isinstance(outcome, GangGranted)
    trial.back_to(0)
    assert gang_still_fits(question, outcome, before, trial)
    assert nodes_of(trial, tree([1], BLOCK))
    assert not gang_still_fits(question, outcome, before, trial)


def test_the_topology_of_a_group_may_be_an_attribute_of_devices():
    """Two cliques over three nodes: each group gets devices of one, of the same nodes if need be."""
    clique, chassis = Tier("d/clique", required=True), Tier("d/chassis", required=True)

    def supply(*cliques: str) -> list[Object]:
        made: list[Object] = []
        for name, letters in zip("abc", cliques, strict=False):
            devices = [
                device(f"g{n}", {"clique": one, "chassis": 0 if one in "xy" else "0"})
                for n, one in enumerate(letters)
            ]
            made += [machine(name), resource_slice(name, devices, nodeName=name, pool=name)]
        return made

    def groups(*sizes: int, devices: tuple[DeviceID, ...] = ()) -> GangQuestion:
        asking = tree(sizes, chassis, gpus=1)
        assert asking.tree is not None
        below = [structs.replace(one, tiers=(clique,), devices=devices) for one in asking.tree.groups]
        return asked(asking.members, structs.replace(asking.tree, groups=tuple(below)))

    outcome = answer(world(*supply("xz", "xy", "yz")), groups(2, 2))
    assert isinstance(outcome, GangGranted)
    given = [[result.id[1:] for result in seat.plans[0].allocation.devices.results] for seat in outcome.seats]
    assert given == [[("a", "g0")], [("b", "g0")], [("b", "g1")], [("c", "g0")]]
    assert outcome.domain == ((chassis, "0"),)
    held = groups(1, devices=(DeviceID("d", "b", "g1"),))
    assert nodes_of(world(*supply("xz", "xy", "yz")), held) == {"g0-0": "b"}
    assert refused(world(*supply("xz", "xz", "yz")), groups(2, 2)).message == (
        "1 of 2 groups of default/top fit together at most in d/chassis=0; 2 are needed; 2 domains were "
        "considered. g1 needs 2 pods together in one d/clique; there is room for 1 such group"
    )


def test_counting_in_domains_within_domains_ends_when_nobody_waits():
    clique, chassis = Tier("d/clique", required=True), Tier("d/chassis", required=True)
    made = [device(f"g{n}", {"clique": n, "chassis": n}) for n in range(20)]
    asking = tree([1], chassis, gpus=1)
    assert asking.tree is not None
    below = [structs.replace(one, tiers=(clique,)) for one in asking.tree.groups]
    question = asked(asking.members, structs.replace(asking.tree, groups=tuple(below)))
    trial = world(machine("a"), resource_slice("a", made, nodeName="a", pool="a"))
    with pytest.raises(Unfinished):
        decide_gang(question, trial, steps=1_000, budget=StepLimit(200))
    assert nodes_of(trial, question) == {"g0-0": "a"}
