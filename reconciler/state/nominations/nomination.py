"""What a nomination says: for whom devices and room of nodes are held, and until when."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from reconciler.api.objects.core import WORKLOAD, Pod, claims_of, controller_of
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.api.objects.plan import Plan


class NomineeKind(StrEnum):
    """What room can be held for."""

    CLAIM = "claim"
    POD = "pod"
    GANG = "gang"
    WORKLOAD = "workload"
    """Something that another component admits, such as a Workload of Kueue"""
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
        return f"{self.kind} {self.key}"


NOBODY: frozenset[Nominee] = frozenset()


class HeldPlace(NamedTuple):
    """What is held on one node."""

    node: str
    devices: tuple[DeviceID, ...] = ()
    """Devices, which may still be in use: nobody else gets them, nor what they draw from counters"""
    room: tuple[tuple[str, int], ...] = ()
    """(resource, amount) that a pod will take, in the units of `state.nodes.demand`"""


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
    results = (result for plan in plans for result in plan.allocation.devices.results)
    return tuple(result.id for result in results if not result.admin_access)


def of_claim(claim: ObjectKey) -> Nominee:
    """A claim."""
    return Nominee(NomineeKind.CLAIM, claim)


def of_pod(pod: ObjectKey) -> Nominee:
    """A pod."""
    return Nominee(NomineeKind.POD, pod)


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
    return frozenset([of_pod(pod.key), *map(of_claim, claims_of(pod)), *gangs, *workloads, *next_pods])


def own_of_all(pods: Iterable[Pod]) -> frozenset[Nominee]:
    """The same for several pods."""
    return NOBODY.union(*map(own_of, pods))
