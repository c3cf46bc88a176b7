"""Fits devices and counter sets into the limits of the API, with valid names.

32 counters for a set, two sets for a device. Devices of a pool are sorted by size, because first fit takes
the first one that matches (CTR-12). Valid names stay; invalid ones are renamed deterministically.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation import fields
from reconciler.api.versions import consumption
from reconciler.api.versions.shapes import Raw, mapping, mappings

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=[0-9])")


class Rename(NamedTuple):
    """One changed name."""

    kind: str
    """device, counter set, counter, attribute, capacity or slice"""
    where: str
    """The pool, driver or counter set of the name"""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind} {self.before} of {self.where} is now {self.after}"


def as_label(text: str, limit: int = fields.MAX_LABEL) -> str:
    """The DNS label closest to a name: `memorySlice0` gives memory-slice-0, `1g.5gb` gives 1g-5gb."""
    # Words are split only if capitals separate them: gpu0 stays one word.
    spaced = _WORDS.sub("-", text) if any(c.isupper() for c in text) else text
    return re.sub(r"[^a-z0-9]+", "-", spaced.lower()).strip("-")[:limit].strip("-") or "x"


def as_key(text: str, limit: int = fields.MAX_IDENTIFIER) -> str:
    """The attribute or capacity name closest to one: `copy-engines` gives copy_engines. The domain stays."""
    domain, slash, name = text.rpartition("/")
    name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"{domain}{slash}{f'_{name}' if name[0].isdigit() else name}"[: len(domain) + len(slash) + limit]


def as_subdomain(text: str) -> str:
    """The DNS subdomain closest to a name."""
    return ".".join(as_label(part) for part in text.split("."))[: fields.MAX_SUBDOMAIN].strip("-.")


def valid_labels(names: Iterable[str]) -> dict[str, str]:
    """Name -> DNS label, all distinct. Valid names stay; a number resolves a conflict of the others."""
    return _valid_names(names, fields.is_dns_label, as_label, fields.MAX_LABEL, "-")


def valid_keys(names: Iterable[str]) -> dict[str, str]:
    """The same for names of attributes and capacities."""
    return _valid_names(names, fields.is_key, as_key, fields.MAX_IDENTIFIER, "_")


def _valid_names(
    names: Iterable[str],
    valid: Callable[[str], bool],
    closest: Callable[[str, int], str],
    limit: int,
    joint: str,
) -> dict[str, str]:
    ordered = list(dict.fromkeys(names))
    taken = {name for name in ordered if valid(name)}
    found: dict[str, str] = {}
    for name in ordered:
        if valid(name):
            found[name] = name
            continue
        new, number = closest(name, limit), 2
        while new in taken:
            suffix = f"{joint}{number}"
            new, number = closest(name, limit - len(suffix)) + suffix, number + 1
        taken.add(new)
        found[name] = new
    return found


MAX_COUNTERS = 32
MAX_SETS = 2


class CounterSet(Struct, frozen=True):
    """A counter set of a slice."""

    slice: int
    """Index of the slice in the pool"""
    name: str
    counters: Mapping[str, Any]
    """Name -> amount"""


class FittedSets(Struct, frozen=True):
    """Counter sets within the limits of the API, with the same effect."""

    sets: tuple[CounterSet, ...]
    draws: Mapping[str, Sequence[Raw]]
    """Device -> consumesCounters"""
    lost: Mapping[str, str]
    """Device -> why it cannot be converted"""


def fit_counter_sets(sets: Sequence[CounterSet], devices: Sequence[Raw], *, complete: bool) -> FittedSets:
    """Repack sets that exceed the limits into as few sets as possible. Other sets stay as they are.

    `complete`: these are all devices of the pool. Otherwise no counter can be dropped safely.
    """
    draws: dict[str, Sequence[Raw]] = {
        str(device["name"]): mappings(device.get("consumesCounters")) for device in devices
    }
    made: list[CounterSet] = []
    lost: dict[str, str] = {}
    for joined in _joined(sets, draws):
        names = {counters.name for counters in joined}
        members = {
            device: drawn
            for device, drawn in draws.items()
            if any(d.get("counterSet") in names for d in drawn)
        }
        if _within(joined, members):
            made += [counters for counters in joined if counters.counters]
            continue
        why = "" if complete else "slices of its pool are missing"
        if any(_goes_by_set(device, draws) for device in devices if device["name"] in members):
            why = "its counter sets exceed the limits, and its groups or expression depend on them"
        if why:
            lost |= dict.fromkeys(members, why)
            continue
        packed = consumption.pack(_groups(joined, members), size=MAX_COUNTERS, most=MAX_SETS)
        for device, count in packed.too_many.items():
            lost[device] = f"it needs {count} counter sets of {MAX_COUNTERS} counters; {MAX_SETS} are allowed"
        first = joined[0]
        repacked = {
            f"{first.name}-{at + 1}" if at else first.name: tallies for at, tallies in enumerate(packed.sets)
        }
        made += [
            CounterSet(first.slice, name, {tally.name: str(tally.total) for tally in tallies})
            for name, tallies in repacked.items()
        ]
        draws |= {device: list(_drawn(device, repacked)) for device in members}
    return FittedSets(tuple(made), draws, lost)


def _goes_by_set(device: Raw, draws: Mapping[str, Sequence[Raw]]) -> bool:
    """Whether the device has compatibility groups or an expression, whose scope is a counter set."""
    groups = any(draw.get("compatibilityGroups") for draw in draws[device["name"]])
    return groups or device.get("compatibleOnlyWith") is not None


def _joined(sets: Sequence[CounterSet], draws: Mapping[str, Sequence[Raw]]) -> list[list[CounterSet]]:
    """Groups of sets that are connected by devices that draw from several of them."""
    by_name = {counters.name: counters for counters in sets}
    together = [
        [name for draw in drawn if (name := draw.get("counterSet")) in by_name] for drawn in draws.values()
    ]
    return [[by_name[name] for name in names] for names in consumption.connected(by_name, together)]


def _within(sets: Sequence[CounterSet], members: Mapping[str, Sequence[Raw]]) -> bool:
    return all(len(counters.counters) <= MAX_COUNTERS for counters in sets) and all(
        len(drawn) <= MAX_SETS and len({draw.get("counterSet") for draw in drawn}) == len(drawn)
        for drawn in members.values()
    )


def _groups(
    sets: Sequence[CounterSet], members: Mapping[str, Sequence[Raw]]
) -> Iterator[list[consumption.CounterLimit]]:
    """The counters without redundant ones, grouped by source."""
    of_set: dict[str, list[consumption.CounterLimit]] = {}
    set_of: dict[int, str] = {}
    for counters in sets:
        for name, total in counters.counters.items():
            amounts = {device: _amount(drawn, counters.name, name) for device, drawn in members.items()}
            draws = {device: amount for device, amount in amounts.items() if amount.nanos}
            # Sets that are merged may have counters with the same name.
            spelled = name if len(sets) == 1 else f"{counters.name}:{name}"
            tally = consumption.CounterLimit(spelled, Quantity.parse(str(total)), draws)
            of_set.setdefault(counters.name, []).append(tally)
            set_of[id(tally)] = counters.name
    folded = consumption.drop_redundant(
        [tally for tallies in of_set.values() for tally in tallies if tally.draws]
    )
    for _, tallies in groupby(
        folded, key=lambda tally: (set_of[id(tally)], consumption.source_of_counter(tally.name))
    ):
        yield list(tallies)


def _amount(drawn: Sequence[Raw], counter_set: str, counter: str) -> Quantity:
    found = Quantity(0)
    for draw in drawn:
        if draw.get("counterSet") == counter_set and counter in mapping(draw.get("counters")):
            found += Quantity.parse(amount_of(draw["counters"][counter]))
    return found


def _drawn(device: str, sets: Mapping[str, Sequence[consumption.CounterLimit]]) -> Iterator[Raw]:
    for name, tallies in sets.items():
        counters = {t.name: {"value": str(t.draws[device])} for t in tallies if device in t.draws}
        if counters:
            yield {"counterSet": name, "counters": counters}


Totals = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> its amount in nanos"""

WHOLE = Fraction(1)
"""The size of a device that draws from no counter: it is not divided"""


def smallest_first(
    devices: Mapping[int, Sequence[Raw]], targets: Mapping[int, str], sets: FittedSets
) -> dict[int, Sequence[Raw]]:
    """The devices of each slice, with smaller ones before larger ones. Equal ones keep their order.

    A device moves only between slices for the same nodes, and each slice keeps its number of devices.

    devices: index of a slice, in first-fit order -> its devices
    targets: index of a slice -> its nodes, as text
    """
    totals = _totals(sets)
    made = dict(devices)
    for target in dict.fromkeys(targets[at] for at in devices):
        members = [at for at in devices if targets[at] == target]
        rest = [device for at in members for device in devices[at]]
        rest.sort(key=lambda device: size(sets.draws[device["name"]], totals))
        for at in members:
            made[at], rest = rest[: len(devices[at])], rest[len(devices[at]) :]
    return made


def size(draws: Sequence[Raw], totals: Totals) -> Fraction:
    """The average share of the counters of a set that a device draws, summed up over its sets.

    It grows with each amount, so a device that draws more than another is larger.
    """
    if not draws:
        return WHOLE
    shares = (
        Fraction(amount, totals[name][counter] * len(totals[name]))
        for name, counter, amount in _amounts(draws)
        if totals[name][counter]
    )
    return sum(shares, Fraction())


def _totals(sets: FittedSets) -> Totals:
    """The counters of a pool, each with its amount, or with the largest draw if that is more."""
    found = {
        one.name: {counter: _nanos(amount) for counter, amount in one.counters.items()} for one in sets.sets
    }
    for draws in sets.draws.values():
        for name, counter, amount in _amounts(draws):
            known = found.setdefault(name, {})
            known[counter] = max(known.get(counter, 0), amount)
    return found


def _amounts(draws: Sequence[Raw]) -> Iterator[tuple[str, str, int]]:
    """Set, counter and amount in nanos."""
    for draw in draws:
        for counter, amount in mapping(draw.get("counters")).items():
            yield str(draw.get("counterSet")), counter, _nanos(amount_of(amount))


def amount_of(entry: Any) -> str:
    """The value of a counter or capacity; null is zero, as for an API server."""
    value = mapping(entry).get("value")
    return "0" if value is None else str(value)


def _nanos(amount: Any) -> int:
    return Quantity.parse(str(amount)).nanos


MAX_DEVICES = 128
MAX_LARGE_DEVICES = 64
"""SL-4: the limit if a device of the slice has taints, counters or list attributes"""
MAX_SETS_OF_SLICE = 8
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
        if open_ and (len(open_) == MAX_SETS_OF_SLICE or count + len(counters.counters) > MAX_COUNTERS):
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
            and all(fields.is_dns_subdomain(name) for name in scheme)
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
