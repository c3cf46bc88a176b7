"""How many pods of some sets fit together: the question and the answer as values, and the answer as JSON."""

from collections import Counter
from typing import Any

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey

UNLIKE_PODS = "fit "
"""No pod on a server has such a name"""


class PodSet(Struct, frozen=True):
    """A number of equal pods."""

    name: str
    """Unique in its question"""
    count: int
    least: int
    """If fewer fit, none is placed"""
    pod: Pod
    """One of them; it names no node, and its name starts with `UNLIKE_PODS`"""
    claims: tuple[ResourceClaim, ...]
    """Made from templates for this pod, in its order; each pod has its own"""
    named: tuple[ObjectKey, ...] = ()
    """Existing claims that all pods of the set use"""
    tiers: tuple[Tier, ...] = ()
    """What all pods of the set share, the tightest first"""


class FitQuestion(Struct, frozen=True):
    """Sets of pods, placed in this order; each keeps what it takes."""

    sets: tuple[PodSet, ...]
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold nothing, and pods that are assumed to be gone"""
    without_nodes: frozenset[str] = frozenset()
    """Nodes that are assumed to be gone, with their devices"""


def pod_of(asked: PodSet, number: int) -> Pod:
    """One of the pods."""
    metadata = asked.pod.metadata.model_copy(update={"name": f"{asked.pod.key.name} {number}"})
    return asked.pod.model_copy(update={"metadata": metadata})


def own_claims_of(asked: PodSet, number: int) -> tuple[ResourceClaim, ...]:
    """Its own claims."""
    return tuple(
        claim.model_copy(
            update={"metadata": claim.metadata.model_copy(update={"uid": uid_of(asked, number, at)})}
        )
        for at, claim in enumerate(asked.claims)
    )


def uid_of(asked: PodSet, number: int, at: int) -> str:
    """The uid of one of its claims."""
    return f"fit {asked.name} {number} {at}"


class Seat(Struct, frozen=True):
    """A place for one pod."""

    node: str
    devices: tuple[DeviceID, ...]
    """For its own claims, in their order"""


class Short(Struct, frozen=True):
    """Why a set does not fit as a whole."""

    reason: str
    """An identifier of `reasons`"""
    message: str
    lacks: tuple[tuple[str, int], ...] = ()
    """What is short for the whole set in the best domain, with amounts"""


class SetFit(Struct, frozen=True):
    """One set of pods."""

    name: str
    count: int
    seats: tuple[Seat, ...]
    """At most `count`; none if fewer fit than the set needs at least"""
    domain: tuple[tuple[str, str], ...] = ()
    """The tiers that are met, each with the value that all seats share"""
    short: Short | None = None
    """None if all fit"""

    @property
    def fits(self) -> int:
        """How many pods fit."""
        return len(self.seats)


class Fit(Struct, frozen=True):
    """The whole answer. All seats are possible at the same time."""

    sets: tuple[SetFit, ...]

    @property
    def all_fit(self) -> bool:
        """Whether each set fits as a whole."""
        return all(one.short is None for one in self.sets)


def as_json(result: Fit) -> dict[str, Any]:
    """The whole answer."""
    return {"fits": result.all_fit, "podSets": [_set(one) for one in result.sets]}


def _set(one: SetFit) -> dict[str, Any]:
    nodes = Counter(seat.node for seat in one.seats)
    return {
        "name": one.name,
        "count": one.count,
        "fits": one.fits,
        "nodes": [{"node": node, "pods": pods} for node, pods in sorted(nodes.items())],
        "domain": dict(one.domain),
        "short": _short(one.short) if one.short is not None else None,
    }


def _short(short: Short) -> dict[str, Any]:
    return {
        "reason": str(short.reason),
        "message": short.message,
        "lacks": [{"what": what, "amount": amount} for what, amount in short.lacks],
    }
