"""Shards: how they are written, what they own, and that no two claim one claim."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import PoolID
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from reconciler.ha.shard import POOLS, WHOLE, Shard, Side, membership, parse_shard

DRIVERS, POOL_NAMES = "abc", ("r1-n1", "r1-n2", "r2-n1", "r", "s")
CLASSES = {
    "only-a": "device.driver == 'a'",
    "only-b": "device.driver == 'b' && device.attributes['b'].model == 'x'",
    "a-or-b": "device.driver in ['a', 'b']",
    "any": "true",
    "nothing": "device.driver == 'a' && device.driver == 'b'",
}


def device_class(name: str) -> Any:
    selector = {"cel": {"expression": CLASSES[name]}}
    return read({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    })  # fmt: skip


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
    claim = read({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "c", "namespace": "default", "annotations": {} if pools is None else {POOLS: pools},
        },
        "spec": {"devices": {"requests": found}},
    })  # fmt: skip
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
