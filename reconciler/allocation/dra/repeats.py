"""Answers claims that repeat: places for ever more copies are found ahead in one pass, and given one by one.

A place that was found ahead is given only while it is what a new decision would answer. Copies that nobody
asks for cost little: at most as many are found ahead as were asked for before.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernels.types import Amounts, Mask
from reconciler.allocation.defaults import STEPS
from reconciler.allocation.dra.availability import judge
from reconciler.allocation.dra.claim_shapes import spec_key
from reconciler.allocation.dra.copies import Place, Template, places, template_of
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.caches import Cache
from reconciler.state.devices.occupancy.occupancy import Occupancy
from reconciler.state.devices.snapshot.node_subset import NodeSubset
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology

KEPT = 16
"""Specs whose repeats are followed for one topology"""
FIRST, MOST = 2, 256
"""Copies that are placed at once: twice as many after each time that all were asked for"""
LONGEST_REST = 64
"""Claims that are decided alone after other changes made the places worthless several times"""


def repeated(
    claim: ResourceClaim, snapshot: Snapshot, *, nodes: NodeSubset | None = None, steps: int = STEPS
) -> Granted | None:
    """What `allocate` answers for a claim, if it repeats; None if that must be asked.

    The caller counts the devices as held before it asks about the next claim, or the places found ahead are
    dropped. The steps of the answer count its devices only.
    """
    key = spec_key(claim)
    if key is None or (nodes is not None and nodes.order is not snapshot.topology.order):
        return None  # nodes that were chosen before nodes came or went: `allocate` goes by their names
    known = _REPEATS.of(snapshot.topology)
    one = known.get(key)
    if one is None:
        known[key] = _Repeat()
        if len(known) > KEPT:
            known.popitem(last=False)
        return None
    known.move_to_end(key)
    return one.answer(claim, snapshot, nodes, steps)


class _Repeat:
    """The claims of one spec."""

    def __init__(self) -> None:
        self._size = FIRST
        self._prepared: _Prepared | None = None
        self._alone = 0
        """Claims to be decided alone next"""
        self._rest = 1
        """How many after the next failure"""

    def answer(
        self, claim: ResourceClaim, snapshot: Snapshot, nodes: NodeSubset | None, steps: int
    ) -> Granted | None:
        """See `repeated`."""
        prepared = self._prepared
        if prepared is not None and prepared.places:
            place = prepared.next(snapshot, nodes)
            if place is not None:
                return prepared.template.grant(claim, place, snapshot)
            self._failed()
        elif prepared is not None:
            self._prepared = None
            self._size, self._rest = min(2 * self._size, MOST), 1
        if self._alone:
            self._alone -= 1
            return None
        template = template_of(claim, snapshot, steps=steps)
        found = places(template, snapshot, self._size, nodes=nodes) if template is not None else []
        if template is None or not found:
            self._rest = LONGEST_REST
            self._failed()
            return None
        self._prepared = _prepared(template, found[1:], found[0], snapshot, nodes)
        return template.grant(claim, found[0], snapshot)

    def _failed(self) -> None:
        self._prepared, self._size = None, FIRST
        self._alone, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)


@dataclass(slots=True)
class _Prepared:
    """Places of copies that are not asked for yet, and what the state must be for them to be the answers.

    First fit gives the next copy the next place as long as nothing became available since, what the place
    has is available, and what the place before it had is not, nor what that drew. The places on one node do
    not depend on those on others, so a node that must not be used any more is skipped.
    """

    template: Template
    places: deque[Place]
    given: Place
    left: Sequence[Mask]
    """Of each request, (D,): available when the state was looked at last"""
    nodes: NodeSubset | None
    """The nodes that may be used; None for all"""
    classes: Mapping[str, DeviceClass]
    occupancy: tuple[object, int]
    """Trail and serial of that state"""
    most_left: tuple[int, Amounts] | None
    """The counter set that `given` draws from, and what is left of it afterwards; None if it draws nothing.

    While no more is left, a device that did not fit beside the places does not fit now either.
    """

    def next(self, snapshot: Snapshot, nodes: NodeSubset | None) -> Place | None:
        """The place of the next copy. None if it must be decided anew; the places are worthless then."""
        if snapshot.classes is not self.classes or not self._includes(nodes):
            return None
        if not self._follow(snapshot.occupancy, snapshot):
            return None
        if any(snapshot.occupancy.free[rows].any() for rows in self.given.rows):
            return None
        if self.most_left is not None:
            number, most = self.most_left
            if (snapshot.occupancy.left[number] > most).any():
                return None
        while self.places:
            place = self.places.popleft()
            if nodes is not None and not nodes.mask[place.at]:
                self.nodes = nodes  # what is left on this node may be used by nobody else
                continue
            if not all(left[rows].all() for left, rows in zip(self.left, place.rows, strict=True)):
                return None
            self.given, self.most_left = place, _left_after(place, snapshot)
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
    template: Template, found: Sequence[Place], given: Place, snapshot: Snapshot, nodes: NodeSubset | None
) -> _Prepared:
    occupancy = snapshot.occupancy
    return _Prepared(
        template,
        deque(found),
        given,
        [one.mask.copy() for one in template.requests],
        nodes,
        snapshot.classes,
        (occupancy.trail, occupancy.serial),
        _left_after(given, snapshot),
    )


def _left_after(place: Place, snapshot: Snapshot) -> tuple[int, Amounts] | None:
    """See `_Prepared.most_left`. Of a place at most one device draws, and from one set (see `copies`)."""
    fleet = snapshot.fleet
    if fleet.sets.shape[1]:
        for rows in place.rows:
            number = int(fleet.sets[rows[0], 0])
            if number >= 0:
                return number, snapshot.occupancy.left[number] - fleet.table[fleet.draws[rows[0], 0]]
    return None


_REPEATS: Cache[Topology, OrderedDict[bytes, _Repeat]] = Cache(lambda _: OrderedDict())
"""They change with the decisions of one snapshot after the other, so a fork has its own."""
