"""Nominations: for whom devices and room of nodes are held, until when; as JSON; those that count now."""

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import inf
from typing import Annotated, Any, NamedTuple, cast

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from reconciler.api.objects.core import WORKLOAD, Pod, claims_of, controller_of
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.errors import Malformed
from reconciler.state.caches import Forkable


class NomineeKind(StrEnum):
    """What room can be held for."""

    CLAIM = "claim"
    POD = "pod"
    GANG = "gang"
    WORKLOAD = "workload"
    """Something that another component admits, such as a Workload of Kueue"""
    SPECIAL = "special"
    """The claim that kube-scheduler makes for the extended resources of a pod"""
    REPLACEMENT = "replacement"
    """The next pod of a controller, which replaces one that was evicted"""


class Nominee(NamedTuple):
    """For whom room is held."""

    kind: NomineeKind
    key: ObjectKey
    source: str = ""
    """Of a gang: where it is declared; of a replacement: kind and uid of the controller"""

    def __str__(self) -> str:
        if self.kind is NomineeKind.REPLACEMENT:
            return f"the next pod of {self.source.partition(' ')[0]} {self.key}"
        if self.kind is NomineeKind.SPECIAL:
            return f"the extended resources of pod {self.key}"
        return f"{self.kind} {self.key}"


NOBODY: frozenset[Nominee] = frozenset()


class HeldPlace(NamedTuple):
    """What is held on one node."""

    node: str
    devices: tuple[DeviceID, ...] = ()
    """Devices, which may still be in use: nobody else gets them, nor what they draw from counters"""
    room: tuple[tuple[str, int], ...] = ()
    """(resource, amount) that a pod will take, in the units of `state.nodes.demand`"""
    drivers: tuple[str, ...] = ()
    """Drivers of which nobody else gets any device of the node"""


class Nomination(Struct, frozen=True):
    """Room that is held for one nominee."""

    nominee: Nominee
    places: tuple[HeldPlace, ...]
    priority: int
    """Of the nominee, for people. It changes no decision"""
    until: float
    """By the clock of the loop"""
    deadline: str
    """The same by the time of day as RFC 3339, for people"""
    uid: str = ""
    """Of the nominee; a later object of its name is another one. Empty where there is none. Of a replacement:
    that of the pod which it replaces"""

    def __str__(self) -> str:
        return f"{self.nominee} until {self.deadline.partition('T')[2]}"

    @property
    def devices(self) -> tuple[DeviceID, ...]:
        """The devices on all nodes."""
        return tuple(device for place in self.places for device in place.devices)


def devices_of(plans: Iterable[Plan]) -> tuple[DeviceID, ...]:
    """The devices that plans will hold. Admin access holds none (AS-1): others may use them meanwhile."""
    return tuple(device for plan in plans for device in plan.allocation.held)


def of_claim(claim: ObjectKey) -> Nominee:
    """A claim."""
    return Nominee(NomineeKind.CLAIM, claim)


def of_pod(pod: ObjectKey) -> Nominee:
    """A pod."""
    return Nominee(NomineeKind.POD, pod)


def of_special(pod: ObjectKey) -> Nominee:
    """The claim for the extended resources of a pod."""
    return Nominee(NomineeKind.SPECIAL, pod)


def of_gang(gang: GangKey) -> Nominee:
    """A gang."""
    return Nominee(NomineeKind.GANG, ObjectKey(gang.namespace, gang.name), str(gang.source))


def of_workload(key: ObjectKey) -> Nominee:
    """A Workload of Kueue."""
    return Nominee(NomineeKind.WORKLOAD, key)


def of_replacement(namespace: str, controller: OwnerReference) -> Nominee:
    """What replaces a pod of this controller."""
    key = ObjectKey(namespace, controller.name)
    return Nominee(NomineeKind.REPLACEMENT, key, f"{controller.kind} {controller.uid}")


def own_of(pod: Pod) -> frozenset[Nominee]:
    """Everything that room may be held for so that this pod runs: itself, its claims, its gang, its Workload,
    and the next pod of its controller.

    A pod says itself of which Workload of its namespace it is.
    """
    gang, workload = gang_of(pod), pod.metadata.annotations.get(WORKLOAD)
    gangs = [] if gang is None else [of_gang(gang)]
    workloads = [of_workload(ObjectKey(pod.key.namespace, workload))] if workload else []
    controller = controller_of(pod)
    next_pods = [] if controller is None else [of_replacement(pod.key.namespace, controller)]
    own = (of_pod(pod.key), of_special(pod.key), *map(of_claim, claims_of(pod)))
    return frozenset([*own, *gangs, *workloads, *next_pods])


def own_of_all(pods: Iterable[Pod]) -> frozenset[Nominee]:
    """The same for several pods."""
    return NOBODY.union(*map(own_of, pods))


MAX_LENGTH = 2**19
"""Characters of a record: a ConfigMap holds twice as much"""
MAX_NOMINATIONS = 1_000
"""Nominations of one record"""


class Leaving(Struct, frozen=True):
    """A group that is evicted as a whole, from before its first eviction until all have left."""

    nominee: Nominee
    """For whom it leaves"""
    pods: tuple[tuple[ObjectKey, str], ...]
    """With their uids"""
    deadline: str
    """Until when a next leader finishes what was begun, as RFC 3339"""


class Record(NamedTuple):
    """The nominations in a text, without what cannot be read."""

    nominations: tuple[Nomination, ...] = ()
    """They never expire by themselves: `until` is infinite"""
    refused: tuple[Malformed, ...] = ()
    """One for each nomination that is left out"""
    leaving: Leaving | None = None


_Amount = Annotated[int, Meta(ge=0, le=INT64_MAX)]


class _StoredPlace(Struct, omit_defaults=True):
    """A place in a record."""

    node: str
    devices: tuple[DeviceID, ...]
    room: dict[str, _Amount]
    drivers: tuple[str, ...] = ()


class _Stored(Struct):
    """A nomination in a record. The deadline by the clock of the process is left out."""

    nominee: tuple[NomineeKind, str, str, str]
    places: Annotated[tuple[_StoredPlace, ...], Meta(min_length=1)]
    priority: Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
    deadline: str
    uid: str


def as_json(nomination: Nomination) -> dict[str, Any]:
    """A nomination as it is recorded."""
    nominee = nomination.nominee
    stored = _Stored(
        (nominee.kind, *nominee.key, nominee.source),
        tuple(_StoredPlace(at.node, at.devices, dict(at.room), at.drivers) for at in nomination.places),
        nomination.priority,
        nomination.deadline,
        nomination.uid,
    )
    return cast("dict[str, Any]", to_builtins(stored))


def _nomination_of(raw: Any) -> Nomination:
    """What `as_json` wrote; it never expires by itself. Raises ValidationError for anything else."""
    found = convert(raw, _Stored)
    kind, namespace, name, source = found.nominee
    return Nomination(
        nominee=Nominee(kind, ObjectKey(namespace, name), source),
        places=tuple(HeldPlace(at.node, at.devices, (*at.room.items(),), at.drivers) for at in found.places),
        priority=found.priority,
        until=inf,
        deadline=found.deadline,
        uid=found.uid,
    )


def text_of(nominations: Iterable[Nomination]) -> str:
    """A record of them, the first of them if it would be too long. `read_record` reads it."""
    texts: list[str] = []
    length = 0
    for one in nominations:
        text = json.dumps(as_json(one), separators=(",", ":"))
        length += len(text) + 1
        if length > MAX_LENGTH - 2 or len(texts) == MAX_NOMINATIONS:
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def read_record(text: str, source: str) -> Record:
    """The nominations of a record from outside. One that cannot be read is refused alone.

    Raises Malformed, naming `source`, if it is no record.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(source, "", f"is longer than {MAX_LENGTH} characters; empty it")
    try:
        raws = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Malformed(source, "", "must be JSON; empty it") from exc
    if not isinstance(raws, list) or len(raws) > MAX_NOMINATIONS:
        raise Malformed(source, "", f"must be a list of at most {MAX_NOMINATIONS} nominations; empty it")
    found, refused = [], []
    for number, raw in enumerate(raws):
        try:
            found.append(_nomination_of(raw))
        except ValidationError as exc:
            why = f"is not a nomination ({exc}); it is left out"
            refused.append(Malformed(source, f"[{number}]", why))
    return Record(tuple(found), tuple(refused))


class Nominations(Forkable):
    """Changed by the store alone."""

    def __init__(self, known: Iterable[Nomination] = ()) -> None:
        self._known = {one.nominee: one for one in known}
        self.serial = 0
        """Number of changes so far"""

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Nomination]:
        """The oldest first."""
        return iter(tuple(self._known.values()))

    def get(self, nominee: Nominee) -> Nomination | None:
        """What is held for a nominee."""
        return self._known.get(nominee)

    def put(self, nomination: Nomination) -> Nomination | None:
        """Hold room, in place of what is held for the same nominee, which is returned."""
        self.serial += 1
        before = self._known.pop(nomination.nominee, None)
        self._known[nomination.nominee] = nomination
        return before

    def drop(self, nominee: Nominee) -> Nomination | None:
        """Hold nothing for a nominee any more. Returns what was held."""
        found = self._known.pop(nominee, None)
        self.serial += found is not None
        return found

    def besides(self, own: frozenset[Nominee]) -> tuple[Nomination, ...]:
        """The nominations of others."""
        return tuple(one for nominee, one in self._known.items() if nominee not in own)

    def expected(self, own: frozenset[Nominee]) -> HeldPlace | None:
        """Where a pod is to replace one that was evicted, if it is the next one of its controller."""
        for nominee in own:
            if nominee.kind is NomineeKind.REPLACEMENT and (found := self._known.get(nominee)) is not None:
                return found.places[0]
        return None

    def expired(self, now: float) -> tuple[Nomination, ...]:
        """Those whose deadline has passed."""
        return tuple(one for one in self._known.values() if one.until <= now)

    def next_deadline(self) -> float | None:
        """The earliest deadline; None without nominations."""
        return min((one.until for one in self._known.values()), default=None)
