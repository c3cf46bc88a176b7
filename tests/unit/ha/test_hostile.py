"""Leases that say anything at all: what is absurd is told, and none keeps us from leading for ever."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import PoolID
from reconciler.api.versions.reading import read
from reconciler.app.from_settings import terms_of
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.embedded import ApiServer
from reconciler.errors import Rejected
from reconciler.ha.campaign import Campaign, Leases
from reconciler.ha.elector import (
    LONGEST,
    MOST_TRANSITIONS,
    MOST_WAIT,
    SHARD,
    WAIT,
    WRITE,
    Elector,
    Terms,
    read_record,
)
from reconciler.ha.shard import LEASE, POOLS, WHOLE, Shard, Side, membership, parse_shard
from reconciler.settings import Settings
from tests.tools import builders
from tests.tools.examples import examples
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.simulation.memory import InMemory

NAMESPACE = "kube-system"
TERMS = Terms()
LEADS_WITHIN = MOST_WAIT * TERMS.skew + 60
"""Seconds: the longest wait that is believed, and some looks"""
NUMBERS = (
    "inf", "-inf", "nan", "1e308",
    "1e999", "-1", "0", "0x10",
    "", "9" * 5000, "\u0661\u0660", "1_0",
    " 5 ",
)  # fmt: skip

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


# -- Shards: how they are written, what they own, and that no two claim one claim.


DRIVERS, POOL_NAMES = "abc", ("r1-n1", "r1-n2", "r2-n1", "r", "s")
CLASSES = {
    "only-a": "device.driver == 'a'",
    "only-b": "device.driver == 'b' && device.attributes['b'].model == 'x'",
    "a-or-b": "device.driver in ['a', 'b']",
    "any": "true",
    "nothing": "device.driver == 'a' && device.driver == 'b'",
}


def device_class(name: str) -> Any:
    return read(builders.device_class(name, CLASSES[name]))


READ = {name: device_class(name) for name in CLASSES}


def asking(
    *requests: list[str], pools: str | None = None, mode: str = "ExactCount", selector: str | None = None
) -> ResourceClaim:
    """A claim with a request for each list of classes, several as alternatives."""
    found: list[dict[str, Any]] = []
    for number, names in enumerate(requests):
        selectors = [{"cel": {"expression": selector}}] if selector else []
        parts: list[dict[str, Any]] = [{"deviceClassName": name, "selectors": selectors} for name in names]
        if len(parts) == 1:
            found.append({"name": f"r{number}", "exactly": {**parts[0], "allocationMode": mode}})
        else:
            ways: list[dict[str, Any]] = [{**part, "name": f"s{at}"} for at, part in enumerate(parts)]
            found.append({"name": f"r{number}", "firstAvailable": ways})
    made = builders.claim("c", *found)
    made["metadata"]["annotations"] = {} if pools is None else {POOLS: pools}
    claim = read(made)
    assert isinstance(claim, ResourceClaim)
    return claim


def side(claim: ResourceClaim, text: str) -> Side:
    return membership(claim, parse_shard(text), READ).side


shards = st.builds(
    Shard,
    st.frozensets(st.sampled_from(DRIVERS)),
    st.frozensets(st.sampled_from(("r", "r1", "r1-", "r2-", "s")), max_size=2),
)
claims = st.builds(
    lambda requests, pools, mode: asking(*requests, pools=pools, mode=mode),
    st.lists(st.lists(st.sampled_from([*CLASSES, "missing"]), min_size=1, max_size=2), max_size=2),
    st.sampled_from([None, *POOL_NAMES]),
    st.sampled_from(["ExactCount", "All"]),
)


@given(shards)
def test_a_shard_is_read_as_it_was_written(shard: Shard):
    again = parse_shard(str(shard))
    pools = [PoolID(driver, pool) for driver in DRIVERS for pool in POOL_NAMES]
    assert [again.owns(pool) for pool in pools] == [shard.owns(pool) for pool in pools]
    assert parse_shard(str(again)) == again
    assert parse_shard(",".join(reversed(str(again).split(",")))).lease == again.lease


@given(shards, shards)
def test_shards_that_do_not_overlap_have_no_pool_in_common(one: Shard, other: Shard):
    assert one.overlaps(other) == other.overlaps(one)
    if not one.overlaps(other):
        assert not any(
            one.owns(PoolID(driver, pool)) and other.owns(PoolID(driver, pool))
            for driver in DRIVERS
            for pool in POOL_NAMES
        )
        assert one.lease != other.lease


@given(claims, shards, shards)
def test_no_claim_belongs_to_two_shards_that_do_not_overlap(claim: ResourceClaim, one: Shard, other: Shard):
    if not one.overlaps(other):
        sides = [membership(claim, shard, READ).side for shard in (one, other)]
        assert sides.count(Side.OURS) <= 1


@pytest.mark.parametrize(
    ("requests", "sides"),
    [
        ([["only-a"]], ("ours", "elsewhere")),
        ([["only-b"]], ("elsewhere", "ours")),
        ([["only-a"], ["only-b"]], ("several", "several")),
        ([["only-a", "only-b"]], ("several", "several")),
        ([["a-or-b"]], ("several", "several")),
        ([["any"]], ("several", "several")),
        ([["missing"]], ("several", "several")),
        ([["nothing"]], ("several", "several")),
        ([], ("several", "several")),
    ],
)
def test_a_claim_belongs_where_its_classes_say(requests: list[list[str]], sides: tuple[str, str]):
    claim = asking(*requests)
    assert (side(claim, "driver=a"), side(claim, "driver=b")) == sides
    assert side(claim, "driver=c") in (Side.ELSEWHERE, Side.SEVERAL)
    assert membership(claim, WHOLE, READ).side is Side.OURS


def test_a_request_may_say_what_its_class_does_not():
    assert side(asking(["any"], selector="device.driver == 'a'"), "driver=a") is Side.OURS


@pytest.mark.parametrize(
    ("pools", "mode", "found"),
    [
        ("r1-", "ExactCount", "ours"),
        ("r1-n1", "ExactCount", "ours"),
        ("r2-", "ExactCount", "elsewhere"),
        ("r", "ExactCount", "several"),
        (None, "ExactCount", "several"),
        ("r1-", "All", "several"),
    ],
)
def test_where_shards_differ_in_pools_a_claim_says_which(pools: str | None, mode: str, found: str):
    assert side(asking(["any"], pools=pools, mode=mode), "pool-prefix=r1-") == found


def test_what_a_claim_holds_decides_to_whom_it_belongs():
    """Also if its class is gone: somebody has to free it."""
    claim = asking(["missing"])
    result = {"request": "r0", "driver": "a", "pool": "p", "device": "d"}
    held = read({
        **claim.to_json(),
        "apiVersion": "resource.k8s.io/v1",
        "status": {"allocation": {"devices": {"results": [result]}}},
    })  # fmt: skip
    assert isinstance(held, ResourceClaim)
    assert (side(held, "driver=a"), side(held, "driver=b")) == ("ours", "elsewhere")


@pytest.mark.parametrize("text", ["a", "driver=", "drivers=a", "driver=a;pool=b", "=a"])
def test_what_is_no_shard_is_refused(text: str):
    with pytest.raises(Rejected, match="neither driver=NAME nor pool-prefix=TEXT"):
        parse_shard(text)
