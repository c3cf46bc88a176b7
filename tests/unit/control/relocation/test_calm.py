"""When it is time for a plan."""

from reconciler.control.relocation.moves import PATIENCE, Calm


def test_a_plan_is_due_after_a_calm_time():
    calm = Calm(10.0)
    assert not calm.due("a", 0.0)
    assert not calm.due("a", 9.9)
    assert calm.due("a", 10.0)


def test_every_change_starts_the_calm_time_anew():
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert not calm.due("b", 9.0)
    assert not calm.due("b", 18.9)
    assert calm.due("b", 19.0)


def test_nothing_is_planned_twice_from_one_state():
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert calm.due("a", 10.0)
    calm.planned("a", 10.0, 11.0)
    assert not calm.due("a", 1e6)
    calm.again()
    assert calm.due("a", 1e6)


def test_a_fleet_that_never_rests_has_advice_now_and_then_but_is_not_at_rest():
    calm, due = Calm(10.0), []
    for second in range(201):
        if calm.due(second, float(second)):
            due.append(second)
            assert not calm.rests(float(second))
            calm.planned(second, float(second), float(second))
    assert due == [10 * PATIENCE, 20 * PATIENCE]


def test_what_was_planned_without_rest_is_planned_again_at_rest():
    """Pods move only then."""
    calm = Calm(10.0)
    calm.due("a", 0.0)
    assert calm.due("b", 10.0 * PATIENCE)
    assert not calm.rests(10.0 * PATIENCE)
    calm.planned("b", 10.0 * PATIENCE, 10.0 * PATIENCE)
    assert not calm.due("b", 10.0 * PATIENCE + 9)
    assert calm.due("b", 10.0 * PATIENCE + 10)
