"""What is logged of a candidate that does not lead yet."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from structlog.testing import capture_logs

from reconciler.api.validation.served_kinds import LEASE
from reconciler.cluster.client import Client
from reconciler.embedded import ApiServer
from reconciler.ha.campaign import Campaign, Leases
from reconciler.ha.elector import Elector
from reconciler.ha.lease_record import Terms
from reconciler.ha.shard import WHOLE
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.memory import InMemory

NAMESPACE = "kube-system"
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def lines_of(api: ApiServer, seconds: float, *, no_earlier_leader: bool = False) -> list[Any]:
    """The log lines of one candidate, each with the time at which it came."""
    times: list[float] = []
    with asyncio.Runner(loop_factory=SimulationLoop) as runner, capture_logs() as lines:
        loop = runner.get_loop()

        async def begin() -> None:
            times.append(loop.time())

        async def run() -> None:
            campaign = Campaign(
                Elector("us", WHOLE, Terms(), no_earlier_leader=no_earlier_leader),
                Leases(Client(InMemory(api)), NAMESPACE, now=lambda: START),
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


def test_one_that_knows_that_nobody_led_before_does_not_wait():
    acquired, began = lines_of(ApiServer(), 60, no_earlier_leader=True)
    assert acquired["event"] == "lease acquired, taking over"
    assert began < 1


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
