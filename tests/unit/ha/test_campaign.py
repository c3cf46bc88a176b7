"""Leader election: bids, who may write until when, and what a candidate says that it waits for."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from reconciler.api.validation.served_kinds import LEASE
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Request
from reconciler.embedded import ApiServer
from reconciler.errors import Retry
from reconciler.ha.campaign import Campaign, FencedTransport, Leases
from reconciler.ha.elector import Bid, Elector, Record, Terms
from reconciler.ha.shard import WHOLE, parse_shard
from tests.tools.candidates import NAMESPACE, Candidate, Device, Server, candidate
from tests.tools.examples import examples
from tests.tools.scripted_transport import Scripted, ok
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.memory import InMemory

SHARDS = (
    WHOLE,
    parse_shard("driver=a"),
    parse_shard("driver=b"),
    parse_shard("driver=a,pool-prefix=x"),
    parse_shard("pool-prefix=xy"),
)
SETTLED = 150.0
"""Seconds of calm after which somebody leads: two old leases and their writes waited out, and chance"""


class Play:
    """A life of a few candidates, drawn from a seed."""

    def __init__(self, seed: int, loop: SimulationLoop) -> None:
        self.random = Random(seed)
        self.device = Device(loop)
        self.server = Server(loop, self.random)
        self.trouble = self.random.choice((0.0, 0.1, 0.4))
        self.shards = self.random.choice(((WHOLE,), (WHOLE,), SHARDS[1:3], SHARDS))
        self.candidates: list[Candidate] = []
        self.made = 0

    def add(self) -> None:
        self.made += 1
        one = candidate(
            f"c{self.made}",
            self.random.choice(self.shards),
            self.server,
            self.device,
            self.random,
            trouble=self.trouble,
        )
        self.candidates.append(one)
        one.start()

    async def act(self) -> None:
        one = self.random.choice(self.candidates)
        act = self.random.choice(("kill", "stop", "cut", "cut", "heal", "restart", "delete", "wait", "wait"))
        if act in ("kill", "stop"):
            self.candidates.remove(one)
            await (one.kill() if act == "kill" else one.stop())
            self.add()
        elif act in ("cut", "heal"):
            one.ways.cut = act == "cut"
        elif act == "restart" and len(self.shards) == 1:  # all together forget who leads
            self.server.restart()
        elif act == "delete" and len(self.shards) == 1:
            for record in list(self.server.api.store[LEASE].scan("")):
                self.server.api.delete(LEASE, NAMESPACE, record.object["metadata"]["name"])

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.add()
        for _ in range(self.random.randint(3, 12)):
            await asyncio.sleep(self.random.choice((0.1, 1.0, 5.0, 30.0)) * self.random.random() * 2)
            await self.act()
        for one in self.candidates:
            one.ways.cut, one.ways.trouble = False, 0.0
        await asyncio.sleep(SETTLED)
        began = asyncio.get_running_loop().time()
        assert self.device.last > began - 15, "nobody leads"
        await asyncio.gather(*(one.kill() for one in self.candidates))
        for task in list(self.server.on_the_way):
            await task


def play(seed: int) -> Device:
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimulationLoop)

        async def run() -> Device:
            one = Play(seed, loop)
            await one.run()
            return one.device

        return runner.run(run())


@example(13500)  # a Lease made anew comes to the version at which it was seen long ago
@examples(16)
@given(st.integers(0, 2**32))
def test_never_two_may_write_and_somebody_does(seed: int):
    device = play(seed)
    assert device.findings == []
    assert device.writes


TERMS = Terms()
THEIRS = Record(WHOLE.lease, "5", "them", WHOLE, TERMS.lease, TERMS.write, uid="one")
OLD = 100.0
"""Seconds after which nothing of its holder can arrive any more"""


def test_a_lease_that_has_not_changed_for_long_may_be_taken():
    elector = Elector("us", WHOLE, TERMS)
    for now in (0.0, OLD):
        elector.observe([THEIRS], now)
    assert elector.bid(OLD) is not None


def test_one_that_was_made_anew_may_not_although_it_reads_the_same():
    """The server was set back: who led meanwhile, in versions that we never saw, may go on for a while."""
    elector = Elector("us", WHOLE, TERMS)
    elector.observe([THEIRS], 0.0)
    elector.observe([replace(THEIRS, uid="another")], OLD)
    assert elector.bid(OLD) is None
    assert elector.bid(OLD + TERMS.lease * TERMS.skew) is not None
    assert elector.clear_at >= OLD + TERMS.lease + TERMS.write


def created(elector: Elector, now: float) -> None:
    """The elector creates the Lease, and sees that it is alone."""
    bid = elector.bid(now)
    assert bid is not None
    elector.won(bid, "6", now, now)
    elector.observe([replace(THEIRS, version="6", holder="us")], now)


def test_a_lease_that_is_missing_is_waited_out():
    elector = Elector("us", WHOLE, TERMS)
    elector.observe([], 0.0)
    created(elector, 0.0)
    assert not elector.leads(0.1)
    assert elector.holds(0.1)
    assert elector.clear_of.startswith("the Lease did not exist")


def test_a_lease_that_vanishes_later_is_waited_out():
    """It was deleted under a holder, who may live on."""
    elector = Elector("us", WHOLE, TERMS)
    elector.observe([THEIRS], 0.0)
    elector.observe([], 1.0)
    created(elector, 1.0)
    assert not elector.leads(1.1)
    assert elector.clear_at >= 1.0 + TERMS.lease + TERMS.write


START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def lines_of(api: ApiServer, seconds: float, namespace: str = NAMESPACE) -> list[Any]:
    """The log lines of one candidate, each with the time at which it came."""
    times: list[float] = []
    with asyncio.Runner(loop_factory=SimulationLoop) as runner, capture_logs() as lines:
        loop = runner.get_loop()

        async def begin() -> None:
            times.append(loop.time())

        async def run() -> None:
            campaign = Campaign(
                Elector("us", WHOLE, Terms()),
                Leases(Client(InMemory(api)), namespace, now=lambda: START),
                clock=loop.time,
                now=lambda: START,
                random=lambda: 0.5,
                begin=begin,
                end=lambda: None,
            )
            task = loop.create_task(campaign.run())
            await asyncio.sleep(seconds)
            task.cancel()

        runner.run(run())
    return [*lines, *times]


def test_a_first_start_says_what_it_waits_for_and_until_when():
    waiting, acquired, began = lines_of(ApiServer(), 60)
    assert waiting == {
        "event": "waiting before allocation starts",
        "log_level": "info",
        "lease": "dra-reconciler",
        "why": "the Lease did not exist; if it was deleted, its holder may still write",
        "wait_seconds": 25.5,
        "until": "2026-01-01T12:00:25Z",
    }
    assert acquired["event"] == "lease acquired, taking over"
    assert 25 < began < 26


def test_a_standby_names_the_holder_once_and_then_what_it_waits_for():
    api = ApiServer()
    spec = {"holderIdentity": "them", "leaseDurationSeconds": 15}
    metadata = {"name": WHOLE.lease, "namespace": NAMESPACE}
    api.load([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}])
    standby, waiting, acquired, _ = lines_of(api, 60)
    assert standby["event"] == "standby, another process holds the lease"
    assert (standby["holder"], standby["wait_seconds"]) == ("them", 15.3)
    assert waiting["why"] == "writes of the previous leader them may still arrive"
    assert 9 < waiting["wait_seconds"] < 11
    assert acquired["event"] == "lease acquired, taking over"
    assert api.store[LEASE].get(f"{NAMESPACE}/{WHOLE.lease}")


def test_a_namespace_that_is_missing_is_named_with_the_remedy():
    (failed,) = lines_of(ApiServer(), 60, "nowhere")
    assert failed["event"] == "lease request failed"
    assert "create the namespace of the Lease, or set --lease-namespace" in failed["error"]


SHORT_TERMS = Terms(lease=15.0, renew=10.0, retry=2.0, write=4.0)
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status"
EVENT = "/apis/events.k8s.io/v1/namespaces/default/events"


async def is_sent(method: str, path: str, *, at: float, seconds: float) -> bool:
    """Whether a request is sent so long after the lease was renewed that may take so many seconds."""
    elector = Elector("us", WHOLE, SHORT_TERMS)
    elector.won(Bid(None, 0, 0.0), "1", sent=0.0, now=0.0)
    elector.observe([Record(WHOLE.lease, "1", "us", WHOLE, SHORT_TERMS.lease, SHORT_TERMS.write)], 0.0)
    behind = Scripted(ok({}))
    try:
        await FencedTransport(behind, elector, lambda: at).send(Request(method, path, timeout=seconds))
    except Retry:
        assert behind.requests == []
        return False
    return True


@pytest.mark.parametrize(
    ("method", "path", "at", "seconds", "sent"),
    [
        pytest.param("PATCH", CLAIM, 0.0, 14.9, True, id="the lease outlasts it"),
        pytest.param("PATCH", CLAIM, 0.0, 15.0, False, id="it may outlast the lease"),
        pytest.param("PATCH", CLAIM, 9.9, 5.0, True, id="late, and short"),
        pytest.param("PATCH", CLAIM, 9.9, 5.2, False, id="late, and not short enough"),
        pytest.param("PATCH", CLAIM, 10.0, 0.1, False, id="not renewed in time"),
        pytest.param("GET", CLAIM, 100.0, 60.0, True, id="reading is free"),
        pytest.param("POST", EVENT, 9.9, 60.0, True, id="an Event of the leader"),
        pytest.param("POST", EVENT, 10.0, 60.0, False, id="an Event of a former leader"),
    ],
)
async def test_a_write_starts_only_if_the_lease_outlasts_it(
    method: str, path: str, at: float, seconds: float, sent: bool
):
    assert await is_sent(method, path, at=at, seconds=seconds) is sent
