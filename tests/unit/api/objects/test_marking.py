"""An allocation of ours is known again, and one that others wrote later is not taken for it."""

from typing import Any, cast

from reconciler.api.objects.claims import ALLOCATED_AT, ResourceClaim
from reconciler.api.objects.marking import is_ours, mark
from reconciler.api.versions.reading import read

STAMP = "2026-01-01T00:00:00Z"


def claim(*devices: str, stamp: str | None, said: str | None) -> ResourceClaim:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in devices]
    allocation: dict[str, Any] = {"devices": {"results": results}}
    if stamp is not None:
        allocation["allocationTimestamp"] = stamp
    metadata = {"name": "c", "namespace": "n", "annotations": {} if said is None else {ALLOCATED_AT: said}}
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
