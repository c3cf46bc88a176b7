"""Profiles: which devices count as equal, and their names. Families: which counters count as one.

The string attribute `profile` names the profile of a device. Devices without it have the same profile if they
draw the same amounts of the same counter families. Devices without draws are whole devices. A family is all
counters whose names differ only by a final number, such as memory-slice-0 and -1.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256

import numpy as np
from msgspec import Struct

from kernels.packing import unique_rows
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet

_NUMBERED = re.compile(r"(.*?)[-_.]?[0-9]+", re.ASCII | re.DOTALL)
_BINARY = 1024 * NANO


@lru_cache(maxsize=4096)
def families(scale: Scale) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The sorted names of the families of a set, and the index of the family of each counter.

    A counter that shares its family with no other counter keeps its full name.
    """
    stems = [_stem(name) for name in scale.counters]
    shared = Counter(stems)
    names = [
        f"{stem}-*" if shared[stem] > 1 else name for stem, name in zip(stems, scale.counters, strict=True)
    ]
    distinct = tuple(sorted(set(names)))
    return distinct, tuple(distinct.index(name) for name in names)


def _stem(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found[1] if found and found[1] else name


def family_amounts(scale: Scale, draws: Amounts) -> list[list[int]]:
    """The amount that each draw takes of each family, in billionths.

    draws (T, C)  in the units of the scale
    ->    one list of T amounts per family
    """
    names, of_counter = families(scale)
    found = [[0] * len(draws) for _ in names]
    for at, row in enumerate(draws.tolist()):
        for counter, unit in enumerate(scale.units):
            found[of_counter[counter]][at] += row[counter] * unit
    return found


def family_sums(scale: Scale, amounts: Amounts) -> np.ndarray:
    """The sum of each family, in billionths, as floats: only for display.

    amounts (n, C)
    ->      (n, F)
    """
    names, of_counter = families(scale)
    found = np.zeros((len(amounts), len(names)))
    for counter, unit in enumerate(scale.units):
        found[:, of_counter[counter]] += amounts[:, counter].astype(np.float64) * unit
    return found


def family_draw(scale: Scale, row: Amounts) -> dict[str, int]:
    """The amount that one draw (C,) takes of each family, in billionths; without families of amount 0."""
    names, _ = families(scale)
    amounts = family_amounts(scale, row[None, :])
    return {name: of[0] for name, of in zip(names, amounts, strict=True) if of[0]}


def shown(nanos: int) -> str:
    """A Kubernetes quantity, with a binary suffix if the amount is a multiple of 1024."""
    binary = nanos and nanos % _BINARY == 0
    return str(Quantity(nanos, Format.BINARY if binary else Format.DECIMAL))


ATTRIBUTE = "profile"
WHOLE = "device"
"""The profile of devices without draws and without the attribute"""
OTHER = "_other"
MAX_PROFILES = 32
"""Maximum profiles per driver. The profiles with the most devices are kept; the others become `_other`."""
LONGEST = 63
"""Maximum characters of a name"""
MOST_AMOUNTS = 3
"""Maximum amounts in a name"""
_HASH = 6


class Profiles(Struct, frozen=True, eq=False):
    """The profiles of a fleet."""

    names: tuple[tuple[str, str], ...]
    """(driver, profile), sorted"""
    of: Codes
    """(D,) index in `names`"""


def profiles(fleet: Fleet, scale_of: Codes, offered: Mask) -> Profiles:
    """The profile of each device. Only `offered` (D,) devices count for MAX_PROFILES.

    scale_of (S,)  the scale of each set: its counters and units
    """
    first, codes = unique_rows(_profile_keys(fleet, scale_of))
    named = list(_names(fleet, first.tolist()))
    counts = np.bincount(codes, weights=offered, minlength=len(first))
    devices: dict[tuple[str, str], float] = {}
    for name, count in zip(named, counts.tolist(), strict=True):
        devices[name] = devices.get(name, 0.0) + count
    kept = _most_common(devices)
    short = [name if name in kept else (name[0], OTHER) for name in named]
    names = tuple(sorted(set(short)))
    at = {name: number for number, name in enumerate(names)}
    of = np.array([at[name] for name in short], dtype=np.int32)
    return Profiles(names, of[codes] if len(codes) else np.zeros(0, dtype=np.int32))


def _profile_keys(fleet: Fleet, scale_of: Codes) -> Codes:
    """(D, m) all values that determine the profile of a device."""
    declared = [fleet.cel.attributes[key].codes for key in _attributes(fleet)]
    scales = np.where(fleet.sets >= 0, np.append(scale_of, -1)[fleet.sets], -1)
    columns = [fleet.codes["driver"], *declared, *scales.T, *np.where(scales >= 0, fleet.draws, -1).T]
    return np.stack(columns, axis=1).astype(np.int64)


def _attributes(fleet: Fleet) -> list[tuple[str, str]]:
    return sorted(key for key in fleet.cel.attributes if key[1] == ATTRIBUTE)


def _names(fleet: Fleet, rows: list[int]) -> Iterator[tuple[str, str]]:
    keys = _attributes(fleet)
    for row in rows:
        driver = fleet.vocabulary.drivers.values[fleet.codes["driver"][row]]
        # The driver's own attribute comes before those of other domains.
        for key in sorted(keys, key=lambda key: key[0] != driver):
            column = fleet.cel.attributes[key]
            value = column.values[column.codes[row]] if column.codes[row] >= 0 else None
            if isinstance(value, str) and value:
                yield driver, _cut(value)
                break
        else:
            yield driver, _cut(_text(_total_draw(fleet, row)))


def _total_draw(fleet: Fleet, row: int) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for number, draw in zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True):
        if number >= 0:
            for family, nanos in family_draw(fleet.set_columns[number].scale, fleet.table[draw]).items():
                total[family] = total.get(family, 0) + nanos
    return total


def _text(amounts: Mapping[str, int]) -> str:
    """The amounts, memory first. With many amounts: the first one and a hash of all."""
    ordered = sorted(amounts.items(), key=lambda amount: (amount[0] != "memory", amount[0]))
    texts = [f"{family}={shown(nanos)}" for family, nanos in ordered]
    if len(texts) > MOST_AMOUNTS:
        return f"{texts[0]}~{_short_hash(','.join(texts))}"
    return ",".join(texts) or WHOLE


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASH]


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - _HASH - 1]}~{_short_hash(text)}"


def _most_common(devices: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    of_driver: dict[str, list[tuple[float, str]]] = {}
    for (driver, name), count in devices.items():
        of_driver.setdefault(driver, []).append((-count, name))
    return {(driver, name) for driver, found in of_driver.items() for _, name in sorted(found)[:MAX_PROFILES]}
