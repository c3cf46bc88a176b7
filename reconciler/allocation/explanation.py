"""Explanations as values. The command, the status page, Events and logs present them."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import Quantity
from reconciler.errors import counted


class Kind(StrEnum):
    """What a gate tests. The first ten test single devices."""

    CLASS = "class"
    SELECTOR = "selector"
    FEATURE = "feature"
    POOL = "pool"
    TAINTS = "taints"
    HELD = "held"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    GROUPS = "groups"
    NODES = "nodes"

    # These test several devices at once.
    ENOUGH = "enough"
    CONSTRAINT = "constraint"
    TOGETHER = "together"
    ALIGNMENT = "alignment"
    PARTITION = "partition"


class Section(StrEnum):
    """The sections of the page of reasons, by what resolves a reason."""

    WAIT = "resolved when devices are freed or added"
    CLAIM = "fix the claim"
    FLEET = "fix slices, classes or nodes"
    KOORDINATOR = "pods that request Koordinator devices"


class Advice(NamedTuple):
    """A row of the table."""

    meaning: str
    remedy: str
    section: Section


MOST_SHORTAGES = 5
"""Counters that are told of one request"""


class Step(Struct, frozen=True):
    """One gate of a funnel."""

    kind: Kind
    about: str
    left: int
    """Devices of the fleet that pass this gate and all earlier gates"""
    errors: int = 0
    """Devices on which the gate fails with an error"""
    detail: str = ""
    """Why devices are stopped, for example the missing counter; may be empty"""
    nodes: int | None = None
    """For gates on several devices: the number of nodes that can pass; None if nodes are not counted"""


class Shortage(Struct, frozen=True):
    """A counter with less left than a device needs."""

    counter: str
    set: str
    pool: PoolID
    device: DeviceID
    wanted: Quantity
    left: Quantity
    devices: int
    """Draws for which this counter is short, in sets with the same counters; usually one per device"""
    holders: tuple[ObjectKey, ...]
    """Some of the claims that hold parts of the set"""
    by_request: bool
    """Whether the request says how much the device draws, a preview"""

    @property
    def short(self) -> Quantity:
        return self.wanted - self.left

    @property
    def named(self) -> str:
        return f"{self.counter} (preview)" if self.by_request else self.counter

    def __str__(self) -> str:
        by = f" (held by {', '.join(map(str, self.holders))})" if self.holders else ""
        return f"counter set {self.set} is short of {self.short} {self.named}{by}"


class JointShortage(Struct, frozen=True):
    """A counter with less left than devices need that would otherwise be allocated together."""

    counter: str
    set: str
    pool: PoolID
    node: str
    wanted: Quantity
    """What the devices draw together"""
    left: Quantity
    holders: tuple[ObjectKey, ...]
    """Some of the claims that hold parts of the set"""

    def __str__(self) -> str:
        by = f", held by {', '.join(map(str, self.holders))}" if self.holders else ""
        where = f"set {self.set} in {self.pool}{f' on node {self.node}' if self.node else ''}"
        return f"counter {self.counter} of {where}: together they need {self.wanted}, {self.left} free{by}"


class Failing(Struct, frozen=True):
    """An expression or amount that fails with an error."""

    where: str
    device: DeviceID
    expression: str
    """Empty for amounts"""
    problem: str
    devices: int
    """Devices on which it fails"""

    def __str__(self) -> str:
        expression = f" {self.expression}:" if self.expression else ""
        more = self.devices - 1
        others = f" (and on {counted(more, 'more device')})" if more else ""
        return f"{self.where}:{expression} device {self.device}: {self.problem}{others}"


class Request(Struct, frozen=True):
    """One alternative of one request, and what stops it."""

    claim: ObjectKey
    request: str
    """`request` or `request/alternative`"""
    wanted: int | None
    """None means all matching devices"""
    devices: int
    """Number of devices in the fleet"""
    funnel: tuple[Step, ...]
    smallest: tuple[tuple[str, ...], ...]
    """The smallest sets of gates that alone leave no node with enough devices. Empty if no set does; one
    empty set if no node has enough devices even without gates"""
    shortages: tuple[Shortage, ...]
    """For the devices that reach the counters gate and fail there"""
    failing: tuple[Failing, ...]
    possible: bool
    """Whether some node has enough devices, if each device is tested alone"""
    ignored: tuple[str, ...] = ()
    """Fields of matching devices that are ignored, since their feature gate is off"""

    @property
    def left(self) -> int:
        return self.funnel[-1].left if self.funnel else self.devices

    def sentences(self) -> Iterator[str]:
        """What stops it: gates, counters that are short, and errors, without capitals and periods."""
        for names in self.smallest:
            gates = " and ".join(f'"{name}"' for name in names)
            yield f"too few devices pass {gates}" if gates else "no node has this many devices"
        for short in self.shortages[:MOST_SHORTAGES]:
            best = f" (the best of {short.devices} devices)" if short.devices > 1 else ""
            holders = f"; held by {', '.join(map(str, short.holders))}" if short.holders else ""
            yield (
                f"counter {short.named} of set {short.set} in {short.pool} is short by {short.short}: "
                f"{short.device.device} needs {short.wanted}, {short.left} free{best}{holders}"
            )
        more = len(self.shortages) - MOST_SHORTAGES
        if more > 0:
            yield f"and {counted(more, 'more counter')} short"
        yield from (f"error: {failing}" for failing in self.failing)
        yield from self.ignored


class Lack(Struct, frozen=True):
    """The devices that one node lacks for one request."""

    claim: ObjectKey
    request: str
    have: int
    wanted: int
    why: tuple[str, ...]
    """Why the closest devices fail, one text per device"""

    def __str__(self) -> str:
        head = f"{self.have} of {self.wanted} for request {self.request}"
        return "; ".join((head, *self.why))


class NearMiss(Struct, frozen=True):
    """A node that almost fits."""

    node: str
    lacks: tuple[Lack, ...]
    """Empty if each request alone fits on the node"""
    together: str = ""
    """What does not fit together on the node"""

    def __str__(self) -> str:
        return f"{self.node}: {'; '.join([*map(str, self.lacks), *filter(None, [self.together])])}"


class Explanation(Struct, frozen=True):
    """Why claims that are allocated together can or cannot be allocated."""

    claims: tuple[ObjectKey, ...]
    node: str
    """Where they can be allocated now; empty if nowhere"""
    reason: str
    """A key of `reasons.REASONS`; empty if the claims can be allocated"""
    message: str
    remedy: str
    nodes: int
    """Number of considered nodes"""
    requests: tuple[Request, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    constraints: tuple[str, ...] = ()
    """Attributes of constraints: without any one of these constraints the claims can be allocated"""
    preferences: tuple[str, ...] = ()
    """Joint allocation requirements: without any one of them the claims can be allocated"""
    conflict: tuple[tuple[ObjectKey, str], ...] = ()
    """A minimal set of requests that cannot be allocated together"""
    conflicting: tuple[tuple[ObjectKey, str], ...] = ()
    """Constraints that belong to this set: the claim, and `distinct d/gpu`"""
    pod: ObjectKey | None = None
    """The pod that requests devices of a plugin; None for claims"""
    deciding: tuple[JointShortage, ...] = ()
    """Without the limits of these counters, the requests in `conflict` can be allocated together"""

    @property
    def allocatable(self) -> bool:
        return not self.reason

    def short(self) -> str:
        """The smallest sets of gates and the nearest miss, in one line."""
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        for request in self.requests:
            if request.smallest == ((),):
                yield f"request {request.request}: no node has this many devices"
            elif request.smallest:
                sets = " or by ".join(" and ".join(names) for names in request.smallest[:2])
                yield f"request {request.request} is blocked by {sets}"
        if self.constraints:
            yield f"fits without the constraint on {' or '.join(self.constraints)}"
        if self.preferences:
            yield f"fits without {' or '.join(self.preferences)}"
        if self.conflict:
            parts = (*self.conflict, *self.conflicting)
            yield f"these cannot hold together: {', '.join(text for _, text in parts)}"
        yield from (f"decided by {short}" for short in self.deciding)
        if self.nearest:
            yield f"nearest miss {self.nearest[0]}"
