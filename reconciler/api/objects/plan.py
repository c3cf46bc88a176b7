"""The result of the allocator: devices for every claim of a request, or the reason why there are none."""

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.model import value


class Reason(StrEnum):
    """Why claims cannot be allocated. The values are stable: they appear in logs, Events and metrics."""

    # The claims are valid, but no device is free or none matches.
    NO_DEVICE = "NoMatchingDevice"
    GATE_OFF = "FeatureGateOff"
    POOL = "PoolNotReady"
    IN_USE = "DevicesInUse"
    TAINTED = "DevicesTainted"
    CAPACITY = "CapacityExceeded"
    EXCLUDED = "DevicesExcluded"
    COUNTERS = "CountersExhausted"
    CONSTRAINT = "ConstraintUnmet"
    TOGETHER = "RequestsCompete"
    NODE_ROOM = "NodeResourcesExceeded"
    NO_NODE = "NoSuitableNode"
    NO_NODES = "NoNode"
    ALIGNMENT = "AlignmentUnmet"
    PARTITION = "PartitionsTaken"
    PODS_COMPETE = "PodsCompete"
    NEVER = "NeverFits"
    GAVE_UP = "SearchGaveUp"

    # A configuration error: waiting does not help, a user has to fix it.
    CLASS_NOT_FOUND = "ClassNotFound"
    MISSING_CLASS = "MissingClass"
    FEATURE_DISABLED = "FeatureDisabled"
    UNSUPPORTED_MODE = "UnsupportedMode"
    UNSUPPORTED_SELECTOR = "UnsupportedSelector"
    UNSUPPORTED_CONSTRAINT = "UnsupportedConstraint"
    CEL_COMPILE = "CELCompile"
    CEL_RUNTIME = "CELRuntime"
    DERIVED_ATTRIBUTE = "DerivedAttributeFails"
    TOO_MANY_DEVICES = "TooManyDevices"
    INCOMPLETE_POOL = "IncompletePool"
    INVALID_POOL = "InvalidPool"
    CONSTRAINT_VIOLATED = "ConstraintViolated"
    NODE_SELECTOR = "NodeSelectorInvalid"
    CAPACITY_INVALID = "CapacityInvalid"
    PREFERENCES_INVALID = "JointAllocationInvalid"

    @property
    def is_error(self) -> bool:
        """Whether kube-scheduler would report an error instead of "does not fit"."""
        return self in _ERRORS


_ERRORS = frozenset(
    {
        Reason.CLASS_NOT_FOUND,
        Reason.MISSING_CLASS,
        Reason.FEATURE_DISABLED,
        Reason.UNSUPPORTED_MODE,
        Reason.UNSUPPORTED_SELECTOR,
        Reason.UNSUPPORTED_CONSTRAINT,
        Reason.CEL_COMPILE,
        Reason.CEL_RUNTIME,
        Reason.DERIVED_ATTRIBUTE,
        Reason.TOO_MANY_DEVICES,
        Reason.INCOMPLETE_POOL,
        Reason.INVALID_POOL,
        Reason.CONSTRAINT_VIOLATED,
        Reason.NODE_SELECTOR,
        Reason.CAPACITY_INVALID,
        Reason.PREFERENCES_INVALID,
    }
)


@value()
class Plan:
    """Devices for one claim, decided but not yet written."""

    claim: ObjectKey
    uid: str
    resource_version: str
    """Of the claim at the time of the decision."""
    node: str
    allocation: Allocation
    """Without `allocationTimestamp`, which the writer sets."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Written into the claim together with the allocation"""
    plain: tuple[DeviceID, ...] = field(default=(), init=False, compare=False, repr=False)
    """All its devices, if each belongs to `node` and is held exclusively, and that is known without the
    allocation; otherwise empty"""


class LaterPlan(Plan):
    """A plan whose allocation is made when it is first read, as late as when it is written. It equals a plan
    that has the same allocation from the start.

    A class of its own: where `__getattr__` is defined, every attribute takes longer to read.
    """

    __slots__ = ("_make",)

    @classmethod
    def of(
        cls,
        claim: ObjectKey,
        uid: str,
        resource_version: str,
        node: str,
        plain: tuple[DeviceID, ...],
        make: Callable[..., Allocation],
        *of: object,
    ) -> "LaterPlan":
        """`plain` is that of `Plan`. `make` makes the allocation of what follows; it has no effects and
        cannot fail, and threads may call it at once.
        """
        made: Any = cls.__new__(cls)
        made.claim, made.uid, made.resource_version, made.node = claim, uid, resource_version, node
        made.annotations, made.plain, made._make = (), plain, (make, of)
        plan: LaterPlan = made
        return plan

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and _compared(self) == _compared(other)

    __hash__ = Plan.__hash__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Allocation:
            """Make the allocation: only called while there is none."""
            if name != "allocation":
                raise AttributeError(name)
            if (later := self._make) is not None:
                make, of = later
                self.allocation = make(*of)
                self._make = None
            return self.allocation


_compared = attrgetter("claim", "uid", "resource_version", "node", "allocation", "annotations")


@value()
class Granted:
    """All claims of one decision can be allocated together on one node."""

    node: str
    plans: tuple[Plan, ...]
    steps: int
    """Devices that the search tried."""
    policy: str = field(default="", compare=False)
    """The placement policy that ordered nodes and devices; empty for first fit"""


class Gate(Struct, frozen=True):
    """How many devices pass one test and all tests before it."""

    name: str
    left: int


class RequestCount(Struct, frozen=True):
    """How many devices pass each test for one request, over all nodes that were considered."""

    claim: ObjectKey
    request: str
    """`request` or `request/alternative`."""
    wanted: int | None
    """Devices that the request needs; None is "all that match"."""
    gates: tuple[Gate, ...]


class Unsatisfied(Struct, frozen=True):
    """The claims cannot be allocated. The reason in one line, and how many devices pass each test."""

    claims: tuple[ObjectKey, ...]
    reason: Reason
    message: str
    nodes: int = 0
    """Nodes considered."""
    steps: int = 0
    counts: tuple[RequestCount, ...] = ()
    nodes_refused: tuple[tuple[str, str], ...] = ()
    """Nodes that failed with an error, each with its error; the other nodes were still tried."""
    gave_up_on: str | None = None
    """The first node on which the search gave up"""
