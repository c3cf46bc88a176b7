"""Joint allocation as gates: their counts, and what becomes of a claim once one of them is lifted."""

import json
from typing import Any

import pytest
from hypothesis import given

from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.allocation.alignment.preferences import alignments
from reconciler.allocation.explanation import Explanation, Kind, Step
from reconciler.analysis.explain.explain import as_json, explain
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason
from tests.tools.alignment_world import (
    PAIRS,
    PCIE,
    Case,
    cases,
    classes,
    gpu_nic_claim,
    machine,
    partition,
    table,
)
from tests.tools.builders import Object, held, hold, snapshot, typed

OF = {Reason.ALIGNMENT: Kind.ALIGNMENT, Reason.PARTITION: Kind.PARTITION}
MACHINE = machine("n", [("p0", 0), ("p0", 0), ("p1", 0), ("p2", 1)], [("p0", 0), ("p2", 1)])


def explanation_of(world: list[Object], claim: Object) -> Explanation:
    asked = typed(claim)
    assert isinstance(asked, ResourceClaim)
    return explain([asked], snapshot(*world))


def step(explanation: Explanation, request: str, kind: Kind) -> Step:
    (asked,) = (one for one in explanation.requests if one.request == request)
    return next(step for step in asked.funnel if step.kind is kind)


def test_an_alignment_that_refuses_is_the_gate_that_leaves_nothing():
    wish = {"required": PCIE}
    explanation = explanation_of([*classes(), *MACHINE], gpu_nic_claim("c", 3, 1, joint_allocation=wish))
    assert explanation.reason == "AlignmentUnmet"
    assert step(explanation, "gpu", Kind.TOGETHER).left == 4
    near = step(explanation, "gpu", Kind.ALIGNMENT)
    assert (near.left, near.nodes, near.detail) == (0, 0, "even if all devices were free")
    assert explanation.preferences == (f"the alignment on {PCIE}",)
    assert str(explanation.nearest[0]) == f"n: {PCIE} p0: 2 of 3 for request gpu, 1 of 1 for request nic"


def test_what_is_granted_counts_what_could_be_near_enough():
    explanation = explanation_of(
        [*classes(), *MACHINE], gpu_nic_claim("c", 2, 1, joint_allocation={"required": PCIE})
    )
    assert explanation.allocatable
    near = step(explanation, "gpu", Kind.ALIGNMENT)
    assert (near.left, near.nodes) == (2, 1)
    assert step(explanation, "nic", Kind.ALIGNMENT).left == 1


def test_of_several_alignments_the_first_that_refuses_is_told():
    wishes = [{"requests": ["gpu"], "required": "numaNode"}, {"required": PCIE}]
    explanation = explanation_of([*classes(), *MACHINE], gpu_nic_claim("c", 3, 1, joint_allocation=wishes))
    left = [one.left for one in explanation.requests[0].funnel if one.kind is Kind.ALIGNMENT]
    assert left == [3, 0]
    assert [one.about for one in explanation.requests[1].funnel][-1] == f"aligned on {PCIE}"


def test_pairs_are_counted_by_node():
    wish = {"pairs": True, "required": PCIE}
    taken = held("h", hold("gpu-3", driver="gpu", pool="n"))
    explanation = explanation_of(
        [*classes(), *MACHINE, taken], gpu_nic_claim("c", 2, 2, joint_allocation=wish)
    )
    assert explanation.reason == "AlignmentUnmet"
    near = step(explanation, "nic", Kind.ALIGNMENT)
    assert (near.about, near.left, near.detail) == (f"aligned in pairs on {PCIE}", 0, "")
    assert str(explanation.nearest[0]) == f"n: 1 of 2 pairs share {PCIE}"


def test_a_partition_that_is_not_whole_is_told_with_who_holds_what_it_lacks():
    gpus = machine("n", [("p0", 0)] * 8, [])
    taken = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="n") for n in (0, 1, 3, 4, 7)))
    world = [*classes(gpu=[table(*PAIRS)]), *gpus, taken]
    explanation = explanation_of(world, gpu_nic_claim("c", 2, 0))
    assert explanation.reason == "PartitionsTaken"
    gate = step(explanation, "gpu", Kind.PARTITION)
    assert (gate.left, gate.nodes) == (0, 0)
    assert explanation.preferences == ("the partition table for request gpu",)
    assert str(explanation.nearest[0]) == (
        "n: request gpu: 1 of 2 devices of partition gpu-2, gpu-3 can be allocated; "
        "gpu-3 is held by default/h"
    )


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        pytest.param({}, "the table lists no partition of 3 devices, only of 2", id="size"),
        pytest.param({"bandwidth": "1Gi"}, "in the table has the requested bandwidth", id="bandwidth"),
    ],
)
def test_a_table_that_will_never_do_is_told(wish: Any, why: str):
    count = 2 if wish else 3
    world = [*classes(gpu=[table(partition(0, 1))]), *MACHINE]
    explanation = explanation_of(world, gpu_nic_claim("c", count, 0, partition=wish))
    assert why in step(explanation, "gpu", Kind.PARTITION).detail


def test_an_invalid_preference_leaves_the_other_gates():
    explanation = explanation_of(
        [*classes(), *MACHINE], gpu_nic_claim("c", 1, 1, joint_allocation={"tier": []})
    )
    assert explanation.reason == "JointAllocationInvalid"
    assert step(explanation, "gpu", Kind.ENOUGH).left == 4


def test_json_has_the_gate_with_its_nodes_and_the_preferences_in_the_way():
    raw = as_json(
        explanation_of([*classes(), *MACHINE], gpu_nic_claim("c", 3, 1, joint_allocation={"required": PCIE}))
    )
    gate = json.loads(json.dumps(raw))["requests"][0]["funnel"][-1]
    assert (gate["gate"], gate["left"], gate["nodes"]) == ("alignment", 0, 0)
    assert raw["wishesInTheWay"] == [f"the alignment on {PCIE}"]


@given(cases())
def test_counts_fall_the_reason_is_the_gate_that_empties_and_what_is_lifted_lets_the_claim_in(case: Case):
    answer = decide([case.claim], case.world)
    explanation = explain([case.claim], case.world, answer=answer)
    for request in explanation.requests:
        left = [one.left for one in request.funnel]
        assert left == sorted(left, reverse=True)
    if isinstance(answer, Granted):
        given_to: dict[str, set[str]] = {}
        for result in answer.plans[0].allocation.devices.results:
            given_to.setdefault(result.request, set()).add(str(result.id))
        for request in explanation.requests:
            assert request.left >= len(given_to[request.request]), "counting never leaves out an answer"
        return
    if answer.reason in OF:
        firsts = [
            next((one.kind for one in asked.funnel if not one.left), None) for asked in explanation.requests
        ]
        assert set(firsts) - {None} == {OF[answer.reason]}
        assert explanation.nearest
    wishes: dict[str, list[PreferenceKey]] = {"the partition table for request gpu": [(0, "gpu")]}
    for number, wish in enumerate(alignments(case.claim, {})):
        wishes.setdefault(f"the alignment on {wish.required}", []).append((0, number))
    alone = {
        words
        for words, wished in wishes.items()
        if any(isinstance(decide([case.claim], case.world, without=[one]), Granted) for one in wished)
    }
    if answer.reason in OF:
        assert set(explanation.preferences) == alone
