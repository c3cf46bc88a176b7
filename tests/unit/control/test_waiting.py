"""Who waits for Koordinator's devices: asked again by the shape of what they ask for, one look for each.
And pending claims: counted as they change, as a plain count over everything told does; by namespace.
"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending, Waiting, Wants
from reconciler.operations.metrics.catalogue import MAX_NAMESPACES, OTHER
from reconciler.operations.telemetry import largest_namespaces
from reconciler.plugins.koordinator.demand import Demand, read_demand
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools.koordinator_cluster import wants
from tests.tools.unit_pictures import claim_unit, pod_unit


def demand(name: str, gpus: int) -> Demand:
    found = read_demand(Pod.model_validate(wants(name, {"nvidia.com/gpu": gpus})), Rules())
    assert isinstance(found, Demand)
    return found


class Fleet:
    """May serve demands for so many GPUs, and counts how often it is asked."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.looks = 0

    def may_serve(self, asked: Demand) -> bool:
        self.looks += 1
        return asked.shape == demand("other", self.gpus).shape


def waiting(**gpus: int) -> Waiting:
    found = Waiting()
    found.add(claim_unit("c"), Wants(frozenset({"gpu"}), room=True))
    for name, count in gpus.items():
        found.add(pod_unit(name), Wants(frozenset(), room=False, demand=demand(name, count)))
    return found


def woken(found: Waiting, gpus: int) -> tuple[set[Unit], int]:
    fleet = Fleet(gpus)
    return set(found.served_by(fleet.may_serve)), fleet.looks


def test_pods_that_ask_for_the_same_are_woken_by_one_look():
    assert woken(waiting(a=1, b=1, c=2), 1) == ({pod_unit("a"), pod_unit("b")}, 2)


def test_a_pod_that_asks_for_something_else_now_is_woken_for_that():
    found = waiting(a=1)
    found.add(pod_unit("a"), Wants(frozenset(), room=False, demand=demand("a", 2)))
    assert woken(found, 1) == (set(), 1)
    assert woken(found, 2) == ({pod_unit("a")}, 1)


def test_who_waits_no_more_is_not_looked_at():
    found = waiting(a=1)
    found.drop(pod_unit("a"))
    found.drop(pod_unit("a"))
    assert woken(found, 1) == (set(), 0)


def test_pending_claims_by_namespace_are_counted_once_and_bounded():
    found = Pending()
    for at in range(MAX_NAMESPACES + 5):
        claims = [ObjectKey(f"team-{at:02}", str(number)) for number in range(at + 1)]
        for name in ("one", "two"):  # both pods wait for the same claims
            found.note(pod_unit(f"{name}-{at}"), "DevicesInUse", claims)
    counts = largest_namespaces(found.by_namespace())
    assert sum(counts.values()) == found.by_reason()["DevicesInUse"]
    assert counts[OTHER] == sum(range(1, 6))
    assert len(counts) == MAX_NAMESPACES + 1
    assert next(iter(counts)) == f"team-{MAX_NAMESPACES + 4}"
    for at in range(MAX_NAMESPACES + 5):
        found.drop(pod_unit(f"one-{at}"))
        found.drop(pod_unit(f"two-{at}"))
    assert largest_namespaces(found.by_namespace()) == {}


CLAIMS = [ObjectKey("default", name) for name in "abc"]
UNITS = [Unit(Kind.POD, ObjectKey("default", name)) for name in "pqr"]
told = st.tuples(st.sampled_from(UNITS), st.sampled_from(["X", "Y"]), st.lists(st.sampled_from(CLAIMS)))
dropped = st.sampled_from(UNITS)


def recount(history: list[tuple[Unit, str, tuple[ObjectKey, ...]]]) -> Counter[str]:
    """Every claim once, under the reason that was told first of those that still hold."""
    counts: Counter[str] = Counter()
    for claim in CLAIMS:
        reasons = [reason for _, reason, claims in history if claim in claims]
        counts.update(reasons[:1])
    return counts


@given(st.lists(told | dropped, max_size=20))
def test_counts_are_those_of_what_still_holds(steps):
    pending = Pending()
    history: list[tuple[Unit, str, tuple[ObjectKey, ...]]] = []
    for step in steps:
        if isinstance(step, Unit):
            pending.drop(step)
            history = [entry for entry in history if entry[0] != step]
        else:
            unit, reason, claims = step
            before = pending.reason(unit)
            assert pending.note(unit, reason, claims) == (before != reason)
            if (unit, reason, tuple(claims)) not in history:
                history = [entry for entry in history if entry[0] != unit]
                history.append((unit, reason, tuple(claims)))
        assert Counter(pending.by_reason()) == recount(history)
        found = {unit: pending.reason(unit) for unit in UNITS if pending.reason(unit)}
        assert found == {unit: reason for unit, reason, _ in history}


def test_a_reason_that_nobody_waits_for_any_more_is_counted_as_none():
    pending = Pending()
    pending.note(UNITS[0], "X", CLAIMS)
    pending.drop(UNITS[0])
    assert pending.by_reason() == {"X": 0}
