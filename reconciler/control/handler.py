"""What the loop needs of the handler for a kind of unit, and the steps that a unit may need next."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from msgspec import Struct

from reconciler.allocation.dra.charging import Charging, Companions
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.model import value
from reconciler.control.decisions.allocating import Waits
from reconciler.control.inputs import Outcome
from reconciler.control.units import Unit
from reconciler.control.waiting import Wants
from reconciler.state.devices.snapshot import NodeSubset
from reconciler.state.nominations import NOBODY, HeldPlace, Nominee


class Idle(Struct, frozen=True):
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


Step = Idle | Blocked | Decide | Free | Ungate


class Stuck(Struct, frozen=True):
    """Other objects must change first, normally the unit's own, whose change requeues it."""

    waits: Waits
    counted: tuple[ObjectKey, ...]
    """The objects that count as pending"""
    wants: Wants | None = None
    """Which changes of others wake the unit before its back-off ends; None if only its own objects matter"""


class Act(Struct, frozen=True):
    """A write that needs no devices."""

    write: Callable[[], Awaitable[None]]


class Later(Struct, frozen=True):
    """No decision now. The unit is requeued after so many seconds."""

    after: float = 0.0


class Decided(NamedTuple):
    """The name of a decision, and when it started, by the clock of the loop."""

    name: str
    began: float


class Given(Struct, frozen=True):
    """Devices were found. They are neither assumed nor written yet."""

    outcome: Callable[[], Outcome]
    """For the journal"""
    assume: Callable[[], None]
    """Counts the devices as held before they are written"""
    write: Callable[[Decided], Awaitable[None]]
    """Writes the assumed devices, and reports it. If this raises, devices that were certainly not written are
    free again. Undecided or cancelled: they stay assumed, for `Handler.resolve`"""
    question: Decide | None = None
    """What was asked about claims"""


class Refused(Struct, frozen=True):
    """No devices in the present state of the cluster."""

    outcome: Callable[[], Outcome]
    """For the journal"""
    reason: str
    wants: Wants
    """Which changes wake the unit before its back-off ends"""
    counted: tuple[ObjectKey, ...]
    """The objects that count as pending"""
    waits: Callable[[str], Waits]
    """The refusal as a decision to report, by its name"""
    free: Callable[[str], Awaitable[None]] | None = None
    """Frees allocations that block the rest of the unit, and gets the name; None if there are none"""
    question: Decide | None = None
    """What was asked about claims"""


Answer = Given | Refused | Later | Act | None
"""Act: something must be written first; the unit has another turn then. None: the unit is requeued, or will
be when what works on its answer ends"""


class Ask(Struct, frozen=True):
    """The unit needs devices."""

    decide: Callable[[Iterable[Unit]], Sequence[Answer]]
    """Finds devices in the present state, or says why there are none.

    Gets the units that are decided next. Those that ask for the same may be answered as well, the first ones
    in their order, each as if the devices of those before it were held. `Asked` is noted for those that are
    answered, or that a thread begins to work for.
    """


Needs = Idle | Stuck | Act | Ask
"""What a unit needs now"""


class Handler:
    """Serves units of one kind. Every method may raise the errors of API requests, as may what it returns."""

    async def warm_up(self) -> None:
        """Prepare for the first decision. Every worker calls it first."""

    def close(self) -> None:
        """Stop long searches. No more reconciles start."""

    async def resolve(self, unit: Unit) -> None:
        """Find out whether unanswered writes of a unit were applied, and report those that were.

        On any error, plans of unresolved writes stay assumed.
        """

    def next(self, unit: Unit) -> Needs | None:
        """What the unit needs now. None for a unit that another handler serves."""
        raise NotImplementedError
