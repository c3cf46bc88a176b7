"""Marks of a pool's devices, numbered within each scope."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Codes, Mask


class Mark(NamedTuple):
    """A demand of some devices on the others in their scopes."""

    asks: Mask
    """(n, K) the devices that ask for it, only where they have a scope"""
    meets: Mask
    """(n, K) the devices that meet it"""


def numbered_by_scope(scopes: Codes, size: int, marks: Sequence[Mark]) -> tuple[Mask, Mask]:
    """(n, K, M) what devices ask for and meet; M is the largest number of marks that one scope asks for.

    A pool may have one expression for each physical device, but a scope uses only a few of them.

    scopes (n, K)  -1 for none
    size           number of scopes
    """
    count = np.zeros(size + 1, dtype=np.int32)
    of_mark = [_asking(scopes, size, mark.asks) for mark in marks]
    for asking in of_mark:
        count += asking
    shape = (*scopes.shape, max(int(count.max(initial=0)), 1))
    asks, meets = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    number = np.zeros(size + 1, dtype=np.int32)
    for asking, mark in zip(of_mark, marks, strict=True):
        row, k = np.nonzero(asking[scopes])
        place = row, k, number[scopes[row, k]]
        asks[place], meets[place] = mark.asks[row, k], mark.meets[row, k]
        number += asking
    return asks, meets


def _asking(scopes: Codes, size: int, asks: Mask) -> Mask:
    """(size + 1,) the scopes in which a device asks; the last one stands for none."""
    found = np.zeros(size + 1, dtype=np.bool_)
    found[scopes[asks]] = True
    found[-1] = False
    return found
