"""What an explanation says, as values. How it is shown is for the command, Events and logs."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.allocation.reasons.kinds import Kind
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Step:
    """One gate of a funnel."""

    kind: Kind
    about: str
    left: int
    """Devices of the fleet that passed this gate and all before it"""
    errors: int = 0
    """Devices on which it failed with an error"""
    detail: str = ""
    """What took the devices away, where there is more to say: who excludes them, which taint"""
    nodes: int | None = None
    """Of gates that look at several devices: nodes where they may be passed; None where none are counted"""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One counter that does not do for a device."""

    counter: str
    set: str
    pool: PoolID
    device: DeviceID
    wanted: Quantity
    left: Quantity
    devices: int
    """Draws for which this counter is short, in sets of the same make; one a device, as a rule"""
    holders: tuple[ObjectKey, ...]
    """Claims that hold something of the set, a few of them"""

    @property
    def short(self) -> Quantity:
        return self.wanted - self.left

    def __str__(self) -> str:
        by = f", held by {', '.join(map(str, self.holders))}" if self.holders else ""
        return f"short {self.short} {self.counter} on {self.set}{by}"


@dataclass(frozen=True, slots=True)
class Failing:
    """An expression, or an amount, that ends in an error."""

    where: str
    device: DeviceID
    expression: str
    """Empty for amounts"""
    problem: str
    devices: int
    """Devices on which it fails"""

    def __str__(self) -> str:
        expression = f" {self.expression}:" if self.expression else ""
        others = f" (and {self.devices - 1} more devices)" if self.devices > 1 else ""
        return f"{self.where}:{expression} device {self.device}: {self.problem}{others}"


@dataclass(frozen=True, slots=True)
class Request:
    """One way to meet one request, and how far the fleet is from that."""

    claim: ObjectKey
    request: str
    """`request` or `request/alternative`"""
    wanted: int | None
    """None is all devices that match"""
    devices: int
    """Of the whole fleet"""
    funnel: tuple[Step, ...]
    smallest: tuple[tuple[str, ...], ...]
    """Sets of gates, as small as can be, which alone leave no node with enough devices; none if none do, an
    empty set if no node has so many devices at all"""
    shortages: tuple[Shortage, ...]
    """Of the devices that reach the gate of counters and fail there"""
    failing: tuple[Failing, ...]
    possible: bool
    """Whether some node has enough devices, each judged on its own"""

    @property
    def left(self) -> int:
        return self.funnel[-1].left if self.funnel else self.devices


@dataclass(frozen=True, slots=True)
class Lack:
    """What one node lacks for one request."""

    claim: ObjectKey
    request: str
    have: int
    wanted: int
    why: tuple[str, ...]
    """What stands against the devices that come closest, one text a device"""

    def __str__(self) -> str:
        head = f"{self.have} of {self.wanted} for request {self.request}"
        return "; ".join((head, *self.why))


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A node that comes close."""

    node: str
    lacks: tuple[Lack, ...]
    """Empty if every request alone could be met there"""
    together: str = ""
    """What could not be met together there"""

    def __str__(self) -> str:
        return f"{self.node}: {'; '.join([*map(str, self.lacks), *filter(None, [self.together])])}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why claims that are decided together can, or cannot, be allocated."""

    claims: tuple[ObjectKey, ...]
    node: str
    """Where they could be allocated now; empty if nowhere"""
    reason: str
    """Of `reasons.REASONS`; empty if they can be allocated"""
    message: str
    remedy: str
    nodes: int
    """Nodes considered"""
    requests: tuple[Request, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    constraints: tuple[str, ...] = ()
    """Attributes whose constraint, if it alone were gone, would let the claims be allocated"""
    preferences: tuple[str, ...] = ()
    """Preferences of joint allocation: without any one of them, the claims could be allocated"""
    conflict: tuple[tuple[ObjectKey, str], ...] = ()
    """Requests of which each subset could be met, but not all of them; as few as found"""

    @property
    def allocatable(self) -> bool:
        return not self.reason

    def short(self) -> str:
        """The nearest miss and the smallest set of gates, in a line."""
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        for request in self.requests:
            if request.smallest:
                few = [" and ".join(names) for names in request.smallest[:2]]
                why = " or ".join(filter(None, few)) or "no node has so many devices at all"
                yield f"request {request.request} is stopped by: {why}"
        if self.constraints:
            yield f"without the constraint on {' or '.join(self.constraints)} it would fit"
        if self.preferences:
            yield f"without {' or '.join(self.preferences)} it would fit"
        if self.conflict:
            yield f"not together: {', '.join(request for _, request in self.conflict)}"
        if self.nearest:
            yield f"nearest miss {self.nearest[0]}"
