"""Things at places, places in domains: where one more may be put, with how many points, what is free there.

N places, D domains. `codes` (N,) is the domain of each place; 0 is none, so `counts[0]` is always 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from kernels.types import Amounts, Codes, Mask, Rows


class Counter(NamedTuple):
    """How many things of one sort each domain has."""

    codes: Codes
    """(N,)"""
    counts: Amounts
    """(D,)"""
    counted: Mask | None = None
    """(N,) places whose things count; None for all"""

    def counts_at(self, place: int) -> bool:
        """Whether one more thing at a place counts."""
        return bool(self.codes[place]) and (self.counted is None or bool(self.counted[place]))


def per_domain(each: Amounts, codes: Codes, counted: Mask | None, size: int) -> Amounts:
    """(D,) how many things the counted places of each domain have.

    each    (N,) things at each place
    counted (N,) None for all places
    size         D
    """
    some = each != 0
    at = np.flatnonzero(some if counted is None else some & counted)
    counts = np.bincount(codes[at], weights=each[at], minlength=size).astype(np.int64)
    counts[0] = 0
    return counts


def present(codes: Codes, counted: Mask | None, size: int) -> Mask:
    """(D,) domains with a counted place."""
    found: Mask = np.bincount(codes if counted is None else codes[counted], minlength=size) > 0
    found[0] = False
    return found


class Rule(Protocol):
    """Decides where one more thing may be put."""

    def allows(self, codes: Sequence[Codes], counts: Sequence[Amounts]) -> Mask:
        """(N,) the places that the rule allows; `codes` and `counts` are those of all counters."""

    @property
    def tightens(self) -> bool:
        """Whether a place that is not allowed stays so, whatever is added."""


@dataclass(frozen=True, slots=True)
class Vacant:
    """The domain has none, or the place is in no domain."""

    counter: int
    tightens = True

    def allows(self, codes: Sequence[Codes], counts: Sequence[Amounts]) -> Mask:
        """(N,) the places that the rule allows."""
        found: Mask = (counts[self.counter] == 0).take(codes[self.counter])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """The parts of all things in a domain stay within a limit. A part that several things bring counts once.

    P parts that several things may bring. Every place must be in a domain of its own.
    """

    single: int
    """The counter of parts that one thing alone brings"""
    own: int
    """Such parts of the new thing"""
    parts: tuple[int, ...]
    """(P,) the counter of each other part"""
    mine: tuple[bool, ...]
    """(P,) whether the new thing brings it"""
    fresh: Mask
    """(P, D) domains that do not have the part from the start"""
    left: Amounts
    """(D,) so many more parts may come"""
    tightens = True

    def allows(self, codes: Sequence[Codes], counts: Sequence[Amounts]) -> Mask:
        """(N,) the places that the rule allows. A thing without a new part is allowed everywhere."""
        at = codes[self.single]
        used = counts[self.single][at] + self.own
        new = np.full(len(at), self.own, dtype=np.int64)
        for part, mine, fresh in zip(self.parts, self.mine, self.fresh, strict=True):
            there = counts[part][codes[part]] > 0
            used += fresh[at] & (there | mine)
            new += fresh[at] & ~there & mine
        found: Mask = (new == 0) | (used <= self.left[at])
        return found


@dataclass(frozen=True, slots=True)
class Near:
    """The domains of every counter have one. `first`: or no domain of any counter has one."""

    counters: tuple[int, ...]
    first: bool
    tightens = False

    def allows(self, codes: Sequence[Codes], counts: Sequence[Amounts]) -> Mask:
        """(N,) the places that the rule allows. A place must be in a domain of every counter."""
        none = self.first and not any(counts[at].any() for at in self.counters)
        found = np.ones(len(codes[self.counters[0]]), dtype=np.bool_)
        for at in self.counters:
            found &= codes[at] > 0 if none else (counts[at] > 0).take(codes[at])
        return found


@dataclass(frozen=True, slots=True)
class Even:
    """No domain has many more than the emptiest one."""

    counter: int
    skew: int
    """The largest allowed difference"""
    own: int
    """What the new thing adds: 1 or 0"""
    least: int
    """With fewer domains than this, the emptiest domain counts as empty"""
    domains: Mask
    """(D,) domains that are compared"""
    tightens = False

    def allows(self, codes: Sequence[Codes], counts: Sequence[Amounts]) -> Mask:
        """(N,) the places that the rule allows. A place must be in a domain."""
        return self.allows_between(codes, counts, counts)

    def allows_between(
        self, codes: Sequence[Codes], most: Sequence[Amounts], fewest: Sequence[Amounts]
    ) -> Mask:
        """(N,) the places that the rule allows, however many come first of the things that are yet to come.

        `most` counts all of them, `fewest` none.
        """
        have, compared = most[self.counter], np.flatnonzero(self.domains)
        emptiest = np.zeros_like(have)
        if len(compared) >= max(self.least, 1):
            there = fewest[self.counter][compared]
            at = int(there.argmin())
            emptiest[:] = there[at]
            there[at] = have[compared[at]]
            emptiest[compared[at]] = there.min()
            emptiest[compared] = np.minimum(emptiest[compared], have[compared])
        enough = have + self.own - emptiest <= self.skew
        enough[0] = False
        found: Mask = enough.take(codes[self.counter])
        return found


MOST = 100
"""Points of the best place"""


class Crowd(NamedTuple):
    """How many things are near each place, in domains of one sort.

    N places. `raw` (N,) int64 says how much speaks for, or against, each place; `among` (N,) are the
    places that are compared. Points of other places mean nothing.
    """

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


NONE = -1


class Spans(NamedTuple):
    """Several lists of places, one after another."""

    places: Rows
    """(P,)"""
    starts: Rows
    """(S + 1,) where each list starts, and the end"""

    @staticmethod
    def joined(lists: Sequence[Rows]) -> "Spans":
        """The lists as one."""
        starts = np.zeros(len(lists) + 1, dtype=np.intp)
        np.cumsum([len(one) for one in lists], out=starts[1:])
        return Spans(np.concatenate([np.zeros(0, dtype=np.intp), *lists]), starts)

    def of(self, numbers: Codes | Rows) -> tuple[Rows, Rows]:
        """(E,) positions in `numbers` and (E,) places: each of these lists in turn.

        numbers (n,) of lists
        """
        starts = self.starts[numbers]
        lengths = self.starts[1:][numbers] - starts
        ends = np.cumsum(lengths)
        which = np.repeat(np.arange(len(lengths)), lengths)
        at = np.arange(len(which)) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths)
        return which, self.places[at]


def first_at_each(things: Codes, places: Rows, size: int, taken: Sequence[Codes] = ()) -> Codes:
    """(size,) the first thing at each place; NONE where there is none.

    things (E,) what is there, smallest first
    places (E,) and where
    taken  (size,) each: what is not there any more, or NONE
    """
    for gone in taken:
        left = gone[places] != things
        things, places = things[left], places[left]
    found = np.full(size, NONE, dtype=np.int32)
    found[places[::-1]] = things[::-1]  # of several assignments the last counts
    return found


def leading(groups: Codes, most: int) -> Rows:
    """The positions of the first `most` things of each group, in order.

    groups (T,)
    """
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff([*starts.tolist(), len(ordered)]))
    found: Rows = np.sort(order[rank < most])
    return found
