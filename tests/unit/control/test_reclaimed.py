"""Whose doing it is that an allocation is gone."""

from typing import Any

import pytest

from reconciler.api.objects.claims import ALLOCATED_AT, mark
from reconciler.api.versions.reading import read
from reconciler.control.audit import ReclaimedByScheduler
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key

STAMP = "2026-01-01T00:00:00Z"  # as `held` writes it


def ours(name: str) -> Object:
    """A claim that we allocated."""
    made = {**claim(name), "status": held(DRIVER, "n0", "d0", on="n0")}
    typed: Any = read(made)
    made["metadata"]["annotations"] = {ALLOCATED_AT: mark(STAMP, typed.allocation)}
    return made


def told_after(*pods: Object, reserved_for: str = "") -> list[str]:
    """The pods that are reported when the allocation of a claim that these pods name is gone."""
    made = ours("a")
    if reserved_for:
        consumer = {"resource": "pods", "name": reserved_for, "uid": f"uid of {reserved_for}"}
        made["status"]["reservedFor"] = [consumer]
    named = [
        {**one, "metadata": {**one["metadata"], "uid": f"uid of {one['metadata']['name']}"}} for one in pods
    ]
    found = intake(device_class(), node("n0"), devices("n0", "d0"), made, *named)
    told: list[Any] = []
    reclaimed = ReclaimedByScheduler(found.store, found.roster, found.placement, told.append, frozenset())
    held_before = found.store.claims[key("a")]
    nothing = held_before.status.model_copy(update={"allocation": None, "reserved_for": ()})
    freed = held_before.model_copy(update={"status": nothing})
    reclaimed.note(freed)
    assert (freed in reclaimed) == bool(told or reserved_for)
    return [one.pod.name for one in told]


WAITS, BOUND = pod("p1", "a", gates=()), pod("p0", "a", gates=(), nodeName="n0")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([WAITS], ["p1"], id="kube-scheduler decides a pod without the gate"),
        pytest.param([pod("p1", "a")], [], id="but not a gated one"),
        pytest.param([BOUND], [], id="nor one that is bound"),
        pytest.param([BOUND, WAITS], ["p1"], id="a bound one has ended when another waits"),
    ],
)
async def test_only_what_kube_scheduler_can_have_removed_is_left_to_it(
    pods: list[Object], expected: list[str]
):
    assert told_after(*pods) == expected


async def test_a_claim_that_its_pod_had_reserved_is_left_alone_without_a_warning():
    """Its pod was bound, and has probably ended: both may be told after the claim."""
    assert told_after(WAITS, reserved_for="p1") == []
    assert told_after(WAITS, reserved_for="") == ["p1"]
