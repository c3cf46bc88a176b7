"""Profiles: which devices count as equal, and their names.

The string attribute `profile` names the profile of a device. Devices without it have the same profile if they
draw the same amounts of the same counter families. Devices without draws are whole devices.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256

import numpy as np
from msgspec import Struct

from kernels.packing import unique_rows
from kernels.types import Codes, Mask
from reconciler.analysis.capacity.families import family_draw, shown
from reconciler.state.devices.pools.fleet import Fleet

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
