"""Sorts the devices of a pool by size, because first fit takes the first one that matches. Source: CTR-12."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from reconciler.api.convert.counters import FittedSets
from reconciler.api.objects.quantity import Quantity
from reconciler.api.versions.shapes import Raw, mapping

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
            yield str(draw.get("counterSet")), counter, _nanos(mapping(amount).get("value"))


def _nanos(amount: Any) -> int:
    return Quantity.parse(str(amount)).nanos
