"""Partition tables for devices of DRA: what may be given together, compared with trying everything."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.allocation.policies.policy import BEST_FIT
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from tests.tools.alignment_world import (
    PAIRS,
    PCIE,
    Case,
    answer,
    cases,
    classes,
    given_by,
    gpu_nic_claim,
    machine,
    partition,
    table,
)
from tests.tools.builders import Object, held, hold, snapshot, typed

GPUS = [(f"p{n}", 0) for n in range(8)]


def world(listed: Object, taken: tuple[int, ...] = (), name: str = "n") -> list[Object]:
    holder = held("h", *(hold(f"gpu-{n}", driver="gpu", pool=name) for n in taken))
    return [*classes(gpu=[listed]), *machine(name, GPUS, []), holder]


def chosen(outcome: Granted | Unsatisfied) -> set[int]:
    return {int(device.removeprefix("gpu-")) for device in given_by(outcome)["gpu"]}


ONES = [partition(n) for n in range(8)]
FOURS = [partition(0, 1, 2, 3), partition(4, 5, 6, 7)]


def test_a_preferred_set_gives_way_to_none():
    listed = table(*PAIRS, policy="Prefer")
    assert chosen(answer(world(listed, (0,)), gpu_nic_claim("c", 2, 0))) == {2, 3}
    assert chosen(answer(world(listed, (0, 2, 4, 6)), gpu_nic_claim("c", 2, 0))) == {1, 3}
    outcome = answer(world(listed, (0, 2, 4, 6)), gpu_nic_claim("c", 2, 0, partition={}))
    assert isinstance(outcome, Unsatisfied)


def test_a_restricted_claim_takes_the_highest_score_of_the_size_or_nothing():
    listed = table(partition(0, 1, score=2), partition(2, 3, score=1))
    restricted = gpu_nic_claim("c", 2, 0, partition={"allocatePolicy": "Restricted"})
    assert chosen(answer(world(listed), restricted)) == {0, 1}
    assert isinstance(answer(world(listed, (0,)), restricted), Unsatisfied)
    assert chosen(answer(world(listed, (0,)), gpu_nic_claim("c", 2, 0, partition={}))) == {2, 3}


def test_bandwidth_is_a_minimum_and_none_declared_is_none():
    listed = table(partition(0, 1), partition(2, 3, bandwidth="100Gi"), partition(4, 5, bandwidth="400Gi"))
    assert chosen(answer(world(listed), gpu_nic_claim("c", 2, 0, partition={"bandwidth": "200Gi"}))) == {4, 5}
    assert isinstance(
        answer(world(listed, (4,)), gpu_nic_claim("c", 2, 0, partition={"bandwidth": "200Gi"})), Unsatisfied
    )


def test_a_later_node_is_taken_where_its_partition_is_whole():
    listed = table(*FOURS)
    taken = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="a") for n in (0, 4)))
    machines = [*machine("a", GPUS, []), *machine("b", GPUS, [])]
    outcome = answer([*classes(gpu=[listed]), *machines, taken], gpu_nic_claim("c", 4, 0))
    assert isinstance(outcome, Granted)
    assert (outcome.node, chosen(outcome)) == ("b", {0, 1, 2, 3})


def test_a_policy_chooses_among_the_nodes_whose_partitions_are_whole():
    listed = table(*FOURS)
    taken = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="b") for n in (0, 4)))
    more = held("i", *(hold(f"gpu-{n}", driver="gpu", pool="c") for n in (0,)))
    machines = [one for name in "abc" for one in machine(name, GPUS, [])]
    world = [*classes(gpu=[listed]), *machines, taken, more]
    outcome = answer(world, gpu_nic_claim("c", 4, 0), policy=BEST_FIT)
    assert isinstance(outcome, Granted)
    assert (outcome.node, chosen(outcome)) == ("c", {4, 5, 6, 7})


def test_partitions_and_alignment_go_together():
    listed = table(partition(0, 1, score=1), partition(2, 3))
    gpus = [("p0", 0), ("p1", 0), ("p4", 1), ("p4", 1)]
    claim = gpu_nic_claim("c", 2, 1, joint_allocation={})
    outcome = answer([*classes(gpu=[listed]), *machine("n", gpus, [("p4", 1)])], claim)
    assert chosen(outcome) == {2, 3}
    pairs = gpu_nic_claim("c", 2, 2, joint_allocation={"pairs": True})
    outcome = answer([*classes(gpu=[listed]), *machine("n", gpus, [("p4", 1), ("p0", 0)])], pairs)
    assert chosen(outcome) in ({0, 1}, {2, 3})


@pytest.mark.parametrize(
    ("preference", "message"),
    [
        pytest.param({"requests": ["nic"]}, "no class with a PartitionTable", id="class"),
        pytest.param({"requests": ["x"]}, "there is no request x", id="request"),
        pytest.param({"allocatePolicy": "x"}, "allocatePolicy", id="policy"),
    ],
)
def test_an_invalid_preference_refuses_the_claim(preference: Any, message: str):
    listed = world(table(*PAIRS))
    outcome = answer(
        [*listed, *machine("m", [], [("p0", 0)])], gpu_nic_claim("c", 2, 1, partition=preference)
    )
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.PREFERENCES_INVALID
    assert message in outcome.message


def test_two_requests_of_a_claim_get_partitions_that_do_not_overlap():
    listed = table(partition(0, 1), partition(1, 2), partition(2, 3))
    claim = gpu_nic_claim("c", 2, 0)
    (first,) = claim["spec"]["devices"]["requests"]
    claim["spec"]["devices"]["requests"].append({**first, "name": "more"})
    found = given_by(answer(world(listed), claim))
    assert sorted(map(sorted, found.values())) == [["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]]


SETS = st.sets(st.integers(0, 5), min_size=1, max_size=3)


@given(
    sets=st.lists(st.tuples(SETS, st.integers(0, 1)), min_size=1, max_size=6),
    taken=st.sets(st.integers(0, 5), max_size=4),
    count=st.integers(1, 3),
    policy=st.sampled_from(["Honor", "Prefer"]),
    restricted=st.booleans(),
)
def test_the_set_has_the_highest_score_of_those_that_are_whole(
    sets: list[tuple[set[int], int]], taken: set[int], count: int, policy: str, restricted: bool
):
    listed = table(*(partition(*sorted(one), score=score) for one, score in sets), policy=policy)
    gpus = machine("n", GPUS[:6], [])
    preference = {"partition": {"allocatePolicy": "Restricted"}} if restricted else {}
    holder = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="n") for n in sorted(taken)))
    outcome = answer([*classes(gpu=[listed]), *gpus, holder], gpu_nic_claim("c", count, 0, **preference))
    of_size = [(one, score) for one, score in sets if len(one) == count]
    highest = max((score for _, score in of_size), default=0)
    whole = [
        (one, score) for one, score in of_size if not one & taken and (score == highest or not restricted)
    ]
    if whole:
        best = max(score for _, score in whole)
        assert chosen(outcome) in [one for one, score in whole if score == best]
    elif policy == "Prefer" and not restricted and list(combinations(set(range(6)) - taken, count)):
        assert len(chosen(outcome)) == count
    else:
        assert isinstance(outcome, Unsatisfied)


# -- Why preferences refuse a claim: the decision is repeated without them.


def refused(outcome: Granted | Unsatisfied) -> Unsatisfied:
    assert isinstance(outcome, Unsatisfied), outcome
    return outcome


def test_a_refusal_without_preferences_names_the_requests_of_the_claim():
    world = [*classes(), *machine("n", [("p0", 0), ("p1", 0)], [("p0", 0)])]
    outcome = refused(
        answer(world, gpu_nic_claim("c", 2, 2, joint_allocation={"pairs": True, "required": PCIE}))
    )
    assert outcome.reason is Reason.NO_DEVICE
    assert outcome.message.startswith("claim default/c, request nic: 1 of 3 devices matches")


def test_a_refusal_by_partitions_has_counts():
    taken = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="n") for n in (0, 2, 4, 6)))
    world = [*classes(gpu=[table(*PAIRS)]), *machine("n", [("p0", 0)] * 8, []), taken]
    outcome = refused(answer(world, gpu_nic_claim("c", 2, 0)))
    assert (outcome.reason, outcome.nodes) == (Reason.PARTITION, 1)
    (count,) = outcome.counts
    assert [gate.left for gate in count.gates][-2:] == [4, 0]


def test_preferences_in_without_are_ignored():
    world = snapshot(*classes(gpu=[table(*PAIRS)]), *machine("n", [("p0", 0), ("p1", 1), ("p1", 1)], []))
    claim = typed(gpu_nic_claim("c", 3, 0, joint_allocation={"required": "numaNode"}))
    assert isinstance(claim, ResourceClaim)

    def without(*preferences: PreferenceKey) -> Reason | None:
        outcome = decide([claim], world, without=preferences)
        return outcome.reason if isinstance(outcome, Unsatisfied) else None

    assert without() is Reason.ALIGNMENT
    assert without((0, 0)) is Reason.PARTITION
    assert without((0, "gpu")) is Reason.ALIGNMENT
    assert without((0, 0), (0, "gpu")) is None


@given(cases())
def test_without_the_named_preferences_the_claim_fits(case: Case):
    """Gates go from what any claim needs over alignment to partitions; the first that refuses is named."""
    outcome = decide([case.claim], case.world)
    if isinstance(outcome, Granted):
        return
    alignments: list[PreferenceKey] = [(0, 0), (0, 1)]
    unpartitioned = decide([case.claim], case.world, without=[(0, "gpu")])
    plain = decide([case.claim], case.world, without=[*alignments, (0, "gpu")])
    match outcome.reason:
        case Reason.PARTITION:
            assert isinstance(unpartitioned, Granted)
        case Reason.ALIGNMENT:
            assert refused(unpartitioned).reason is Reason.ALIGNMENT
            assert isinstance(plain, Granted)
        case _:
            assert refused(plain).reason is outcome.reason


def test_what_is_left_decides_between_equal_scores():
    listed = table(*ONES, *PAIRS, *FOURS)
    assert chosen(answer(world(listed, (4, 5)), gpu_nic_claim("c", 2, 0))) == {6, 7}
    assert chosen(answer(world(listed, (6,)), gpu_nic_claim("c", 1, 0))) == {7}
