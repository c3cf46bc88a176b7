"""Converts manifests to a shape that an API server accepts.

Attributes without a type get one. A slice with both counters and devices, as in Kubernetes 1.33 and 1.34 and
in the proposals, is split into two.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.mistakes import fix_mistakes
from reconciler.api.versions.reading import GROUP

Raw = Mapping[str, Any]
PoolKey = tuple[Any, Any, Any]


def as_served(raws: Iterable[Raw], warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Objects for a server, in order; `warn` receives one line for each change."""
    fixed = [_fixed(raw, warn) for raw in raws]
    added = Counter(_pool(raw) for raw in fixed if _is_mixed(raw))
    return [part for raw in fixed for part in _parts(raw, added, warn)]


def _fixed(raw: Raw, warn: Callable[[str], None]) -> Raw:
    if not _is_slice(raw):
        return raw
    return fix_mistakes(raw, lambda line: warn(f"{subject_of(raw)}: {line}"))


def _parts(raw: Raw, added: Counter[PoolKey], warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The object, or the two parts of a mixed slice. All slices of its pool get the new slice count."""
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
    warn(f"{subject_of(raw)}: counters and devices must be in separate slices; split into two")
    name = f"{raw['metadata'].get('name', 'slice')}-counters"
    apart = {key: value for key, value in raw["metadata"].items() if key != "annotations"}
    counters = {key: value for key, value in spec.items() if key != "devices"}
    yield {**raw, "metadata": {**apart, "name": name}, "spec": counters}
    yield {**raw, "spec": {key: value for key, value in spec.items() if key != "sharedCounters"}}


def _is_slice(raw: Raw) -> bool:
    """Whether this is a slice in the current shape, as far as this module needs it."""
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
