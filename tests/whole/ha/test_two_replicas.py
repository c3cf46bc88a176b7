"""Two processes on one server, over HTTP: one decides, the other is ready to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import LEASE
from tests.tools.faulty_transport import Held
from tests.tools.patience import PATIENCE
from tests.tools.replicas import FAST, Replica, replicas
from tests.tools.small_fleet import claim


async def test_one_decides_and_the_other_takes_over_when_it_is_killed():
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.until_held()
        other = found.start()
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await one.until(lambda: one.allocated() == ["first"])
        await found.kill(one)
        found.cluster.load(claim("second"))
        await found.cluster.until(lambda: found.cluster.devices("second"))
        await other.until(lambda: other.allocated() == ["second"])


async def test_what_stops_gives_the_lease_up_after_its_last_write():
    held = Held()
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.until_held()
        assert one.faulty is not None
        one.faulty.on("PATCH", "/first/status", held)
        await held.arrived.wait()
        stopping = asyncio.create_task(found.stop(one))
        await asyncio.sleep(0)
        assert found.lease()["spec"]["holderIdentity"]
        held.go.set()
        await stopping
        assert found.cluster.devices("first")
        lease = found.lease()
        assert lease["spec"]["holderIdentity"] == ""
        assert lease["metadata"]["annotations"]["dra-reconciler.io/wait-seconds"] == "0.000"


async def test_a_lease_that_was_given_up_is_taken_without_waiting():
    """The other has been waiting with the whole picture; the old leases' terms are not waited out."""
    slow = {"lease_seconds": 600.0, "renew_seconds": 500.0, "write_seconds": 300.0}
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.cluster.until(lambda: found.cluster.devices("first"))
        other = found.start(**slow)
        await found.stop(one)
        found.cluster.load(claim("second"))
        await found.cluster.until(lambda: found.cluster.devices("second"))
        await other.until(lambda: other.allocated() == ["second"])


async def test_the_mark_of_who_was_killed_is_taken_back_before_anything_is_decided():
    """Its allocation may be on its way; with the mark gone it hits a version that is no more."""
    held = Held()
    async with replicas(claim("first", 8)) as found:
        one = found.start()
        await found.until_held()
        other = found.start()
        assert one.faulty is not None
        one.faulty.on("PATCH", "/first/status", held)
        await held.arrived.wait()
        await found.kill(one)
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await other.until(lambda: other.allocated() == ["first"])


async def test_who_cannot_renew_writes_nothing_and_goes_on_when_it_can():
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.cluster.until(lambda: found.cluster.devices("first"))
        assert one.faulty is not None
        await found.until_held()
        found.cluster.api.update(
            LEASE,
            "kube-system",
            "dra-reconciler",
            lambda shown: {**shown, "spec": {**shown["spec"], "holderIdentity": "somebody"}},
        )
        shelf = found.cluster.api.store[LEASE]
        async with asyncio.timeout(PATIENCE):
            while found.lease()["spec"]["holderIdentity"] == "somebody":
                await shelf.wait(shelf.end)
        found.cluster.load(claim("second"))
        await found.cluster.until(lambda: found.cluster.devices("second"))
        await one.until(lambda: sorted(one.allocated()) == ["first", "second"])


USUAL: dict[str, Any] = {
    **dict.fromkeys(name for name in FAST if name.endswith("_seconds")),
    "no_earlier_leader": True,
}
"""With the durations that nobody sets"""


async def until_the_other_decides(end: str, after: float, **flags: Any) -> float:
    """Seconds of the virtual clock from the end of a leader, so long after both are ready."""
    async with replicas(claim("first")) as found:
        one = found.start(**USUAL | flags)
        await found.until_held()
        other = found.start(**USUAL | flags)
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await asyncio.sleep(60 + after)
        began = asyncio.get_running_loop().time()
        ending: dict[str, Callable[[Replica], Awaitable[None]]] = {"kill": found.kill, "stop": found.stop}
        await ending[end](one)
        found.cluster.load(claim("second"))
        await other.until(lambda: other.allocated() == ["second"])
        return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("after", [0.0, 0.3, 0.7, 1.1, 1.6])
async def test_a_killed_leader_is_followed_in_time(after: float):
    assert await until_the_other_decides("kill", after) < 26.5
    assert await until_the_other_decides("kill", after, lease_seconds=5.0) < 8


@pytest.mark.parametrize("after", [0.0, 0.3, 0.7, 1.1, 1.6])
async def test_a_stopped_leader_is_followed_in_two_seconds(after: float):
    assert await until_the_other_decides("stop", after) < 2
