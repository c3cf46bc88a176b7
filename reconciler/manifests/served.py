"""Manifests as an API server takes them, where what was written means more than it would accept.

Attributes without a type get one, and a slice with counters beside devices, as Kubernetes 1.33 and 1.34
had it and the proposals write it, becomes two.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reconciler.legacy.leniency import put_right
from reconciler.legacy.reading import GROUP
from reconciler.objects.validating import subject_of

Raw = Mapping[str, Any]
PoolKey = tuple[Any, Any, Any]


def as_served(raws: Iterable[Raw], warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Objects for a server, in order; `warn` is told what was put right, a line each."""
    mended = [_mended(raw, warn) for raw in raws]
    added = Counter(_pool(raw) for raw in mended if _is_mixed(raw))
    return [part for raw in mended for part in _parts(raw, added, warn)]


def _mended(raw: Raw, warn: Callable[[str], None]) -> Raw:
    if not _is_slice(raw):
        return raw
    return put_right(raw, lambda line: warn(f"{subject_of(raw)}: {line}"))


def _parts(raw: Raw, added: Counter[PoolKey], warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The object; a slice of a pool that grows tells the new number of its slices."""
    if not _is_slice(raw) or not added[_pool(raw)]:
        yield dict(raw)
        return
    pool = raw["spec"]["pool"]
    spec = {
        **raw["spec"],
        "pool": {**pool, "resourceSliceCount": pool.get("resourceSliceCount", 0) + added[_pool(raw)]},
    }
    if not _is_mixed(raw):
        yield {**raw, "spec": spec}
        return
    warn(f"{subject_of(raw)}: counters and devices belong into slices of their own; made into two")
    name = f"{raw['metadata'].get('name', 'slice')}-counters"
    apart = {key: value for key, value in raw["metadata"].items() if key != "annotations"}
    counters = {key: value for key, value in spec.items() if key != "devices"}
    yield {**raw, "metadata": {**apart, "name": name}, "spec": counters}
    yield {**raw, "spec": {key: value for key, value in spec.items() if key != "sharedCounters"}}


def _is_slice(raw: Raw) -> bool:
    """Whether this is a slice of the shape that servers have today, as far as we have to look."""
    spec = raw.get("spec")
    return (
        raw.get("kind") == "ResourceSlice"
        and raw.get("apiVersion") in (f"{GROUP}/v1", f"{GROUP}/v1beta2")
        and isinstance(raw.get("metadata"), Mapping)
        and isinstance(spec, Mapping)
        and isinstance(spec.get("pool"), Mapping)
        and isinstance(spec["pool"].get("resourceSliceCount", 0), int)
    )


def _is_mixed(raw: Raw) -> bool:
    return _is_slice(raw) and bool(raw["spec"].get("sharedCounters")) and bool(raw["spec"].get("devices"))


def _pool(raw: Raw) -> PoolKey:
    spec = raw["spec"] if _is_slice(raw) else {}
    pool = spec.get("pool", {})
    return str(spec.get("driver")), str(pool.get("name")), str(pool.get("generation"))
