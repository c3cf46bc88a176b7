"""An allocation of ours is known again, and one that others wrote later is not taken for it."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from reconciler.api.objects.claims import (
    ALLOCATED_AT,
    ANNOUNCED,
    FINALIZER,
    ResourceClaim,
    is_announced,
    is_ours,
    mark,
    signed,
)
from reconciler.api.versions.reading import read

STAMP = "2026-01-01T00:00:00Z"


def claim(
    *devices: str,
    stamp: str | None,
    said: str | None,
    config: Sequence[Any] = (),
    finalizers: Sequence[str] = (),
) -> ResourceClaim:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in devices]
    allocation: dict[str, Any] = {"devices": {"results": results, "config": list(config)}}
    if stamp is not None:
        allocation["allocationTimestamp"] = stamp
    notes = {} if said is None else {ALLOCATED_AT: said}
    metadata = {"name": "c", "namespace": "n", "annotations": notes, "finalizers": list(finalizers)}
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {},
        "status": {"allocation": allocation} if devices else {},
    }
    return cast("ResourceClaim", read(raw))


def marked(*devices: str) -> str:
    held = claim(*devices, stamp=None, said=None).allocation
    assert held is not None
    return mark(STAMP, held)


def test_the_timestamp_decides_where_there_is_one():
    assert is_ours(claim("a", stamp=STAMP, said=marked("a")))
    assert is_ours(claim("a", stamp=STAMP, said=STAMP)), "as written before there were fingerprints"
    assert not is_ours(claim("a", stamp="2026-01-01T00:00:01Z", said=marked("a")))
    assert not is_ours(claim("a", stamp=STAMP, said=None))
    assert not is_ours(claim(stamp=None, said=marked("a")))


def test_the_devices_decide_where_the_server_dropped_it():
    assert is_ours(claim("a", "b", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("a", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("b", "a", stamp=None, said=marked("a", "b")))
    assert not is_ours(claim("a", stamp=None, said=STAMP))
    assert not is_ours(claim("a", stamp=None, said=None))


def signatures(*devices: str) -> list[Any]:
    """The configurations of an allocation with the mark in it."""
    held = claim(*devices, stamp=None, said=None).allocation
    assert held is not None
    return [config.to_json() for config in signed(held, STAMP).devices.config]


def announced(*devices: str, stamp: str | None, config: Sequence[Any] = ()) -> ResourceClaim:
    return claim(*devices, stamp=stamp, said=ANNOUNCED, config=config)


def test_an_announced_allocation_has_the_mark_in_it():
    assert is_ours(announced("a", stamp=STAMP, config=signatures("a")))
    assert is_ours(announced("a", stamp=None, config=signatures("a"))), "the server dropped the timestamp"


def test_whoever_else_allocates_an_announced_claim_is_not_taken_for_us():
    later = "2026-01-01T00:00:01Z"
    assert not is_ours(announced("a", stamp=STAMP))
    assert not is_ours(announced("a", stamp=None))
    assert not is_ours(announced("a", stamp="", config=[{"source": "FromClaim"}]))
    assert not is_ours(announced("a", stamp=later, config=signatures("a"))), "copied from a claim's spec"
    assert not is_ours(announced("b", stamp=None, config=signatures("a")))
    assert not is_ours(announced(stamp=None))


@pytest.mark.parametrize("parameters", [None, [], "allocatedAt", {"allocatedAt": 1}, {"kind": "Other"}])
def test_other_configurations_of_ours_are_no_mark(parameters: Any):
    """Classes have some, which every allocator copies."""
    config = [{"source": "FromClass", "opaque": {"driver": "dra-reconciler.io", "parameters": parameters}}]
    assert not is_ours(announced("a", stamp=STAMP, config=config))
    assert is_ours(announced("a", stamp=STAMP, config=[*signatures("a"), *config]))


def test_the_mark_of_an_allocation_counts_only_if_it_was_announced():
    assert not is_ours(claim("a", stamp=STAMP, said=None, config=signatures("a")))
    assert not is_ours(claim("a", stamp=STAMP, said="2020-01-01T00:00:00Z x", config=signatures("a")))


def test_an_announcement_needs_the_finalizer():
    """Without it nobody would free the devices of a deleted claim."""
    assert is_announced(claim(stamp=None, said=ANNOUNCED, finalizers=[FINALIZER]))
    assert not is_announced(claim(stamp=None, said=ANNOUNCED))
    assert not is_announced(claim(stamp=None, said=marked("a"), finalizers=[FINALIZER]))
    assert not is_announced(claim(stamp=None, said=None, finalizers=[FINALIZER]))
