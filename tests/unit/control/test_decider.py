"""Answers, and refusals that are remembered for as long as nothing changes."""

from typing import Any

from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider, Refusal
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Decide
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node
from tests.tools.unit_pictures import intake, key, put, remove


def full(*raws: dict[str, Any]) -> Intake:
    """One node, one device, which a claim holds."""
    taken = {**claim("taken"), "status": held(DRIVER, "n", "d0")}
    return intake(node("n"), device_class(), devices("n", "d0"), taken, *raws)


def asked(picture: Intake, name: str) -> Decide:
    return Decide((picture.store.claims[key(name)],), None)


def decider(**ours: Any) -> Decider:
    return Decider(Ownership(**{"alone": True, **ours}), steps=1000)


async def test_a_refusal_answers_the_same_question_of_another_claim():
    """A device set free wakes all who wait; one search does for all of the same kind."""
    picture, deciding = full(claim("a"), claim("b"), claim("big", count=2)), decider()
    world = picture.store.snapshot()
    refusal = deciding.answer(asked(picture, "a"), world)
    assert isinstance(refusal, Refusal)
    assert deciding.refuses(asked(picture, "b"), world) == refusal.reason
    assert deciding.refuses(asked(picture, "big"), world) is None


async def test_the_nodes_are_part_of_the_question():
    picture, deciding = full(claim("a")), decider()
    world = picture.store.snapshot()
    deciding.answer(asked(picture, "a"), world)
    elsewhere = Decide(asked(picture, "a").claims, picture.nodes.only("n", world.topology))
    assert deciding.refuses(elsewhere, world) is None


async def test_any_change_of_the_picture_makes_it_a_new_question():
    picture, deciding = full(claim("a")), decider()
    deciding.answer(asked(picture, "a"), picture.store.snapshot())
    put(picture, devices("m", "d1"), node("m"))
    assert deciding.refuses(asked(picture, "a"), picture.store.snapshot()) is None
    remove(picture, "ResourceClaim", "taken")
    assert isinstance(deciding.answer(asked(picture, "a"), picture.store.snapshot()), Granted)


async def test_a_plan_with_a_device_of_somebody_else_is_refused():
    picture = intake(node("n"), device_class(), devices("n", "d0"), claim("a"))
    deciding = decider(alone=False, drivers={"other.example.com"})
    refusal = deciding.answer(asked(picture, "a"), picture.store.snapshot())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.room) == ("NotOurs", True)


async def test_room_does_not_help_where_something_has_to_be_mended():
    picture = intake(node("n"), devices("n", "d0"), claim("a"))
    refusal = decider().answer(asked(picture, "a"), picture.store.snapshot())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.room) == ("ClassNotFound", False)


async def test_claims_that_repeat_get_devices_found_ahead_if_they_are_ours():
    """They are the same devices; a device of somebody else is refused as ever."""
    names = ["a", "b", "c", "d", "e"]
    picture = intake(
        node("n"), device_class(), devices("n", *[f"d{n}" for n in range(5)]), *map(claim, names)
    )
    deciding, foreign, got = decider(), decider(alone=False, drivers={"other.example.com"}), []
    for name in names:
        question = asked(picture, name)
        assert isinstance(foreign.answer(question, picture.store.snapshot()), Refusal)
        answer = deciding.answer(question, picture.store.snapshot())
        assert isinstance(answer, Granted)
        picture.assume(answer.plans[0])
        got += [result.device for result in answer.plans[0].allocation.devices.results]
    assert got == ["d0", "d1", "d2", "d3", "d4"]
