"""Two processes on one server, over HTTP: one decides, the other is ready to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import DEVICE_CLASS, EVICTION_REQUEST, LEASE, POD
from reconciler.control.decisions.allocating import Allocated, Freed, Waits
from reconciler.control.decisions.every import Evicted
from reconciler.embedded.controllers import run_controllers
from reconciler.ha.shard import POOLS, parse_shard
from tests.tools.faulty_transport import Held
from tests.tools.patience import PATIENCE
from tests.tools.preempting import important, running_before
from tests.tools.replicas import FAST, Replicas, replicas
from tests.tools.running_reconciler import Running
from tests.tools.small_fleet import claim, device_class, devices, node, pod


async def test_one_decides_and_the_other_takes_over_when_it_is_killed():
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.until_held()
        other = found.start()
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await one.until_heard(lambda: one.allocated() == ["first"])
        await found.kill(one)
        found.cluster.load(claim("second"))
        await found.cluster.until(lambda: found.cluster.devices("second"))
        await other.until_heard(lambda: other.allocated() == ["second"])


async def test_what_stops_gives_the_lease_up_after_its_last_write():
    held = Held()
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.until_held()
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
        await other.until_heard(lambda: other.allocated() == ["second"])


async def test_the_mark_of_who_was_killed_is_taken_back_before_anything_is_decided():
    """Its allocation may be on its way; with the mark gone it hits a version that is no more."""
    held = Held()
    async with replicas(claim("first", 8)) as found:
        one = found.start()
        await found.until_held()
        other = found.start()
        one.faulty.on("PATCH", "/first/status", held)
        await held.arrived.wait()
        await found.kill(one)
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await other.until_heard(lambda: other.allocated() == ["first"])


async def test_who_cannot_renew_writes_nothing_and_goes_on_when_it_can():
    async with replicas(claim("first")) as found:
        one = found.start()
        await found.cluster.until(lambda: found.cluster.devices("first"))
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
        await one.until_heard(lambda: sorted(one.allocated()) == ["first", "second"])


USUAL: dict[str, Any] = dict.fromkeys(name for name in FAST if name.endswith("_seconds"))
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
        ending: dict[str, Callable[[Running], Awaitable[None]]] = {"kill": found.kill, "stop": found.stop}
        await ending[end](one)
        found.cluster.load(claim("second"))
        await other.until_heard(lambda: other.allocated() == ["second"])
        return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("after", [0.0, 0.3, 0.7, 1.1, 1.6])
async def test_a_killed_leader_is_followed_in_time(after: float):
    assert await until_the_other_decides("kill", after) < 25.7
    assert await until_the_other_decides("kill", after, lease_seconds=5.0) < 8


@pytest.mark.parametrize("after", [0.0, 0.3, 0.7, 1.1, 1.6])
async def test_a_stopped_leader_is_followed_in_two_seconds(after: float):
    assert await until_the_other_decides("stop", after) < 2


# -- Who takes over deals with the eviction requests of who was killed after it had asked.


@asynccontextmanager
async def killed_after_it_asked(patience: float) -> AsyncIterator[tuple[Replicas, Running]]:
    """The first process has asked others to end `low` for `high`. The other one takes over."""
    options: dict[str, Any] = {
        "preemption": "evict",
        "preempting_classes": {"high"},
        "eviction_cooldown_seconds": 0.0,
        "eviction_request_seconds": patience,
    }
    waiting = claim("wanted", 8, managed=False), important("high", "wanted")
    low = running_before("low", "c0", "d0")
    async with replicas(*low, *waiting) as found, run_controllers(found.cluster.api):
        one = found.start(**options)
        await found.until_held()
        other = found.start(**options)
        await until_asked(found, 1)
        await found.kill(one)
        assert not one.of(Evicted)
        yield found, other


async def until_asked(found: Replicas, number: int) -> None:
    """Wait until there are so many EvictionRequests."""
    shelf = found.cluster.api.store[EVICTION_REQUEST]
    async with asyncio.timeout(PATIENCE):
        while len(list(shelf.scan(""))) != number:
            await shelf.wait(shelf.end)


async def test_the_next_leader_withdraws_requests_that_nobody_needs_any_more():
    async with killed_after_it_asked(200.0) as (found, other):
        found.cluster.api.delete(POD, "default", "high")
        await until_asked(found, 0)
        assert found.cluster.phase("low") == "Running"
        assert not other.of(Evicted)


async def test_the_next_leader_asks_for_what_is_still_needed_and_evicts_in_the_end():
    async with killed_after_it_asked(10.0) as (found, other):
        await other.heard(Evicted)
        assert found.cluster.pod("low") is None
        await until_asked(found, 0)


# -- Processes of different shards on one cluster, over HTTP.


NIC = "nic.example.com"
GPUS, NICS = "driver=gpu.example.com", f"driver={NIC}"


def fleet() -> list[Any]:
    nics = [devices(name, "n0", "n1", driver=NIC) for name in ("a", "b")]
    return [device_class("nic", NIC), node("b"), devices("b", "d0", "d1"), *nics]


async def heard(replica: Running, name: str) -> str:
    """The reason for which a claim waits."""

    def reasons() -> list[str]:
        told = [one for one in replica.decisions if isinstance(one, Waits)]
        return [one.reason for one in told if any(key.name == name for key in one.claims)]

    await replica.until_heard(reasons)
    return reasons()[0]


def held_by(found: Replicas, name: str) -> str:
    results = found.cluster.claim(name)["status"]["allocation"]["devices"]["results"]
    return ",".join(sorted({result["driver"] for result in results}))


def given_out(found: Replicas) -> list[tuple[str, str, str]]:
    return [
        (result["driver"], result["pool"], result["device"])
        for one in found.cluster.claims()
        for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


async def test_each_shard_serves_its_own_and_says_what_needs_both():
    async with replicas(*fleet()) as found:
        gpus, nics = found.start(shard=GPUS), found.start(shard=NICS)
        found.cluster.load(claim("gpu"), claim("nic", device_class="nic"))
        await found.cluster.until(lambda: found.cluster.devices("gpu") and found.cluster.devices("nic"))
        both = claim("both")
        wanted = [{"name": n, "exactly": {"deviceClassName": n}} for n in ("gpu", "nic")]
        both["spec"] = {"devices": {"requests": wanted}}
        found.cluster.load(both)
        assert await heard(gpus, "both") == await heard(nics, "both") == "NeedsSeveralShards"
        found.cluster.load(
            claim("one", managed=False),
            claim("other", device_class="nic", managed=False),
            pod("p", "one", "other"),
        )
        assert await heard(gpus, "one") == await heard(nics, "one") == "NeedsSeveralShards"
        await gpus.until_heard(lambda: gpus.allocated() == ["gpu"])
        await nics.until_heard(lambda: nics.allocated() == ["nic"])
        assert (held_by(found, "gpu"), held_by(found, "nic")) == ("gpu.example.com", NIC)
        assert not [one for one in gpus.decisions if isinstance(one, Waits) and "nic" in str(one.claims)[:40]]
        for name in ("both", "one", "other"):
            assert not found.cluster.devices(name)
            assert "finalizers" not in found.cluster.claim(name)["metadata"]


async def test_a_class_that_says_more_later_brings_its_claims_to_their_shard():
    async with replicas(*fleet()) as found:
        gpus = found.start(shard=GPUS)
        vague = device_class("vague")
        vague["spec"]["selectors"][0]["cel"]["expression"] = "device.driver != 'nobody'"
        found.cluster.load(vague, claim("c", device_class="vague"))
        assert await heard(gpus, "c") == "NeedsSeveralShards"
        better = device_class("vague")["spec"]
        found.cluster.api.update(DEVICE_CLASS, "", "vague", lambda shown: {**shown, "spec": better})
        await found.cluster.until(lambda: found.cluster.devices("c"))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("", GPUS), (GPUS, ""), (GPUS, f"{GPUS},{NICS}")],
    ids=["the whole first", "the part first", "a part of it first"],
)
async def test_who_overlaps_with_a_live_shard_does_nothing_until_that_ends(earlier: str, later: str):
    """In whichever order they start."""
    async with replicas(*fleet()) as found:
        one = found.start(shard=earlier)
        await found.until_held(parse_shard(earlier).lease)
        other = found.start(shard=later)
        found.cluster.load(claim("first"))
        await found.cluster.until(lambda: found.cluster.devices("first"))
        await one.until_heard(lambda: one.allocated() == ["first"])
        await found.stop(one)
        await found.until_held(parse_shard(later).lease)
        found.cluster.load(claim("second"))
        await found.cluster.until(lambda: found.cluster.devices("second"))
        await other.until_heard(lambda: other.allocated() == ["second"])


async def test_shards_that_differ_in_pools_serve_the_claims_that_say_which():
    async with replicas(*fleet()) as found:
        one, other = found.start(shard="pool-prefix=a"), found.start(shard="pool-prefix=b")
        for name, pools in (("x", "a"), ("y", "b")):
            wanted = claim(name)
            wanted["metadata"]["annotations"] = {POOLS: pools}
            found.cluster.load(wanted)
        found.cluster.load(claim("z"))
        await found.cluster.until(lambda: found.cluster.devices("x") and found.cluster.devices("y"))
        assert await heard(one, "z") == await heard(other, "z") == "NeedsSeveralShards"
        await one.until_heard(lambda: one.allocated() == ["x"])
        await other.until_heard(lambda: other.allocated() == ["y"])
        assert found.cluster.devices("x") == ["a/d0"]
        assert found.cluster.devices("y") == ["b/d0"]


@pytest.mark.parametrize("seed", range(4))
async def test_no_two_shards_write_one_claim_or_give_one_device_out(seed: int):
    """Whatever is asked for, freed and edited meanwhile."""
    random = Random(seed)
    async with replicas(*fleet()) as found:
        both = [found.start(shard=GPUS), found.start(shard=NICS)]
        names = [f"c{number}" for number in range(30)]
        for number, name in enumerate(names):
            wanted = claim(
                name, random.randint(1, 2), device_class=random.choice(("gpu", "nic")), managed=number % 3 > 0
            )
            if random.random() < 0.2:
                wanted["spec"]["devices"]["requests"].append(
                    {"name": "too", "exactly": {"deviceClassName": random.choice(("gpu", "nic"))}}
                )
            found.cluster.load(wanted)
            if random.random() < 0.4:
                found.cluster.load(pod(f"p{number}", *random.sample(names[: number + 1], min(number + 1, 2))))
            if random.random() < 0.3:
                gone = random.choice(names[: number + 1])
                if found.cluster.claim(gone) is not None:
                    found.cluster.delete(gone)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0)
        for name in ("last-gpu", "last-nic"):
            found.cluster.load(claim(name, 99, device_class=name[-3:]))
        await heard(both[0], "last-gpu")
        await heard(both[1], "last-nic")
        for one in both:
            await one.until_heard(one.allocated)
        wrote = [{str(d.claim) for d in one.decisions if isinstance(d, Allocated | Freed)} for one in both]
        assert not wrote[0] & wrote[1]
        given = given_out(found)
        assert len(given) == len(set(given))
