"""Counter families: counters whose names differ only by a final number, such as memory-slice-0 and -1."""

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
