"""Splits a pool into slices, and names them so that the order of the devices stays."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from reconciler.api.convert.counters import MAX_COUNTERS, CounterSet
from reconciler.api.convert.names import as_subdomain
from reconciler.api.versions.shapes import Raw, mapping
from reconciler.api.versions.spelling import is_subdomain

MAX_DEVICES = 128
MAX_LARGE_DEVICES = 64
"""SL-4: the limit if a device of the slice has taints, counters or list attributes"""
MAX_SETS = 8
_LISTS = ("ints", "bools", "strings", "versions")


class Part(NamedTuple):
    """The content of one new slice: devices or counter sets."""

    slice: int
    """Index of the original slice in the pool"""
    devices: Sequence[Raw]
    sets: Sequence[CounterSet]


def parts(devices: Mapping[int, Sequence[Raw]], sets: Iterable[CounterSet]) -> list[Part]:
    """Separate parts for counter sets and for devices, within the limits. `devices`: slice -> devices."""
    by_slice: dict[int, list[CounterSet]] = {}
    for counters in sets:
        by_slice.setdefault(counters.slice, []).append(counters)
    found: list[Part] = []
    for at, of_slice in devices.items():
        found += [Part(at, (), some) for some in _sets(by_slice.get(at, []))]
        most = MAX_LARGE_DEVICES if any(_is_large(device) for device in of_slice) else MAX_DEVICES
        found += [Part(at, of_slice[start : start + most], ()) for start in range(0, len(of_slice), most)]
        if not of_slice and at not in by_slice:
            found.append(Part(at, (), ()))
    return found


def _sets(sets: Iterable[CounterSet]) -> Iterator[list[CounterSet]]:
    """Chunks of up to MAX_SETS sets with up to MAX_COUNTERS counters in total."""
    open_: list[CounterSet] = []
    for counters in sets:
        count = sum(len(one.counters) for one in open_)
        if open_ and (len(open_) == MAX_SETS or count + len(counters.counters) > MAX_COUNTERS):
            yield open_
            open_ = []
        open_.append(counters)
    if open_:
        yield open_


def _is_large(device: Raw) -> bool:
    attributes = mapping(device.get("attributes")).values()
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(mapping(value).get(kind) is not None for value in attributes for kind in _LISTS)
    )


def names(found: Sequence[Part], originals: Sequence[str], taken: Collection[str]) -> list[str]:
    """A name for each part, not in `taken`. Slices sort by name, so the names keep the order of the devices.

    The first part of each slice keeps its name if that keeps the order. Otherwise all parts are numbered.
    """
    own = set(originals)
    for scheme in _schemes(found, originals):
        in_order = [name.encode() for name, part in zip(scheme, found, strict=True) if part.devices]
        if (
            len(set(scheme)) == len(scheme)
            and all(name in own or name not in taken for name in scheme)
            and all(is_subdomain(name) for name in scheme)
            and all(one < other for one, other in pairwise(in_order))
        ):
            return scheme
    raise AssertionError("there is always a free number")


def _schemes(found: Sequence[Part], originals: Sequence[str]) -> Iterator[list[str]]:
    yield _named_after(found, originals)
    base = as_subdomain(originals[0])[:200].strip("-.")
    width = max(4, len(str(len(found))))
    number = 0
    while True:
        stem = f"{base}-{number}" if number else base
        yield [
            f"{stem}-{'counters-' if part.sets else ''}{at:0{width}}"
            for at, part in enumerate(found, start=1)
        ]
        number += 1


def _named_after(found: Sequence[Part], originals: Sequence[str]) -> list[str]:
    """`a` for the first devices of slice a, then `a-002`; `a-counters` if a also had counter sets."""
    seen: dict[Any, int] = {}
    mixed = {part.slice for part in found if part.devices}
    scheme = []
    for part in found:
        name = originals[part.slice]
        if part.sets and part.slice in mixed:
            name = f"{name}-counters"
        seen[name] = seen.get(name, 0) + 1
        scheme.append(name if seen[name] == 1 else f"{name}-{seen[name]:03}")
    return scheme
