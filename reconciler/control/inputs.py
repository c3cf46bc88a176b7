"""What a journal records beside the changes of objects: all else that changes the state of decisions, one
value each, and the decisions. Replay does the same again, in the same order.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.changes import Recorded
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.control.units import Unit
from reconciler.state.devices.ledger import Drawn
from reconciler.state.nominations import Nomination, Nominee


class Assumed(Recorded, frozen=True):
    """A decided plan counts as held."""

    plan: Plan


class Forgotten(Recorded, frozen=True):
    """An assumed plan was written, or will not be."""

    plan: Plan


class PodAssumed(Recorded, frozen=True):
    """A pod counts on its decided node."""

    pod: ObjectKey
    node: str


class PodForgotten(Recorded, frozen=True):
    """It does not, unless the pod says so itself."""

    pod: ObjectKey


class PodReleased(Recorded, frozen=True):
    """The gate of a pod is about to be removed."""

    pod: ObjectKey


class RoomHeld(Recorded, frozen=True):
    """Room is held for a nominee."""

    nomination: Nomination


class RoomEnded(Recorded, frozen=True):
    """No room is held for a nominee any more."""

    nominee: Nominee


class PoliciesUsed(Recorded, frozen=True):
    """The placement policies of the decisions that follow."""

    policies: Policies


class RetainedDraw(Recorded, frozen=True):
    """What a held device drew before its slices changed. Only at the beginning of a file."""

    device: DeviceID
    drawn: Drawn


class PluginInput(Recorded, frozen=True):
    """A change of the state of a plugin that is no change of an object."""

    plugin: str
    what: Any


class Planned(Recorded, frozen=True):
    """Pods are, or would be, evicted or moved. It changes nothing by itself."""

    plan: Any
    """A `RoomPlanned` or `MovesPlanned`"""


class Asked(Recorded, frozen=True):
    """Units are decided in the present state, the first ones together. The answers may come much later."""

    units: tuple[Unit, ...]


class Outcome(Struct, frozen=True):
    """An answer in the form that is recorded and compared. Share ids are omitted: they are random."""

    claims: tuple[ObjectKey, ...] = ()
    reason: str = ""
    """Reason of a refusal; empty if there are devices"""
    node: str = ""
    """Of a gang: the nodes of its pods, in order"""
    devices: tuple[tuple[str, ...], ...] = ()
    """For each claim its `request=DRIVER/POOL/DEVICE` in order"""
    policy: str = ""
    """The placement policy that ordered nodes and devices; empty for first fit"""

    @classmethod
    def of(cls, node: str, plans: Iterable[Plan], policy: str = "") -> "Outcome":
        """That of plans."""
        found = {plan.claim: plan.allocation.devices.results for plan in plans}
        texts = [tuple([f"{result.request}={result.id}" for result in results]) for results in found.values()]
        return cls(tuple(found), "", node, tuple(texts), policy)


class Answered(Recorded, frozen=True):
    """The answer to a unit that was asked for."""

    id: str
    unit: Unit
    outcome: Outcome
