"""Answers claims that repeat: places for ever more copies are found ahead in one pass, and given one by one.

Claims that are known to come next are answered together, in one pass.

A place that was found ahead is given only while it is what a new decision would answer. Copies that nobody
asks for cost little: at most as many are found ahead as were asked for before.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.availability import judge
from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.dra.copies import Place, Template, allocate_copies, places, rows_of, template_of
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.caches import Cache
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.snapshot import NodeSubset, Snapshot, Topology

KEPT = 16
"""Specs whose repeats are followed for one topology"""
FIRST, MOST = 2, 256
"""Copies that are placed at once: twice as many after each time that all were asked for"""
ENOUGH = 8
"""Copies that a pass must have served to cost less than as many decisions one by one"""
LONGEST_REST = 64
"""Claims that are decided alone after other changes made the places worthless several times"""


def repeated(
    claim: ResourceClaim, snapshot: Snapshot, *, nodes: NodeSubset | None = None, steps: int = STEPS
) -> Granted | None:
    """What `allocate` answers for a claim, if it repeats; None if that must be asked.

    The caller counts the devices as held before it asks about the next claim, or the places found ahead are
    dropped. The steps of the answer count its devices only.
    """
    one, new = _repeat_of(claim, snapshot, nodes)
    return None if one is None or new else one.answer(claim, snapshot, nodes, steps)


def repeated_together(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: NodeSubset | None = None,
    room: Amounts | None = None,
    steps: int = STEPS,
) -> list[Granted]:
    """Answers for the first of some claims with equal specs; see `copies.allocate_copies`.

    The place of one copy more is kept for `repeated`, until it is not what a new decision would answer.
    """
    one, _ = _repeat_of(claims[0], snapshot, nodes) if claims else (None, False)
    if one is None:
        return allocate_copies(claims, snapshot, nodes=nodes, room=room, steps=steps)
    return one.answers(claims, snapshot, nodes, room, steps)


def _repeat_of(
    claim: ResourceClaim, snapshot: Snapshot, nodes: NodeSubset | None
) -> tuple["_Repeat | None", bool]:
    """The claims of a spec, and whether this is the first one; None if they must be decided alone."""
    key = claim.spec.key
    if key is None or (nodes is not None and nodes.order is not snapshot.topology.order):
        return None, False  # nodes that were chosen before nodes came or went: `allocate` goes by their names
    known = _REPEATS.of(snapshot.topology)
    one = known.get(key)
    if one is not None:
        known.move_to_end(key)
        return one, False
    one = known[key] = _Repeat(snapshot.occupancy)
    if len(known) > KEPT:
        known.popitem(last=False)
    return one, True


class _Repeat:
    """The claims of one spec."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._size = FIRST
        self._prepared: _Prepared | None = None
        self._alone = 0
        """Claims to be decided alone next"""
        self._rest = 1
        """How many after the next failure"""
        self._asked: tuple[object, int] = occupancy.trail, occupancy.serial
        """Trail and serial of the state that the claim before this one was decided from"""

    def answer(
        self, claim: ResourceClaim, snapshot: Snapshot, nodes: NodeSubset | None, steps: int
    ) -> Granted | None:
        """See `repeated`."""
        prepared, follows = self._prepared, self._follows(snapshot.occupancy)
        if prepared is not None and prepared.places:
            place = prepared.next(snapshot, nodes)
            if place is not None:
                return prepared.template.grant(claim, place, snapshot)
            self._failed()
        elif prepared is not None:
            self._prepared = None
            if self._size >= ENOUGH:
                self._rest = 1
            self._size = min(2 * self._size, MOST)
        if not follows:
            return None
        if self._alone:
            self._alone -= 1
            return None
        template = template_of(claim, snapshot, steps=steps)
        found = places(template, snapshot, self._size, nodes=nodes) if template is not None else []
        if template is None or not found:
            self._rest = LONGEST_REST
            self._failed()
            return None
        self._prepared = _prepared(template, found[1:], found[:1], snapshot, nodes)
        return template.grant(claim, found[0], snapshot)

    def answers(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        nodes: NodeSubset | None,
        room: Amounts | None,
        steps: int,
    ) -> list[Granted]:
        """See `repeated_together`."""
        template = template_of(claims[0], snapshot, steps=steps)
        if template is None:
            return []
        found = places(template, snapshot, len(claims) + 1, nodes=nodes, room=room)
        given, more = found[: len(claims)], found[len(claims) :]
        if room is not None:
            nodes = _with_room(given, room, nodes, snapshot)
        self._prepared = _prepared(template, more, given, snapshot, nodes) if more else None
        self._size = FIRST  # that this one place is asked for says little of how many more will be
        return template.grants(claims, given, snapshot)

    def _follows(self, occupancy: Occupancy) -> bool:
        """Whether nothing but the claim before this one changed what is held since that was decided: among
        claims of other specs, places that are found ahead are soon worthless.
        """
        asked, self._asked = self._asked, (occupancy.trail, occupancy.serial)
        return asked[0] is occupancy.trail and occupancy.serial - asked[1] <= 1

    def _failed(self) -> None:
        self._prepared, self._size = None, FIRST
        self._alone, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)


class _Prepared(Struct):
    """Places of copies that are not asked for yet, and what the state must be for them to be the answers.

    First fit gives the next copy the next place as long as nothing became available since, what the place
    has is available, and what the places before it had is not, nor what those drew. The places on one node
    do not depend on those on others, so a node that must not be used any more is skipped.
    """

    template: Template
    places: deque[Place]
    given: Rows
    """(n,) what was given last"""
    left: Sequence[Mask]
    """Of each request, (D,): available when the state was looked at last"""
    nodes: NodeSubset | None
    """The nodes that may be used; None for all"""
    classes: Mapping[str, DeviceClass]
    occupancy: tuple[object, int]
    """Trail and serial of that state"""
    most_left: tuple[Rows, Amounts] | None
    """(S,) the counter sets that `given` draws from, and (S, C) what is left of them afterwards; None if it
    draws nothing.

    While no more is left, a device that did not fit beside the places does not fit now either.
    """

    def next(self, snapshot: Snapshot, nodes: NodeSubset | None) -> Place | None:
        """The place of the next copy. None if it must be decided anew; the places are worthless then."""
        if snapshot.classes is not self.classes or not self._includes(nodes):
            return None
        if not self._follow(snapshot.occupancy, snapshot):
            return None
        if snapshot.occupancy.free[self.given].any():
            return None
        if self.most_left is not None:
            numbers, most = self.most_left
            if (snapshot.occupancy.left[numbers] > most).any():
                return None
        while self.places:
            place = self.places.popleft()
            if nodes is not None and not nodes.mask[place.at]:
                self.nodes = nodes  # what is left on this node may be used by nobody else
                continue
            if not all(left[rows].all() for left, rows in zip(self.left, place.rows, strict=True)):
                return None
            self.given = rows_of([place])
            self.most_left = _left_after(self.given, snapshot)
            return place
        return None

    def _includes(self, nodes: NodeSubset | None) -> bool:
        """Whether all the nodes could be used when the places were found."""
        if nodes is self.nodes or self.nodes is None:
            return True
        return nodes is not None and not (nodes.mask & ~self.nodes.mask).any()

    def _follow(self, occupancy: Occupancy, snapshot: Snapshot) -> bool:
        """Look at what changed since. Returns whether nothing became available."""
        trail, serial = self.occupancy
        if occupancy.trail is not trail or occupancy.serial < serial:
            return False
        if occupancy.serial == serial:
            return True
        rows = occupancy.trail.between(serial, occupancy.serial)
        self.occupancy = trail, occupancy.serial
        for left, request in zip(self.left, self.template.requests, strict=True):
            concerned = rows[request.concerned[rows]]
            now = judge(request.static, snapshot, concerned, admin=False)
            if (now & ~left[concerned]).any():
                return False
            left[concerned] = now
        return True


def _prepared(
    template: Template,
    found: Sequence[Place],
    given: Sequence[Place],
    snapshot: Snapshot,
    nodes: NodeSubset | None,
) -> _Prepared:
    occupancy, taken = snapshot.occupancy, rows_of(given)
    return _Prepared(
        template,
        deque(found),
        taken,
        [one.mask.copy() for one in template.requests],
        nodes,
        snapshot.classes,
        (occupancy.trail, occupancy.serial),
        _left_after(taken, snapshot),
    )


def _with_room(
    given: Sequence[Place], room: Amounts, nodes: NodeSubset | None, snapshot: Snapshot
) -> NodeSubset | None:
    """The nodes without those that have no room for another copy: what they have left was passed over."""
    more = np.bincount([place.at for place in given], minlength=len(room)) < room
    if more.all():
        return nodes
    return NodeSubset(snapshot.topology.order, more if nodes is None else more & nodes.mask)


def _left_after(given: Rows, snapshot: Snapshot) -> tuple[Rows, Amounts] | None:
    """See `_Prepared.most_left`. Devices of places draw from one set at most (see `copies`)."""
    fleet = snapshot.fleet
    if not fleet.sets.shape[1]:
        return None
    sets = fleet.sets[given, 0]
    drawing = sets >= 0
    if not drawing.any():
        return None
    numbers, of_row = np.unique(sets[drawing], return_inverse=True)
    left = snapshot.occupancy.left[numbers]
    np.subtract.at(left, of_row, fleet.table[fleet.draws[given[drawing], 0]])
    return numbers, left


_REPEATS: Cache[Topology, OrderedDict[bytes, _Repeat]] = Cache(lambda _: OrderedDict())
"""They change with the decisions of one snapshot after the other, so a fork has its own."""
