"""What the audit of allocated devices finds."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Counted, Level, Line, Logged
from reconciler.control.decisions.fields import (
    ClaimKeys,
    CounterSet,
    Device,
    Message,
    PodKeys,
    Pool,
)
from reconciler.control.decisions.metric import MetricSpec

FINDINGS = MetricSpec(
    "audit_findings_total",
    "counter",
    "Findings of the audit of allocated devices, each counted once.",
    (("finding", "what was found"),),
)


@dataclass(frozen=True, slots=True)
class HeldTwice(Decision):
    """Two claims hold a device that only one can hold.

    Another writer took part: this process alone never does it.
    """

    LINES: ClassVar = (Line("device held twice", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("held_twice",)),)

    device: Device
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class Overdrawn(Decision):
    """By their annotations, pods hold more of a device than it has.

    Another writer took part: this process alone never does it.
    """

    LINES: ClassVar = (Line("device over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("overdrawn",)),)

    device: Device
    """Type, node and minor"""
    pods: PodKeys


@dataclass(frozen=True, slots=True)
class ExclusionViolated(Decision):
    """Devices that exclude one another are allocated at the same time.

    Also a `compatibleOnlyWith` expression that fails; then no claims are named.
    """

    LINES: ClassVar = (Line("exclusive devices held together", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("at_odds",)),)

    message: Message
    claims: ClaimKeys = ()


@dataclass(frozen=True, slots=True)
class GroupModeChanged(Decision):
    """The compatibility groups of a driver with held devices are compared in another way from now on.

    Its devices now say `compatibleOnlyWith`, or no longer do. Held devices stay held.
    """

    LINES: ClassVar = (Line("group mode changed", Level.WARNING),)

    driver: Annotated[str, Logged("name of the driver")]
    before: Annotated[str, Logged("the group mode until now")]
    after: Annotated[str, Logged("the group mode from now on")]
    held: Annotated[int, Logged("devices of the driver that are held", int)]


@dataclass(frozen=True, slots=True)
class OverCommitted(Decision):
    """Devices consume more of a counter set than it publishes.

    The slice was edited, or another writer took part.
    """

    LINES: ClassVar = (Line("counters over-committed", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("over_committed",)),)

    pool: Pool
    counter_set: CounterSet
    short: Annotated[tuple[tuple[str, str], ...], Logged("counter -> missing amount", dict, write=dict)]
    claims: ClaimKeys


@dataclass(frozen=True, slots=True)
class NoLongerOverCommitted(Decision):
    """A counter set is no longer over-committed, or is gone."""

    LINES: ClassVar = (Line("counters no longer over-committed", Level.INFO),)

    pool: Pool
    counter_set: CounterSet


@dataclass(frozen=True, slots=True)
class Uncharged(Decision):
    """An allocated device consumes counters that its pool no longer publishes; no claim is charged."""

    LINES: ClassVar = (Line("counters of held device no longer published", Level.WARNING),)
    METRICS: ClassVar = (Counted(FINDINGS, ("uncharged",)),)

    device: Device
    counter_set: CounterSet
    counters: Annotated[tuple[str, ...], Logged("names of counters of the set", list, write=list)]
    claims: ClaimKeys
