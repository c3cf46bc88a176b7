"""Waiting claims are counted as they change; a plain count over everything told says the same."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending

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
        assert {unit: pending.reason(unit) for unit in UNITS if pending.reason(unit)} == {
            unit: reason for unit, reason, _ in history
        }


def test_a_reason_that_nobody_waits_for_any_more_is_counted_as_none():
    pending = Pending()
    pending.note(UNITS[0], "X", CLAIMS)
    pending.drop(UNITS[0])
    assert pending.by_reason() == {"X": 0}
