"""What the allocator answers: devices for every claim of a request, or a reason why not."""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.objects.claims import Allocation
from reconciler.objects.meta import ObjectKey
from reconciler.objects.value import value


class Reason(StrEnum):
    """Why claims cannot be allocated. The words are stable: they appear in logs, Events and metrics."""

    # Nothing is wrong; there is just no room, or nothing that matches.
    NO_DEVICE = "NoMatchingDevice"
    POOL = "PoolNotReady"
    IN_USE = "DevicesInUse"
    TAINTED = "DevicesTainted"
    CAPACITY = "CapacityExceeded"
    EXCLUDED = "DevicesExcluded"
    COUNTERS = "CountersExhausted"
    CONSTRAINT = "ConstraintUnmet"
    TOGETHER = "RequestsCompete"
    NO_NODE = "NoSuitableNode"
    ALIGNMENT = "AlignmentUnmet"
    PARTITION = "PartitionsTaken"
    GAVE_UP = "SearchGaveUp"

    # Something is wrong: waiting does not help, somebody has to mend it.
    CLASS_NOT_FOUND = "ClassNotFound"
    MISSING_CLASS = "MissingClass"
    FEATURE_DISABLED = "FeatureDisabled"
    UNSUPPORTED_MODE = "UnsupportedMode"
    UNSUPPORTED_SELECTOR = "UnsupportedSelector"
    UNSUPPORTED_CONSTRAINT = "UnsupportedConstraint"
    CEL_COMPILE = "CELCompile"
    CEL_RUNTIME = "CELRuntime"
    TOO_MANY_DEVICES = "TooManyDevices"
    INCOMPLETE_POOL = "IncompletePool"
    INVALID_POOL = "InvalidPool"
    CONSTRAINT_VIOLATED = "ConstraintViolated"
    NODE_SELECTOR = "NodeSelectorInvalid"
    CAPACITY_INVALID = "CapacityInvalid"
    WISH_INVALID = "JointAllocationInvalid"

    @property
    def is_error(self) -> bool:
        """Whether upstream would report an error rather than a plain "does not fit"."""
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
        Reason.TOO_MANY_DEVICES,
        Reason.INCOMPLETE_POOL,
        Reason.INVALID_POOL,
        Reason.CONSTRAINT_VIOLATED,
        Reason.NODE_SELECTOR,
        Reason.CAPACITY_INVALID,
        Reason.WISH_INVALID,
    }
)


@value()
class Plan:
    """Devices for one claim, decided but not yet written."""

    claim: ObjectKey
    uid: str
    resource_version: str
    """Of the claim as it was when the decision was made."""
    node: str
    allocation: Allocation
    """Without `allocationTimestamp`, which the writer sets."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Written into the claim beside the allocation"""


@value()
class Granted:
    """All claims of one decision can be allocated together, for one node."""

    node: str
    plans: tuple[Plan, ...]
    steps: int
    """Devices tried on the way."""
    version: int = field(default=-1, compare=False)
    """Of the picture it was decided from, where somebody noted that"""


@dataclass(frozen=True, slots=True)
class Gate:
    """How many devices one test left over, in the order in which the tests are made."""

    name: str
    left: int


@dataclass(frozen=True, slots=True)
class RequestCount:
    """What the tests left for one request, over all nodes that were considered."""

    claim: ObjectKey
    request: str
    """`request` or `request/alternative`."""
    wanted: int | None
    """Devices asked for; None is "all that match"."""
    gates: tuple[Gate, ...]


@dataclass(frozen=True, slots=True)
class Unsatisfied:
    """No. Why, in one line, and what each test left."""

    claims: tuple[ObjectKey, ...]
    reason: Reason
    message: str
    nodes: int = 0
    """Nodes considered."""
    steps: int = 0
    counts: tuple[RequestCount, ...] = ()
    nodes_refused: tuple[tuple[str, str], ...] = ()
    """Nodes that an error excluded, each with that error; the others were still tried."""
