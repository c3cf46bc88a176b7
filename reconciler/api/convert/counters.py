"""Fits counter sets into the limits of the API: 32 counters for a set, two sets for a device."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.api.versions.consumption_tree import source_of_counter
from reconciler.api.versions.counter_limits import CounterLimit, drop_redundant, pack
from reconciler.api.versions.shapes import Raw, mapping, mappings

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
        packed = pack(_groups(joined, members), size=MAX_COUNTERS, most=MAX_SETS)
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
    home = {counters.name: counters.name for counters in sets}

    def root(name: str) -> str:
        while home[name] != name:
            name = home[name]
        return name

    for drawn in draws.values():
        known = [draw["counterSet"] for draw in drawn if draw.get("counterSet") in home]
        for name in known[1:]:
            home[root(name)] = root(known[0])
    found: dict[str, list[CounterSet]] = {}
    for counters in sets:
        found.setdefault(root(counters.name), []).append(counters)
    return list(found.values())


def _within(sets: Sequence[CounterSet], members: Mapping[str, Sequence[Raw]]) -> bool:
    return all(len(counters.counters) <= MAX_COUNTERS for counters in sets) and all(
        len(drawn) <= MAX_SETS and len({draw.get("counterSet") for draw in drawn}) == len(drawn)
        for drawn in members.values()
    )


def _groups(sets: Sequence[CounterSet], members: Mapping[str, Sequence[Raw]]) -> Iterator[list[CounterLimit]]:
    """The counters without redundant ones, grouped by source."""
    of_set: dict[str, list[CounterLimit]] = {}
    set_of: dict[int, str] = {}
    for counters in sets:
        for name, total in counters.counters.items():
            amounts = {device: _amount(drawn, counters.name, name) for device, drawn in members.items()}
            draws = {device: amount for device, amount in amounts.items() if amount.nanos}
            # Sets that are merged may have counters with the same name.
            spelled = name if len(sets) == 1 else f"{counters.name}:{name}"
            tally = CounterLimit(spelled, Quantity.parse(str(total)), draws)
            of_set.setdefault(counters.name, []).append(tally)
            set_of[id(tally)] = counters.name
    folded = drop_redundant([tally for tallies in of_set.values() for tally in tallies if tally.draws])
    for _, tallies in groupby(folded, key=lambda tally: (set_of[id(tally)], source_of_counter(tally.name))):
        yield list(tallies)


def _amount(drawn: Sequence[Raw], counter_set: str, counter: str) -> Quantity:
    found = Quantity(0)
    for draw in drawn:
        if draw.get("counterSet") == counter_set and counter in mapping(draw.get("counters")):
            found += Quantity.parse(str(mapping(draw["counters"][counter]).get("value")))
    return found


def _drawn(device: str, sets: Mapping[str, Sequence[CounterLimit]]) -> Iterator[Raw]:
    for name, tallies in sets.items():
        counters = {t.name: {"value": str(t.draws[device])} for t in tallies if device in t.draws}
        if counters:
            yield {"counterSet": name, "counters": counters}
