"""Points of places from 0 to 100, relative to the other places that are considered.

N places. `raw` (N,) int64 says how much speaks for, or against, each place; `among` (N,) are the places that
are compared. Points of other places mean nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Codes, Mask

MOST = 100
"""Points of the best place"""


class Crowd(NamedTuple):
    """How many things are near each place, in domains of one sort."""

    counts: Amounts
    """(N,) things in the domain of the place"""
    codes: Codes
    """(N,) the domain of the place"""
    allowance: int
    """A constant that softens differences"""


def of_greatest(raw: Amounts, among: Mask) -> Amounts:
    """(N,) the share of the greatest raw amount; 0 for all if that is 0. `raw` is not negative."""
    greatest = int(raw[among].max(initial=0))
    return np.zeros_like(raw) if greatest == 0 else MOST * raw // greatest


def below_greatest(raw: Amounts, among: Mask) -> Amounts:
    """(N,) the opposite: the less, the more points."""
    return MOST - of_greatest(raw, among)


def between(raw: Amounts, among: Mask) -> Amounts:
    """(N,) how far it is from the least raw amount to the greatest; 0 for all if these are equal.

    Rounded as float64 division does, then down. `raw` may be negative.
    """
    compared = raw[among]
    if not len(compared) or (span := int(compared.max() - compared.min())) == 0:
        return np.zeros_like(raw)
    found: Amounts = (MOST * ((raw - compared.min()) / span)).astype(np.int64)
    return found


def uncrowded(crowds: Sequence[Crowd], within: Mask, among: Mask) -> Amounts:
    """(N,) the fewer things are near, the more points.

    A thing counts ln(domains + 2), over the domains of the places that are compared: one of few domains is
    worth less than one of many. Amounts are rounded half up before they are compared.

    within (N,)  places that have a domain of every sort; others get 0 points
    """
    compared = within & among
    if not compared.any():
        return np.zeros(len(among), dtype=np.int64)
    total = np.zeros(len(among), dtype=np.float64)
    for crowd in crowds:
        domains = np.count_nonzero(np.bincount(crowd.codes[compared]))
        total += crowd.counts * np.log(domains + 2.0) + float(crowd.allowance)
    whole = np.floor(total)
    raw = (whole + (total - whole >= 0.5)).astype(np.int64)
    least, greatest = int(raw[compared].min()), int(raw[compared].max())
    if greatest == 0:
        return np.where(within, MOST, 0).astype(np.int64)
    found: Amounts = np.where(within, MOST * (greatest + least - raw) // greatest, 0)
    return found
