"""Counters that differ by a number at their end are places of one thing, as memory-slice-0 and -1 are."""

import re
from collections import Counter
from functools import lru_cache

import numpy as np

from kernels.types import Amounts
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.devices.pools.counters import Scale

_NUMBERED = re.compile(r"(.*?)[-_.]?[0-9]+", re.ASCII | re.DOTALL)
_BINARY = 1024 * NANO


@lru_cache(maxsize=4096)
def families(scale: Scale) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names of the families of a set, sorted; and for each counter its family.

    A counter is of a family with others if their names are equal up to a number at the end. Alone it is its
    own family, under its full name.
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


def worths(scale: Scale, draws: Amounts) -> list[list[int]]:
    """What draws take of each family, in billionths.

    draws (T, C)  in the units of the scale
    ->    one list of T amounts a family
    """
    names, of_counter = families(scale)
    found = [[0] * len(draws) for _ in names]
    for at, row in enumerate(draws.tolist()):
        for counter, unit in enumerate(scale.units):
            found[of_counter[counter]][at] += row[counter] * unit
    return found


def summed(scale: Scale, amounts: Amounts) -> np.ndarray:
    """The sum of each family, in billionths, in floating point: for people, not for decisions.

    amounts (n, C)
    ->      (n, F)
    """
    names, of_counter = families(scale)
    found = np.zeros((len(amounts), len(names)))
    for counter, unit in enumerate(scale.units):
        found[:, of_counter[counter]] += amounts[:, counter].astype(np.float64) * unit
    return found


def drawn(scale: Scale, row: Amounts) -> dict[str, int]:
    """What one draw (C,) takes of each family, in billionths; families of which it takes nothing left out."""
    names, _ = families(scale)
    amounts = worths(scale, row[None, :])
    return {name: of[0] for name, of in zip(names, amounts, strict=True) if of[0]}


def shown(nanos: int) -> str:
    """An amount as Kubernetes writes it, with binary suffixes where it has them."""
    binary = nanos and nanos % _BINARY == 0
    return str(Quantity(nanos, Format.BINARY if binary else Format.DECIMAL))
