"""Where a pod can go so that nothing that is counted is lost, the tightest place first."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Codes, Rows
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.node_attempt import only_rows
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.placement.placing import Placement
from reconciler.analysis.relocation.goals import Goal
from reconciler.analysis.relocation.movers import FieldHolds, Mover
from reconciler.api.objects.plan import Granted, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot


class Ended(StrEnum):
    """A limit that ended a part of the search."""

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


class Future:
    """The fleet after all moves of an option: its pods are gone, or in their new places."""

    def __init__(self, goal: Goal, holds: FieldHolds, counts: Codes) -> None:
        self._goal = goal
        self.holds = holds
        self.counts = counts
        """(fields,) how many each field holds"""
        self._required: dict[int, int] = {}
        self._refused: set[tuple[bytes, bytes]] = set()
        """Draws and states of fields: a device that costs a field too much has many equals"""

    def leave(self, movers: Iterable[Mover]) -> None:
        """Take pods out."""
        for mover in movers:
            self.holds.give_back(mover.rows)
            self._count(self._fields(mover.rows))

    def require(self, field: int, level: int) -> None:
        """A field must hold so many in the end; the others must not lose any."""
        self._required[field] = level

    def enter(self, rows: Rows) -> None:
        """Put a pod in."""
        self.holds.take(rows)
        self._count(self._fields(rows))
        self._refused.clear()

    def accepts(self, rows: Rows) -> bool:
        """Whether no field holds too few with these devices held."""
        fields = self._fields(rows)
        alike = b"", b""
        if len(rows) == len(fields) == 1 and fields[0] not in self._required:
            alike = self.holds.fleet.draws[rows].tobytes(), self._goal.state(fields[0], self.holds)
            if alike in self._refused:
                return False
        self.holds.take(rows)
        fine = all(
            self._goal.count(field, self.holds).least >= self._required.get(field, int(self.counts[field]))
            for field in fields
        )
        self.holds.give_back(rows)
        if not fine and alike[1]:
            self._refused.add(alike)
        return fine

    def worse(self) -> Codes:
        """(D,) 0 for devices where nothing can be lost, 1 for the others."""
        return np.append(self.counts > 0, False)[self._goal.of].astype(np.int32)

    def _fields(self, rows: Rows) -> list[int]:
        found = distinct(self._goal.of[rows])
        fields: list[int] = found[found >= 0].tolist()
        return fields

    def _count(self, fields: Iterable[int]) -> None:
        for field in fields:
            self.counts[field] = self._goal.count(field, self.holds).least


MOST_TRIED = 24
"""Decisions for one pod"""
MOST_LOOKED_AT = 400
"""Devices for one pod that are compared with the goal before any is decided"""


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

    def of(
        self, mover: Mover, snapshot: Snapshot, worse: Codes, accepts: Callable[[Rows], bool]
    ) -> Iterator[PlaceOfMover]:
        """Places for a pod on a snapshot without it, at most MOST_TRIED of them.

        worse (D,)  devices with a higher number are tried later; with a negative one, never
        accepts     whether the pod may get some devices, (n,) rows
        """
        try:
            slots = read_claims(mover.claims, snapshot.classes, snapshot.rules).slots
            choice = self._placement.before_binding(mover.pod, (), snapshot)
        except (Fatal, Rejected):
            return
        fleet = snapshot.fleet
        suits = np.zeros(fleet.size, dtype=np.bool_)
        for slot in slots:
            for option in slot.options:
                suits |= match_in_fleet(option, snapshot).suitable
        allowed = snapshot.occupancy.free & suits & (worse >= 0) & (fleet.codes["node"] >= 0)
        if choice.nodes is not None:
            codes = snapshot.topology.order_codes[choice.nodes.mask]
            reached = np.zeros(len(fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
            reached[codes[codes >= 0]] = True
            allowed &= reached[fleet.codes["node"]]
        rows = np.flatnonzero(allowed)
        if len(slots) == 1 and len(mover.rows) == 1:
            tried = self._rows(rows, worse, snapshot, accepts)
        else:
            tried = self._nodes(rows, len(mover.rows), worse, snapshot)
        for number, (node, among) in enumerate(tried):
            if number == MOST_TRIED:
                self.ended.add(Ended.PLACES)
                return
            place = self.decide(mover, snapshot, node, among)
            if place is not None and accepts(place.rows):
                yield place

    def decide(self, mover: Mover, snapshot: Snapshot, node: str, among: Rows) -> PlaceOfMover | None:
        """The allocator's answer on one node with some devices."""
        self.tried += 1
        only = only_rows(mover.claims, among.tolist(), snapshot)
        found = decide(mover.claims, snapshot, nodes=[node], steps=self._steps, only=only)
        if not isinstance(found, Granted):
            if found.reason == Reason.GAVE_UP:
                self.ended.add(Ended.STEPS)
            return None
        taken = [
            row
            for plan in found.plans
            for result in plan.allocation.devices.results
            if not result.admin_access
            for row in snapshot.fleet.rows_of(result.id)
        ]
        return PlaceOfMover(found, np.array(taken, dtype=np.intp))

    def _rows(
        self, rows: Rows, worse: Codes, snapshot: Snapshot, accepts: Callable[[Rows], bool]
    ) -> Iterator[tuple[str, Rows]]:
        """Single devices: where the fewest others are free first."""
        fleet = snapshot.fleet
        group = group_of(fleet)
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


def group_of(fleet: Fleet) -> Codes:
    """(D,) a code of the first counter set of each device; of its node if it draws from none."""
    sets = len(fleet.totals)
    node = fleet.codes["node"].astype(np.int32) + 1 + sets
    if not fleet.sets.shape[1]:
        return node
    at = (fleet.sets >= 0).argmax(axis=1)
    first = fleet.sets[np.arange(fleet.size), at]
    return np.where(first >= 0, first, node).astype(np.int32)
