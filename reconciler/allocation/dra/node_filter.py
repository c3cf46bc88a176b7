"""Which nodes may fit claims of one shape, judged by counts. Updated node by node as counts change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.count_log import START, Position, Selected
from reconciler.allocation.dra.request_options import RequestOption, Slot
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology


@dataclass(slots=True)
class _OptionCounts:
    """The counts for one request option, and which of their changes were applied."""

    option: RequestOption
    wanted: int
    """Devices that a node must have; 0 for mode All, which has no minimum"""
    current: Available | None = None
    position: Position = START
    selected: Amounts | None = None
    """(N,) devices whose node selector matches each node; None if no device has a selector"""

    @classmethod
    def of(cls, option: RequestOption) -> "_OptionCounts":
        return cls(option, 0 if option.all else option.source.wanted)

    def follow(self, snapshot: Snapshot) -> list[Rows] | None:
        """Update the counts; return the places of nodes where they changed; None if any may have."""
        current = self.current
        if current is None or not current.reaches(snapshot):
            current = self.current = available(self.option, snapshot)
            changes = None
        else:
            current.follow(snapshot)
            changes = current.log.since(self.position)
        self.position = current.log.end
        topology = snapshot.topology
        if changes is None:
            self.selected = _selected(current, topology)
            return None
        nodes, selected = changes
        places = [topology.place_of[nodes]] if len(nodes) else []
        if self.selected is not None:
            places += [_apply(change, self.selected, topology) for change in selected]
        return places


class NodeFilter:
    """N nodes, in the order in which they are tried. Valid for one topology."""

    def __init__(self, slots: Sequence[Slot], topology: Topology) -> None:
        self._counts = [[_OptionCounts.of(option) for option in slot.options] for slot in slots]
        self._codes = np.maximum(topology.order_codes, -1)
        self._all_placed = bool((topology.place_of[:-1] >= 0).all())
        size = len(self._codes)
        self.open: Mask = np.ones(size, dtype=np.bool_)
        """(N,) has enough devices for each request alone, or may meet an error"""
        self.failing: Mask = np.zeros(size, dtype=np.bool_)
        """(N,) may meet an error, which must be reported"""
        self.least: Amounts | None = None
        """(N,) the best rank that a node could give; None without alternatives"""
        self._plain = False
        """Whether comparing counts is enough: no alternatives and no errors"""
        if any(len(slot.options) > 1 for slot in slots):
            self.least = np.zeros(size, dtype=np.int64)

    @property
    def only(self) -> Available | None:
        """What is available for the only option, as of the last `follow`; None if there are several."""
        if len(self._counts) == 1 and len(self._counts[0]) == 1:
            return self._counts[0][0].current
        return None

    def follow(self, snapshot: Snapshot) -> None:
        """Update all masks to a snapshot."""
        changed: list[Rows] | None = []
        for of_slot in self._counts:
            for counts in of_slot:
                places = counts.follow(snapshot)
                changed = None if changed is None or places is None else changed + places
        if changed is None:
            without_error = not any(_current(counts).fails for slot in self._counts for counts in slot)
            self._plain = bool(self._counts) and self.least is None and without_error
            self._judge(slice(None))
        elif changed:
            rows = changed[0] if len(changed) == 1 else np.concatenate(changed)
            self._judge(rows if self._all_placed else rows[rows >= 0])

    def _judge(self, places: Rows | slice) -> None:
        codes = self._codes[places]
        if self._plain:
            enough = _suffices(self._counts[0][0], codes, places)
            for (counts,) in self._counts[1:]:
                enough &= _suffices(counts, codes, places)
            self.open[places] = enough
            return
        failing = np.zeros(len(codes), dtype=np.bool_)
        enough = np.ones(len(codes), dtype=np.bool_)
        least = np.zeros(len(codes), dtype=np.int64)
        for of_slot in self._counts:
            rank = np.full(len(codes), len(of_slot))
            for number in range(len(of_slot) - 1, -1, -1):
                if _current(of_slot[number]).fails:
                    failing |= _current(of_slot[number]).failing[codes]
                rank[_suffices(of_slot[number], codes, places)] = number
            enough &= rank < len(of_slot)
            least += rank
        self.failing[places] = failing
        self.open[places] = enough | failing
        if self.least is not None:
            least[failing] = 0  # the rank behind an error is not known
            self.least[places] = least

    def in_order(self, among: Mask) -> Iterator[tuple[int, int]]:
        """(best possible rank, place) of nodes, the best rank first, then in order of nodes.

        among (N,)  a part of `open`
        """
        if self.least is not None and self.least[among].any():
            found = np.flatnonzero(among)
            ranks = self.least[found]
            for at in np.argsort(ranks, kind="stable").tolist():
                yield int(ranks[at]), int(found[at])
            return
        at, size = 0, len(among)
        while at < size:  # lazy: mostly only the first is used
            at += int(among[at:].argmax())
            if not among[at]:
                return
            yield 0, at
            at += 1


def _suffices(counts: _OptionCounts, codes: Codes, places: Rows | slice) -> Mask:
    """(n,) nodes with enough devices for a request option.

    codes (n,), places (n,)  of the same nodes: the fleet's code, and the position in the order
    """
    current = _current(counts)
    have = current.per_node[codes]
    if not current.local:
        have = have + current.spanning
        if counts.selected is not None:
            have = have + counts.selected[places]
    found: Mask = have >= counts.wanted
    return found


def _current(counts: _OptionCounts) -> Available:
    assert counts.current is not None
    return counts.current


def _selected(current: Available, topology: Topology) -> Amounts | None:
    """(N,) how many devices nodes reach by node selectors; None if no device for the request has one."""
    if current.local or not (_selectors_of(current, topology) >= 0).any():
        return None
    found = np.zeros(len(topology.order), dtype=np.int64)
    nodes, selectors = topology.selected()
    np.add.at(found, nodes, current.per_selector[selectors])
    return found


def _selectors_of(current: Available, topology: Topology) -> Codes:
    """(n,) codes of the node selectors of the devices that may be available at some time; -1 for none."""
    return topology.fleet.codes["selector"][current.concerned]


def _apply(change: Selected, counts: Amounts, topology: Topology) -> Rows:
    """Count a change for the nodes that its selectors match. Returns the places of these nodes."""
    nodes, of = topology.selected_by().of_each(change.selectors)
    places = topology.selected()[0][nodes]
    np.add.at(counts, places, change.change[of])
    return places.astype(np.intp)
