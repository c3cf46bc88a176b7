"""Where a pod can go so that nothing that is counted is lost, the tightest place first."""

from collections.abc import Callable, Iterator
from enum import StrEnum

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Codes, Rows
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.node_attempt import only_rows as within
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.placement.placing import Placement
from reconciler.analysis.capacity.layout import first_sets
from reconciler.analysis.relocation.movers import Mover
from reconciler.api.objects.plan import Granted, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot

MOST_TRIED = 24
"""Decisions for one pod"""
MOST_LOOKED_AT = 400
"""Devices for one pod that are compared with the goal before any is decided"""


class Ended(StrEnum):
    """A limit that ended a part of the search: what it left untried is said with the plan."""

    DECISIONS = "decisions"
    """Of a whole plan"""
    MOVES = "moves"
    """Of a whole plan"""
    STOPPED = "stopped"
    """Nobody wanted the plan any more"""
    STEPS = "steps"
    """Of one decision"""
    PLACES = "places"
    """That were tried for one pod"""
    SETS = "sets"
    """Of the pods in one place: only all of them together were considered"""
    ALTERNATIVES = "alternatives"
    """To the first plan that was found"""


class PlaceOfMover(Struct, frozen=True):
    """Devices for a pod, decided by the allocator."""

    granted: Granted
    rows: Rows
    """(n,) the devices"""


class Places:
    """Finds places for pods that are about to move."""

    def __init__(self, placement: Placement, steps: int) -> None:
        self._placement = placement
        self._steps = steps
        self.tried = 0
        """Decisions so far"""
        self.ended: set[Ended] = set()
        """Limits that kept places from being tried"""

    def first(
        self, mover: Mover, snapshot: Snapshot, worse: Codes, accepts: Callable[[Rows], bool]
    ) -> PlaceOfMover | None:
        """A place for a pod on a snapshot without it; None if at most MOST_TRIED decisions find none.

        worse (D,)  devices with a higher number are tried later
        accepts     whether the pod may get some devices, (n,) rows
        """
        try:
            slots = read_claims(mover.claims, snapshot.classes, snapshot.rules).slots
            choice = self._placement.before_binding(mover.pod, (), snapshot)
        except (Fatal, Rejected):
            return None
        fleet = snapshot.fleet
        suits = np.zeros(fleet.size, dtype=np.bool_)
        for option in (option for slot in slots for option in slot.options):
            suits |= match_in_fleet(option, snapshot).suitable
        allowed = snapshot.occupancy.free & suits & (fleet.codes["node"] >= 0)
        if choice.nodes is not None:
            codes = snapshot.topology.order_codes[choice.nodes.mask]
            reached = np.zeros(len(fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
            reached[codes[codes >= 0]] = True
            allowed &= reached[fleet.codes["node"]]
        rows = np.flatnonzero(allowed)
        if len(slots) == 1 and len(mover.rows) == 1:
            tried = self._single(rows, worse, snapshot, accepts)
        else:
            tried = self._nodes(rows, len(mover.rows), worse, snapshot)
        for number, (node, among) in enumerate(tried):
            if number == MOST_TRIED:
                self.ended.add(Ended.PLACES)
                break
            place = self.decide(mover, snapshot, node, among)
            if place is not None and accepts(place.rows):
                return place
        return None

    def decide(self, mover: Mover, snapshot: Snapshot, node: str, among: Rows) -> PlaceOfMover | None:
        """The allocator's answer on one node with some devices."""
        self.tried += 1
        only = within(mover.claims, among.tolist(), snapshot)
        found = decide(mover.claims, snapshot, nodes=[node], steps=self._steps, only=only)
        if not isinstance(found, Granted):
            if found.reason == Reason.GAVE_UP:
                self.ended.add(Ended.STEPS)
            return None
        results = [one for plan in found.plans for one in plan.allocation.devices.results]
        ids = [one.id for one in results if not one.admin_access]
        rows = [row for device in ids for row in snapshot.fleet.rows_of(device)]
        return PlaceOfMover(found, np.array(rows, dtype=np.intp))

    def _single(
        self, rows: Rows, worse: Codes, snapshot: Snapshot, accepts: Callable[[Rows], bool]
    ) -> Iterator[tuple[str, Rows]]:
        """Single devices: where the fewest others are free first, in their counter set or else their node."""
        fleet = snapshot.fleet
        first, node = first_sets(fleet), fleet.codes["node"].astype(np.int32) + 1 + len(fleet.totals)
        group = np.where(first >= 0, first, node).astype(np.int32)
        free = np.bincount(group[snapshot.occupancy.free], minlength=int(group.max(initial=0)) + 1)
        order = rows[np.lexsort((rows, free[group[rows]], worse[rows]))]
        names = fleet.vocabulary.nodes.values
        for row in order[:MOST_LOOKED_AT].tolist():
            if accepts(np.array([row], dtype=np.intp)):
                yield names[fleet.codes["node"][row]], np.array([row], dtype=np.intp)
        if len(order) > MOST_LOOKED_AT:
            self.ended.add(Ended.PLACES)

    @staticmethod
    def _nodes(rows: Rows, devices: int, worse: Codes, snapshot: Snapshot) -> Iterator[tuple[str, Rows]]:
        """Nodes with enough devices: those with enough that are not worse first, then the fullest."""
        codes = snapshot.fleet.codes["node"]
        names = snapshot.fleet.vocabulary.nodes.values
        free = np.bincount(codes[snapshot.occupancy.free & (codes >= 0)], minlength=len(names))
        for level in distinct(worse[rows]).tolist():
            among = rows[worse[rows] <= level]
            enough = np.flatnonzero(np.bincount(codes[among], minlength=len(names)) >= devices)
            for code in enough[np.lexsort((enough, free[enough]))].tolist():
                yield names[code], among[codes[among] == code]
