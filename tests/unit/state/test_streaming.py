"""Any history gives the same state as a fresh list, and snapshots never change.

But for one thing, which no listing gives: what held devices drew before their slices changed.
"""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store
from tests.tools.examples import examples
from tests.tools.store_events import BEGINNING, CLAIM_EVENTS, EVENTS, Event, Look
from tests.tools.store_objects import RULES
from tests.tools.store_picture import picture
from tests.tools.store_streaming import happen, run
from tests.tools.store_world import World


@examples(50)
@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=20))
def test_any_sequence_of_events_equals_a_fresh_list(rules: Semantics, events: list[Event]):
    run(rules, [*BEGINNING, Look(keep=False), *events])


@examples(50)
@given(st.sampled_from(RULES), st.lists(CLAIM_EVENTS, min_size=3, max_size=20))
def test_holding_and_releasing_step_by_step_equals_holding_at_once(rules: Semantics, events: list[Event]):
    run(rules, [*BEGINNING, Look(keep=False), *events])


@examples(60)
@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=12), st.lists(st.integers(0, 4), max_size=30))
def test_pools_built_ahead_in_steps_equal_pools_built_at_once(
    rules: Semantics, events: list[Event], ahead: list[int]
):
    run(rules, [*BEGINNING, *events], ahead)


@examples(40)
@given(st.lists(EVENTS, max_size=8))
def test_an_empty_store_can_be_filled_in_any_order(events: list[Event]):
    run(Semantics(), events)


@examples(40)
@given(st.lists(EVENTS, max_size=12))
def test_a_snapshot_never_changes(events: list[Event]):
    """Whether it was read or not, later changes do not affect it."""
    store, world = Store(Semantics()), World()
    said = []
    for event in [*BEGINNING, *events]:
        happen(store, world, event, [])
        if isinstance(event, Look) and event.keep:
            seen = store.snapshot()
            said.append((seen, deepcopy(picture(seen))))
    store.snapshot()
    assert [picture(seen) for seen, _ in said] == [then for _, then in said]
