"""Which nodes counting cannot exclude, for claims of one form. Followed node by node as counts change."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocator.asks import Ask, Slot
from reconciler.allocator.availability import Available, available
from reconciler.inventory.snapshot import Snapshot, Topology


class Prospects:
    """N nodes, in the order in which they are tried. Good for one topology."""

    def __init__(self, slots: Sequence[Slot], topology: Topology) -> None:
        self._slots = slots
        self._topology = topology
        self._codes = np.maximum(topology.order_codes, -1)
        self._seen: dict[int, tuple[Available, int]] = {}
        """id of an ask -> the counts it was judged by, and how far they had come"""
        size = len(self._codes)
        self.open: Mask = np.ones(size, dtype=np.bool_)
        """(N,) has enough for every request, each counted alone, or may meet an error"""
        self.failing: Mask = np.zeros(size, dtype=np.bool_)
        """(N,) may meet an error, which must not be hidden"""
        self.least: Amounts | None = None
        """(N,) the best rank that a node could give; None where there are no alternatives"""
        if any(len(slot.asks) > 1 for slot in slots):
            self.least = np.zeros(size, dtype=np.int64)

    def follow(self, world: Snapshot) -> None:
        """Bring everything to the state of a snapshot."""
        counts = [[available(ask, world) for ask in slot.asks] for slot in self._slots]
        places = self._places(counts)
        if places is None:
            self._judge(counts, slice(None))
        elif len(places):
            self._judge(counts, places)

    def _places(self, counts: Sequence[Sequence[Available]]) -> Rows | None:
        """(n,) nodes whose counts changed since; None if that may be any."""
        changed: list[Codes] = []
        everywhere = False
        for slot, of_slot in zip(self._slots, counts, strict=True):
            for ask, there in zip(slot.asks, of_slot, strict=True):
                before, come = self._seen.get(id(ask), (None, 0))
                if before is not there or come < there.log.start:
                    everywhere = True
                elif come < there.log.end:
                    changed += there.log.since(come)
                self._seen[id(ask)] = there, there.log.end
        if everywhere:
            return None
        if not changed:
            return _NONE
        codes = changed[0] if len(changed) == 1 else np.concatenate(changed)
        places = self._topology.place_of[codes]
        return places[places >= 0]

    def _judge(self, counts: Sequence[Sequence[Available]], places: Rows | slice) -> None:
        codes = self._codes[places]
        failing = np.zeros(len(codes), dtype=np.bool_)
        enough = np.ones(len(codes), dtype=np.bool_)
        least = np.zeros(len(codes), dtype=np.int64)
        for slot, of_slot in zip(self._slots, counts, strict=True):
            rank = np.full(len(codes), len(slot.asks))
            for number in range(len(slot.asks) - 1, -1, -1):
                ask, there = slot.asks[number], of_slot[number]
                if there.fails:
                    failing |= there.failing[codes]
                rank[self._suffices(ask, there, codes, places)] = number
            enough &= rank < len(slot.asks)
            least += rank
        self.failing[places] = failing
        self.open[places] = enough | failing
        if self.least is not None:
            least[failing] = 0  # what an error hides is not counted
            self.least[places] = least

    def _suffices(self, ask: Ask, there: Available, codes: Codes, places: Rows | slice) -> Mask:
        """(n,) the nodes that could take enough devices for an ask."""
        if ask.all:  # any number of devices may be all
            return np.ones(len(codes), dtype=np.bool_)
        have = there.per_node[codes]
        if there.spanning:
            have = have + there.spanning
        if len(there.per_selector) and there.per_selector.any():
            selected = np.zeros(len(self._codes), dtype=np.int64)
            nodes, selectors = self._topology.selected()
            np.add.at(selected, nodes, there.per_selector[selectors])
            have = have + selected[places]
        found: Mask = have >= ask.source.wanted
        return found

    def in_order(self, among: Mask) -> Iterator[tuple[int, int]]:
        """The best rank that a node could give, and its place; the most promising first, then in order.

        among (N,)  a part of `open`
        """
        if self.least is not None and self.least[among].any():
            found = np.flatnonzero(among)
            ranks = self.least[found]
            for at in np.argsort(ranks, kind="stable").tolist():
                yield int(ranks[at]), int(found[at])
            return
        at, size = 0, len(among)
        while at < size:  # the first is mostly the last that is asked for
            at += int(among[at:].argmax())
            if not among[at]:
                return
            yield 0, at
            at += 1


_NONE: Rows = np.zeros(0, dtype=np.intp)
