"""What is assumed while a plan is written, and afterwards, whatever the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.plan import Plan
from reconciler.cluster.writer import Writer
from reconciler.control.decisions.declaration import Decision
from reconciler.control.intake import Intake
from reconciler.control.settler import Settler
from reconciler.errors import Conflict, Gone, Rejected, Retry, Undecided
from tests.tools.small_fleet import DRIVER, claim, held
from tests.tools.unit_pictures import intake, key, put, typed

HELD = held(DRIVER, "n", "d0")
DEVICE = DeviceID(DRIVER, "n", "d0")


class FakeWriter(Writer):
    """Answers as it is told; `reads` and `withdrawn` are the claims that were asked for."""

    def __init__(self, answer: Callable[[], ResourceClaim], server: ResourceClaim | None = None) -> None:
        self.answer = answer
        self.server = server
        self.withdrawn: list[ResourceClaim] = []

    async def write(self, plan: Plan, claim: ResourceClaim) -> ResourceClaim:  # noqa: ARG002
        return self.answer()

    async def read_claim(self, _key: Any) -> ResourceClaim | None:
        return self.server

    async def withdraw(self, claim: ResourceClaim) -> ResourceClaim:
        self.withdrawn.append(claim)
        return claim


def ignore(_: Plan | Decision) -> None:
    """Nobody listens."""


def assumed(picture: Intake) -> tuple[Plan, ResourceClaim]:
    """A plan for claim `a`, decided and assumed."""
    found = picture.store.claims[key("a")]
    allocation = Allocation.model_validate(HELD["allocation"])
    plan = Plan(found.key, found.metadata.uid, found.metadata.resource_version, "n", allocation)
    picture.store.assume(plan)
    return plan, found


def taken(picture: Intake) -> bool:
    return bool(picture.store.holders(DEVICE))


async def test_a_written_plan_is_no_longer_assumed_but_held():
    picture = intake(claim("a"))
    pair = assumed(picture)
    answer = typed({**claim("a"), "status": HELD})
    await Settler(picture, FakeWriter(lambda: answer), ignore).settle([pair], ignore)
    assert picture.store.assumed(pair[0].uid) is None
    assert taken(picture)


async def test_an_answer_does_not_count_for_more_than_what_the_watch_told_since():
    """Allocated, then cleared by somebody, and all that the watch ever saw is the claim without anything."""
    picture = intake(claim("a"))
    pair = assumed(picture)
    answer = typed({**claim("a"), "status": HELD})

    def overtaken() -> ResourceClaim:
        put(picture, claim("a"))
        return answer

    await Settler(picture, FakeWriter(overtaken), ignore).settle([pair], ignore)
    assert picture.store.assumed(pair[0].uid) is None
    assert not taken(picture)


@pytest.mark.parametrize(
    ("error", "still"),
    [
        pytest.param(Conflict("someone was faster"), False, id="conflict"),
        pytest.param(Retry("busy"), False, id="not applied"),
        pytest.param(Rejected("invalid"), False, id="refused"),
        pytest.param(Gone("deleted"), False, id="gone"),
        pytest.param(Undecided("no answer"), True, id="no answer"),
        pytest.param(ZeroDivisionError(), True, id="an error nobody expected"),
    ],
)
async def test_a_device_is_free_again_only_if_the_write_was_certainly_not_applied(
    error: Exception, still: bool
):
    picture = intake(claim("a"))
    pair = assumed(picture)

    def fail() -> ResourceClaim:
        raise error

    with pytest.raises(type(error)):
        await Settler(picture, FakeWriter(fail, server=pair[1]), ignore).settle([pair], ignore)
    assert taken(picture) is still


@pytest.mark.parametrize(
    ("status", "fenced"),
    [
        pytest.param({}, True, id="not applied: made impossible, then free"),
        pytest.param({"status": HELD}, False, id="applied: held"),
    ],
)
async def test_a_write_without_an_answer_is_resolved_by_reading(status: dict[str, Any], fenced: bool):
    picture = intake(claim("a"))
    pair = assumed(picture)
    writer = FakeWriter(lambda: pair[1], server=typed({**claim("a"), **status}))
    await Settler(picture, writer, ignore).resolve(pair[1])
    assert bool(writer.withdrawn) is fenced
    assert picture.store.assumed(pair[0].uid) is None
    assert taken(picture) is not fenced


async def test_nothing_is_resolved_that_was_never_assumed():
    picture = intake(claim("a"))
    writer = FakeWriter(lambda: picture.store.claims[key("a")])
    await Settler(picture, writer, ignore).resolve(picture.store.claims[key("a")])
    assert writer.withdrawn == []


async def test_a_write_that_has_not_begun_is_not_taken_for_one_without_an_answer():
    """A turn about the claim itself may come between a decision and its write."""
    picture = intake(claim("a"))
    pair = assumed(picture)
    plan, found = pair
    answer = typed({**claim("a"), "status": HELD})
    writer = FakeWriter(lambda: answer, server=found)
    settler = Settler(picture, writer, ignore)
    settler.assume(plan)
    await settler.resolve(found)
    assert writer.withdrawn == []
    assert taken(picture)
    await settler.settle([pair], ignore)
    assert taken(picture)
