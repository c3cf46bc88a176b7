"""Nothing is decided while an allocation that a predecessor sent may still arrive."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from reconciler.api.objects.claims import (
    ALLOCATED_AT,
    ANNOUNCED,
    FINALIZER,
    ResourceClaim,
    is_announced,
    mark,
)
from reconciler.api.objects.core import GATE
from reconciler.api.objects.gangs import SEAT
from reconciler.cluster.writer import Writer
from reconciler.control.fence import AT_ONCE, NAMED, Fence
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.errors import Conflict, Gone, Rejected, Retry
from tests.tools.gangs import annotated
from tests.tools.small_fleet import DRIVER, claim, held
from tests.tools.unit_pictures import intake, key, typed

PATIENCE = 10.0


class FakeWriter(Writer):
    """Holds one claim, and meets each attempt to take the mark back with what it is told."""

    def __init__(self, server: ResourceClaim | None, *answers: Exception | ResourceClaim) -> None:
        self.server = server
        self.answers = list(answers)
        self.refused = asyncio.Event()

    async def read_claim(self, _key: Any) -> ResourceClaim | None:
        return self.server

    async def touch(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata.model_copy(update={"resource_version": "touched"})
        return claim.model_copy(update={"metadata": metadata})

    async def withdraw(self, _claim: ResourceClaim) -> ResourceClaim:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            self.refused.set()
            raise answer
        self.server = answer
        return answer


def marked(**status: Any) -> dict[str, Any]:
    made = claim("a")
    made["metadata"] |= {"finalizers": [FINALIZER], "annotations": {ALLOCATED_AT: "2026-01-01T00:00:00Z"}}
    return {**made, "status": status} if status else made


def picture(raw: dict[str, Any]) -> Intake:
    found = intake(raw)
    found.listed.set()
    return found


async def up_after(found: Intake, writer: FakeWriter) -> float:
    """Seconds until the fence is up."""
    clock = asyncio.get_running_loop().time
    fence = Fence(found, writer, Ownership(alone=True), clock=clock, patience=PATIENCE)
    began = clock()
    await fence.raise_()
    assert fence.up.is_set()
    return clock() - began


async def test_a_mark_without_an_allocation_is_taken_back_first():
    found = picture(marked())
    writer = FakeWriter(found.store.claims[key("a")], typed(claim("a")))
    assert await up_after(found, writer) == 0
    assert writer.answers == []
    assert found.store.claims[key("a")].metadata.finalizers == ()


async def test_so_is_the_mark_of_a_claim_that_a_policy_announced():
    """A predecessor may have allocated it without another write before."""
    made = marked()
    made["metadata"]["annotations"] = {ALLOCATED_AT: ANNOUNCED}
    found = picture(made)
    await up_after(found, FakeWriter(found.store.claims[key("a")], typed(claim("a"))))
    assert not is_announced(found.store.claims[key("a")])


async def test_of_many_claims_some_are_fenced_off_at_a_time_and_some_are_named():
    """Each needs a connection until its deadline."""
    names = [f"c{number:02}" for number in range(AT_ONCE + NAMED)]
    found = intake(*({**marked(), "metadata": {**marked()["metadata"], "name": name}} for name in names))
    found.listed.set()
    busy, most = 0, 0

    class Slow(FakeWriter):
        async def read_claim(self, key: Any) -> ResourceClaim | None:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(1)
            busy -= 1
            return found.store.claims[key]

        async def withdraw(self, claim: ResourceClaim) -> ResourceClaim:
            return claim.model_copy(update={"metadata": claim.metadata.model_copy(update={"finalizers": ()})})

    with capture_logs() as logs:
        assert await up_after(found, Slow(None)) == 2
    assert most == AT_ONCE
    assert logs[0]["claims"] == [*(f"default/{name}" for name in names[:NAMED]), f"and {AT_ONCE} more"]


async def test_a_write_that_was_faster_is_seen():
    """The claim is read again after the conflict, so that its devices count as held from the start."""
    found = picture(marked())
    writer = FakeWriter(found.store.claims[key("a")], Conflict("somebody wrote"))
    attempt = asyncio.create_task(up_after(found, writer))
    await writer.refused.wait()
    writer.server = typed(marked(**held(DRIVER, "n", "d0")))
    await attempt
    assert found.store.claims[key("a")].allocation is not None


async def test_it_is_tried_until_the_server_answers():
    found = picture(marked())
    answers = [*[Retry("away")] * 3, typed(claim("a"))]
    assert 0.7 <= await up_after(found, FakeWriter(found.store.claims[key("a")], *answers)) < 1


async def test_a_claim_that_is_gone_needs_no_fence():
    found = picture(marked())
    assert await up_after(found, FakeWriter(None)) == 0
    assert await up_after(found, FakeWriter(found.store.claims[key("a")], Gone("gone"))) == 0


async def test_what_cannot_be_fenced_off_is_waited_out():
    found = picture(marked())
    writer = FakeWriter(found.store.claims[key("a")], Rejected("a webhook forbids it"))
    assert await up_after(found, writer) == PATIENCE


async def test_claims_that_nobody_marked_are_left_alone():
    made = claim("a")
    made["metadata"]["finalizers"] = [FINALIZER]
    assert await up_after(picture(made), FakeWriter(None)) == 0


def seat(gated: bool) -> Intake:
    """A claim that was allocated for a gang, and its pod."""
    made = claim("a")
    made["status"] = held(DRIVER, "n", "d0", on="n")
    parsed: Any = typed(made)
    notes = {ALLOCATED_AT: mark("2026-01-01T00:00:00Z", parsed.allocation), SEAT: "annotation/g 2 n"}
    made["metadata"]["annotations"] = notes
    found = intake(made, annotated("p", "a", size=2, gates=(GATE,) if gated else ()))
    found.listed.set()
    return found


async def test_a_gang_that_a_predecessor_may_be_giving_back_is_fenced_off():
    found = seat(gated=True)
    await up_after(found, FakeWriter(found.store.claims[key("a")]))
    assert found.store.claims[key("a")].metadata.resource_version == "touched"


async def test_a_gang_whose_gates_are_removed_is_not_given_back_by_anybody():
    found = seat(gated=False)
    before = found.store.claims[key("a")]
    await up_after(found, FakeWriter(before))
    assert found.store.claims[key("a")] is before
