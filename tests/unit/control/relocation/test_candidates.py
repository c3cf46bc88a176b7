"""Which pending pods may have others evicted."""

from typing import Any

import pytest

from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Decide, Planner
from reconciler.control.relocation.candidates import Candidates
from reconciler.control.waiting import Pending
from reconciler.state.nominations import of_pod
from tests.tools.small_fleet import DRIVER, claim, device_class, held, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit


def candidates(*objects: dict[str, Any], classes: tuple[str, ...] = ("high",)) -> Candidates:
    """All pods and claims of these objects are pending."""
    found, pending = intake(device_class(), *objects), Pending()
    for name in found.store.pods:
        pending.note(pod_unit(name.name), "DevicesInUse", [name])
    for name in found.store.claims:
        pending.note(claim_unit(name.name), "DevicesInUse", [name])
    planner = Planner(found.store, found.roster, found.placement, Ownership(alone=True), found.reclaimed)
    gangs = GangPlanner(found.store, found.roster, found.gangs, found.groups, found.nodes.on_demand, planner)
    return Candidates(found, pending, planner, gangs, frozenset(classes))


def wanting(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    return pod(name, "c", priority=priority, **{"priorityClassName": "high", **spec})


async def test_the_most_important_pod_comes_first():
    found = candidates(claim("c"), wanting("less", 10), wanting("most", 1000))
    assert found.units() == [pod_unit("most"), pod_unit("less")]


@pytest.mark.parametrize(
    "spec", [{"priorityClassName": "other"}, {"preemptionPolicy": "Never"}, {"gates": ()}]
)
async def test_nobody_else_may(spec: dict[str, Any]):
    assert candidates(claim("c"), wanting("p", 10, **spec)).units() == []


@pytest.mark.parametrize("spec", [{"priorityClassName": "other"}, {"preemptionPolicy": "Never"}])
async def test_who_shares_a_pending_claim_has_to_agree(spec: dict[str, Any]):
    found = candidates(claim("c"), wanting("p", 10), wanting("q", -10, **spec))
    assert found.units() == []
    assert [pod.key for pod in found.judged(pod_unit("p"))] == [key("p"), key("q")]


async def test_who_shares_an_allocated_claim_is_not_asked():
    shared = {**claim("d"), "status": held(DRIVER, "n", "gpu-0", on="n")}
    both = pod("p", "c", "d", priority=10, priorityClassName="high")
    found = candidates(claim("c"), shared, both, pod("q", "d", preemptionPolicy="Never"))
    assert found.units() == [pod_unit("p")]
    assert [pod.key for pod in found.judged(pod_unit("p"))] == [key("p")]
    assert [pod.key for pod in found.sharers(pod_unit("p"))] == [key("q")]


async def test_no_class_means_nobody():
    assert candidates(claim("c"), wanting("p", 10, priorityClassName=""), classes=()).units() == []


async def test_a_pod_asks_for_its_claims_and_room_is_held_for_it():
    found = candidates(claim("c"), wanting("p", 10))
    need = found.need(pod_unit("p"))
    assert isinstance(need, Decide)
    assert [one.key for one in need.claims] == [key("c")]
    assert found.nominee(pod_unit("p")) == of_pod(key("p"))
    assert found.sharing(need) == ()


async def test_the_other_gated_pods_of_a_claim_are_known():
    found = candidates(claim("c"), wanting("p", 10), wanting("q", 10))
    need = found.need(pod_unit("p"))
    assert need is not None
    assert [(other.key, at) for other, _, at in found.sharing(need)] == [(key("q"), (0,))]
