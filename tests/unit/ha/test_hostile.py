"""Leases that say anything at all: what is absurd is told, and none keeps us from leading for ever."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from reconciler.app.from_settings import terms_of
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.embedded import ApiServer
from reconciler.errors import Rejected
from reconciler.ha.campaign import Campaign, Leases
from reconciler.ha.elector import Elector
from reconciler.ha.lease_record import (
    LONGEST,
    MOST_TRANSITIONS,
    MOST_WAIT,
    SHARD,
    WAIT,
    WRITE,
    Terms,
    read_record,
)
from reconciler.ha.shard import LEASE, WHOLE
from reconciler.settings import Settings
from tests.tools.examples import examples
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.memory import InMemory

NAMESPACE = "kube-system"
TERMS = Terms()
LEADS_WITHIN = MOST_WAIT * TERMS.skew + 60
"""Seconds: the longest wait that is believed, and some looks"""
NUMBERS = (
    "inf",
    "-inf",
    "nan",
    "1e308",
    "1e999",
    "-1",
    "0",
    "0x10",
    "",
    "9" * 5000,
    "\u0661\u0660",
    "1_0",
    " 5 ",
)

texts = st.one_of(st.sampled_from(NUMBERS), st.text(max_size=20), st.floats().map(str))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
notes = st.one_of(values, st.dictionaries(st.sampled_from((SHARD, WRITE, WAIT)), values))
specs = st.one_of(
    values,
    st.dictionaries(
        st.sampled_from(("holderIdentity", "leaseDurationSeconds", "leaseTransitions", "renewTime")), values
    ),
)
leases = st.fixed_dictionaries({
    "metadata": st.one_of(
        values,
        st.fixed_dictionaries({"name": values, "resourceVersion": values, "annotations": notes}),
    ),
    "spec": specs,
})  # fmt: skip


@given(leases)
@example(
    {"metadata": {"annotations": {WAIT: "nan", WRITE: "inf"}}, "spec": {"leaseDurationSeconds": 2**31 - 1}}
)
@example(
    {"metadata": {"annotations": {SHARD: "pool-prefix=" * 9999}}, "spec": {"leaseDurationSeconds": 10**9999}}
)
def test_whatever_a_lease_says_its_times_are_bounded(raw: Any):
    found = read_record(raw, TERMS)
    assert 0 < found.lease <= LONGEST
    assert 0 < found.write <= LONGEST
    assert 0 <= found.wait <= MOST_WAIT
    assert found.quiet <= MOST_WAIT
    assert 0 <= found.transitions <= MOST_TRANSITIONS
    assert found == read_record(raw, TERMS)  # so that one that stays as it is runs out
    assert all(len(doubt) < 500 for doubt in found.doubts)


class Beside:
    """A way to a server that lists a Lease which no server would take."""

    def __init__(self, api: ApiServer, lease: Any) -> None:
        self._behind = InMemory(api)
        self._lease = lease

    async def send(self, request: Request) -> Response:
        answer = await self._behind.send(request)
        if request.method != "GET":
            return answer
        body = json.loads(answer.body)
        body["items"].append(self._lease)
        return Response(answer.status, answer.headers, json.dumps(body).encode())

    def stream(self, request: WatchRequest) -> Lines:
        raise NotImplementedError(request.path)


def leads_after(api: ApiServer, beside: Any) -> float:
    """Virtual seconds until a candidate leads; fails if that is never."""
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        loop = runner.get_loop()

        async def run() -> float:
            began, leading = loop.time(), asyncio.Event()

            async def begin() -> None:
                leading.set()

            campaign = Campaign(
                Elector("us", WHOLE, TERMS),
                Leases(Client(Beside(api, beside)), NAMESPACE, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)),
                clock=loop.time, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=lambda: 0.5,
                begin=begin, end=lambda: None,
            )  # fmt: skip
            task = loop.create_task(campaign.run())
            async with asyncio.timeout(LEADS_WITHIN):
                await leading.wait()
            task.cancel()
            return loop.time() - began

        return runner.run(run())


@examples(15)
@given(leases)
def test_a_lease_that_no_server_would_take_keeps_nobody_from_leading_for_ever(raw: Any):
    if isinstance(raw["metadata"], dict) and raw["metadata"].get("name") == LEASE:
        del raw["metadata"]["name"]
    leads_after(ApiServer(), raw)


def held(*, seconds: int = 15, transitions: int = 0, **annotations: str) -> Any:
    """Our Lease in somebody's hands who never renews it."""
    names = {"shard": SHARD, "write": WRITE, "wait": WAIT}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": LEASE,
            "namespace": NAMESPACE,
            "annotations": {names[name]: value for name, value in annotations.items()},
        },
        "spec": {
            "holderIdentity": "somebody", "leaseDurationSeconds": seconds, "leaseTransitions": transitions,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lease", "told"),
    [
        (
            held(seconds=2**31 - 1),
            "leaseDurationSeconds: 2147483647 is not within 600 seconds; 15 is used instead",
        ),
        (held(write="inf"), f"{WRITE}: inf is not within 600 seconds; 10 is used instead"),
        (held(write="-1"), f"{WRITE}: -1 is not within 600 seconds; 10 is used instead"),
        (held(wait="nan"), f"{WAIT}: nan is not within 1800 seconds; 25 is used instead"),
        (held(wait="1e300"), f"{WAIT}: 1e300 is not within 1800 seconds; 25 is used instead"),
        (
            held(transitions=2**31 - 1),
            "leaseTransitions: 2147483647 is not a valid number; 0 is used instead",
        ),
        (held(shard="rack=1"), f"{SHARD}: shard 'rack=1': 'rack=1' is neither"),
    ],
    ids=["lease", "write", "negative", "nan", "wait", "transitions", "shard"],
)
def test_what_is_absurd_in_our_lease_is_told_once_and_not_believed(lease: Any, told: str):
    api = ApiServer()
    api.load([lease])
    with capture_logs() as lines:
        waited = leads_after(api, {"metadata": {"name": "x"}})
    (line,) = [one for one in lines if one["event"] == "invalid lease ignored"]
    assert line["lease"] == LEASE
    assert line["why"].startswith(told)
    assert waited < 60


def test_a_lease_that_others_would_not_believe_is_refused_at_the_start():
    with pytest.raises(Rejected, match="lease_seconds: must be 600 at most, got 601"):
        terms_of(Settings(leader_elect=True, lease_seconds=601))
    assert terms_of(Settings(leader_elect=True, lease_seconds=600)).lease == LONGEST
