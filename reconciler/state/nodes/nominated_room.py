"""CPU, memory and other amounts of nodes that are held for what is nominated."""

from collections.abc import Container
from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.nodes.room import Charge, Room
from reconciler.state.nominations.nomination import Nomination, Nominee, own_of


class _Held(NamedTuple):
    holder: str
    """For people: for whom it is held, and until when"""
    charges: tuple[ObjectKey, ...]


class NominatedRoom:
    """Charges the room of nodes for those who are nominated. False if they hold devices only."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held: dict[Nominee, _Held] = {}

    def fork(self, room: Room) -> "NominatedRoom":
        """The same over a fork of the room."""
        other = NominatedRoom(room)
        other._held = dict(self._held)
        return other

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, nomination: Nomination) -> bool:
        """Hold the room of a nomination, in place of what is held for the same nominee. Returns whether a
        node has more room now.
        """
        roomier = self.end(nomination.nominee)
        keys = []
        for at, place in enumerate(nomination.places):
            if place.room:
                who = f"{nomination.nominee} {nomination.nominee.source} {at}"
                keys.append(ObjectKey("", who))  # no pod is without a namespace
                roomier |= self._room.charge(keys[-1], Charge(place.node, dict(place.room)))
        if keys:
            self._held[nomination.nominee] = _Held(str(nomination), tuple(keys))
        return roomier

    def end(self, nominee: Nominee) -> bool:
        """Hold no room for a nominee any more. Returns whether a node has more room now."""
        roomier = False
        held = self._held.pop(nominee, None)
        for key in held.charges if held is not None else ():
            roomier |= self._room.charge(key, None)
        return roomier

    def charges_of(self, own: frozenset[Nominee]) -> tuple[ObjectKey, ...]:
        """The charges that hold room for some nominees."""
        held = [self._held[nominee] for nominee in own if nominee in self._held] if self._held else ()
        return tuple(key for one in held for key in one.charges)

    def charges_of_pod(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """The charges that hold room for a pod."""
        return self.charges_of(own_of(pod)) if self._held else ()

    def charges(self) -> tuple[ObjectKey, ...]:
        """All charges that hold room."""
        return tuple(key for held in self._held.values() for key in held.charges)

    def holders(self, resource: str, names: Container[str], *, but: Container[ObjectKey]) -> list[str]:
        """For whom a resource of some nodes is held, and until when, without the charges `but`."""

        def counts(key: ObjectKey) -> bool:
            charge = self._room.charged(key) if key not in but else None
            return charge is not None and charge.node in names and charge.amounts.get(resource, 0) > 0

        return [held.holder for held in self._held.values() if any(map(counts, held.charges))]
