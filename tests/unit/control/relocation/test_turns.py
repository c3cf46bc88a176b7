"""One plan is carried out at a time."""

from reconciler.control.relocation.evictor import Purpose, Turns


def test_only_one_has_its_turn():
    turns = Turns()
    assert turns.take(Purpose.REBALANCING)
    assert not turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.REBALANCING)
    assert turns.take(Purpose.PREEMPTION)


def test_who_makes_room_for_pending_pods_comes_first():
    """It asks; who moves pods learns of it, ends, and gets no turn before it is over."""
    turns = Turns()
    turns.take(Purpose.REBALANCING)
    assert not turns.yields(Purpose.REBALANCING)
    turns.take(Purpose.PREEMPTION)
    assert turns.yields(Purpose.REBALANCING)
    turns.end(Purpose.REBALANCING)
    assert not turns.take(Purpose.REBALANCING)
    assert turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.PREEMPTION)
    assert turns.take(Purpose.REBALANCING)


def test_who_needs_no_turn_any_more_is_not_waited_for():
    turns = Turns()
    turns.take(Purpose.REBALANCING)
    turns.take(Purpose.PREEMPTION)
    turns.end(Purpose.PREEMPTION)
    assert not turns.yields(Purpose.REBALANCING)
