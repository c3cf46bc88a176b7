"""What a unit needs next, as the planner says it."""

from dataclasses import field

from msgspec import Struct

from reconciler.allocation.dra.charging import Charging
from reconciler.allocation.dra.companions import Companions
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.value import value
from reconciler.state.devices.snapshot import NodeSubset
from reconciler.state.nominations import NOBODY, HeldPlace, Nominee


class Nothing(Struct, frozen=True):
    """The unit needs nothing, or another component acts next."""


class Blocked(Struct, frozen=True):
    """The unit's own objects must change first. Their change requeues the unit."""

    claims: tuple[ObjectKey, ...]
    reason: str
    message: str


@value()
class Decide:
    """Find devices for these claims together."""

    claims: tuple[ResourceClaim, ...]
    nodes: NodeSubset | None
    """Nodes that may be used; None for all"""
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the same pod that are allocated already"""
    pod: Pod | None = field(default=None, compare=False)
    """The pod that they are decided for, if any"""
    crowded: bool = False
    """Whether nodes are excluded because of other pods: they use what the pod needs, or keep it away"""
    awaits_pods: bool = False
    """Whether pods that arrive may change that"""
    together: Companions | None = field(default=None, compare=False)
    """The gated pods that share the claims; None if there is only one"""
    policies: Policies = field(default=PLAIN, compare=False)
    """Which nodes and devices to prefer"""
    room: PodRoom | None = field(default=None, compare=False)
    """What policies know of the pod, and what it prefers; None if neither matters"""
    own: frozenset[Nominee] = field(default=NOBODY, compare=False)
    """For whom is decided, if anything is nominated: what is nominated for others is held"""
    expected: HeldPlace | None = field(default=None, compare=False)
    """What is held for the pod because it replaces one that was evicted: it gets this, if it fits there"""
    charging: Charging | None = field(default=None, compare=False)
    """The room of nodes for the pod, if devices take of it"""

    @property
    def special(self) -> bool:
        """Whether the last claim is one that only kube-scheduler can make."""
        return self.claims[-1].is_special


class Free(Struct, frozen=True):
    """A claim holds devices, or our finalizer, that nothing needs."""

    claim: ResourceClaim
    why: str
    rival: ObjectKey | None = None
    """The claim that holds the device by better right, to be read again before anything is freed"""


class Ungate(Struct, frozen=True):
    """All claims of the pod are allocated."""

    pod: Pod
    place: HeldPlace | None = None
    """Where kube-scheduler is to make the claim for its extended resources, if it needs one"""


Step = Nothing | Blocked | Decide | Free | Ungate
