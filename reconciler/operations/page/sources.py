"""The data of the page, as functions of other parts of the process. None of them waits."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from reconciler.allocation.explanation import Explanation
from reconciler.analysis.explain.explain import explain_briefly
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.control.gangs.planner import GangLine, GangOverview
from reconciler.control.handler import Decide, Step
from reconciler.control.intake import Intake
from reconciler.control.loop import Reconciler
from reconciler.control.relocation.moves import MovesAdvice
from reconciler.control.units import Kind, Unit, gang_unit
from reconciler.control.waiting import Pending
from reconciler.errors import counted
from reconciler.operations.metrics.devices import Capacity
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store

if TYPE_CHECKING:
    from reconciler.operations.page.charts import Index
    from reconciler.operations.page.panels import Recent
    from reconciler.operations.page.parts import Panel, Renderer


class Fact(NamedTuple):
    """A line about the process in the header of the page."""

    name: str
    value: str
    alert: bool = False
    """Whether an operator should look at it"""


class PendingUnit(NamedTuple):
    """A claim, or the claims of a pod, that cannot be allocated now."""

    kind: str
    """claim or pod: the kind of `key`"""
    key: ObjectKey
    claims: tuple[ObjectKey, ...]
    reason: str
    message: str
    """Message of the refusal when the reason last changed"""


class GangEntry(NamedTuple):
    """A gang, and why it is pending; both empty if it is not."""

    line: GangLine
    reason: str
    message: str


class PolicyRow(NamedTuple):
    """What a placement policy would have done in the sampled decisions."""

    name: str
    used: bool
    """Whether claims are decided by it"""
    same: int
    other_devices: int
    other_node: int
    lost: float
    """Places of the demand that its choice costs, the mean of all samples"""


class PlacementView(NamedTuple):
    """The demand in use, and the standing comparison of placement policies."""

    samples: int
    policies: tuple[PolicyRow, ...]
    demand: tuple[tuple[str, float], ...]
    """The most frequent shapes in words, and their parts of all claims"""
    more: int
    """Further shapes"""


class PluginView(Protocol):
    """What a plugin shows of the devices that it serves."""

    def panels(self, sources: "Sources", renderer: "Renderer", index: "Index") -> "Sequence[Panel]":
        """Its panels."""
        ...

    def version(self) -> Hashable:
        """Changes whenever its devices may have changed."""
        ...

    def nodes(self) -> Iterable[str]:
        """Nodes with devices."""
        ...

    def types(self) -> Iterable[str]:
        """Types of devices, which the filter for drivers selects as well."""
        ...

    def pods(self) -> Iterable[ObjectKey]:
        """Pods that hold devices."""
        ...

    def created(self, pod: ObjectKey) -> str:
        """When a pod that requests devices was created; empty if it is not known."""
        ...

    def explain(self, pod: ObjectKey, reason: str) -> Explanation | None:
        """Why a pod is pending; None if it requests no such devices."""
        ...


MOST_HELD = 5
"""Nominations that the header names"""

SPARE = 100
"""Messages kept beyond twice the pending units, before messages of other units are dropped"""


class RefusalMessages:
    """The last refusal message of every pending unit."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._messages: dict[Unit, str] = {}

    def on_decision(self, decision: Decision) -> None:
        """Keep the message of a refusal; ignore other decisions."""
        if not isinstance(decision, Waits) or not (decision.pod or decision.claims or decision.gang):
            return
        gang = decision.gang
        unit = gang_unit(gang) if gang is not None else Unit.of(decision.pod, decision.claims)
        self._messages.pop(unit, None)
        self._messages[unit] = decision.message
        if len(self._messages) > 2 * len(self._pending) + SPARE:
            self._messages = {
                unit: text for unit, text in self._messages.items() if self._pending.reason(unit)
            }

    def of(self, unit: Unit, default: str = "") -> str:
        """The last message about a unit."""
        return self._messages.get(unit, default)


class Sources:
    """All data of the page, from a running reconciler. Before `ready`, only facts are asked for."""

    def __init__(
        self,
        intake: Intake,
        reconciler: Reconciler,
        step: Callable[[Unit], Step],
        plugins: Sequence[PluginView],
        pending: Pending,
        messages: RefusalMessages,
        recent: "Recent",
        capacity: Capacity,
        facts: Sequence[Callable[[], Fact]],
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        placement: Callable[[], PlacementView | None] = lambda: None,
        moves: Callable[[], Sequence[MovesAdvice]] = lambda: (),
    ) -> None:
        """`step` returns the next step of a unit; `plugins` show theirs; `facts` are
        about the process; `clock` counts seconds; `placement` is None if first fit decides all claims;
        `moves` is the standing advice which pods to move, for each goal.
        """
        self._intake = intake
        self._reconciler = reconciler
        self._step = step
        self.plugins = plugins
        self._pending = pending
        self._messages = messages
        self.recent = recent
        self._process_facts = facts
        self._gangs = GangOverview(intake)
        self.capacity = capacity
        self.clock, self.now = clock, now
        self.placement, self.moves = placement, moves

    def ready(self) -> bool:
        """Whether all objects were listed."""
        return self._intake.listed.is_set()

    def snapshot(self) -> Snapshot:
        """The state now. While it is referenced, every change of an allocation copies its columns."""
        return self._intake.store.snapshot()

    def facts(self) -> list[Fact]:
        """About the process, then about the fleet."""
        return [*(fact() for fact in self._process_facts), *self._fleet_facts()]

    def claims(self) -> Iterable[ObjectKey]:
        """All claims."""
        return self._intake.store.claims

    def by_reason(self) -> Mapping[str, int]:
        """Reason -> pending claims."""
        return self._pending.by_reason()

    def gangs(self) -> tuple[Sequence[GangKey], Sequence[GangKey]]:
        """The gangs with gated pods, and the others."""
        return self._gangs.keys()

    def gangs_version(self) -> Hashable:
        """Changes whenever a pod of a gang has changed."""
        return self._intake.gangs.changes

    def _fleet_facts(self) -> Iterator[Fact]:
        intake, reconciler = self._intake, self._reconciler
        if intake.pause.paused:
            yield Fact("Writes", f"paused ({intake.pause.why}); skipped: {intake.pause.held}", alert=True)
        else:
            yield Fact("Writes", "enabled")
        if intake.listed.is_set():
            twice = intake.audit.doubles
            over = int((intake.store.snapshot().occupancy.left < 0).any(axis=1).sum())
            yield Fact("Devices held twice", str(twice), alert=twice > 0)
            yield Fact("Counter sets over-committed", str(over), alert=over > 0)
        if intake.store.nominations:
            yield Fact("Held room", _held_room(intake.store))
        if refused := len(intake.store.refused):
            yield Fact("Invalid objects ignored", str(refused), alert=True)
        if reconciler.failures:
            yield Fact("Failed reconciles (internal errors)", str(reconciler.failures), alert=True)

    def pending_version(self) -> Hashable:
        """Changes whenever the pending claims or their reasons may have changed."""
        return self._pending.changes, *(view.version() for view in self.plugins)

    def devices_of(self, claim: ObjectKey) -> Sequence[DeviceID]:
        """Devices of a claim, also of decided plans that are not written yet; empty for unknown claims."""
        known = self._intake.store.claims.get(claim)
        if known is None:
            return ()
        plan = self._intake.store.assumed(known.metadata.uid)
        allocation = plan.allocation if plan is not None else known.allocation
        if allocation is None:
            return ()
        return [DeviceID(one.driver, one.pool, one.device) for one in allocation.devices.results]

    def pending(self) -> Iterator[PendingUnit]:
        """Pending claims and pods, oldest first."""
        for unit, reason, named in list(self._pending):  # the caller may pause
            message = self._messages.of(unit)
            claims = named
            if unit.kind is Kind.POD and unit.key not in self._intake.store.claims:
                claims = tuple([key for key in named if key != unit.key])  # the pod counts under its own name
            if unit.kind is Kind.GANG:
                claims = tuple([key for key in named if key in self._intake.store.claims])
            yield PendingUnit(str(unit.kind), unit.key, claims, reason, message)

    def created(self, kind: str, key: ObjectKey) -> str:
        """When a claim or pod was created, as the API writes it; empty if it is not known."""
        store = self._intake.store
        known = store.claims.get(key) if kind == "claim" else store.pods.get(key)
        if known is None and kind == "pod":
            return next(filter(None, (view.created(key) for view in self.plugins)), "")
        return (known.metadata.creation_timestamp or "") if known is not None else ""

    def explain(self, unit: Unit) -> Explanation | None:
        """Explain a pending claim or pod, in some milliseconds. None if there is nothing to decide."""
        if not self._intake.listed.is_set():
            return None
        reason = self._pending.reason(unit)
        for view in self.plugins if reason and unit.kind is Kind.POD else ():
            if (about := view.explain(unit.key, reason)) is not None:
                return replace(about, message=self._messages.of(unit, about.message))
        asked = self._step(unit)
        if not isinstance(asked, Decide):
            return None
        found = explain_briefly(asked.claims, self._intake.store.snapshot_for(asked.own), asked.nodes)
        if reason and not found.allocatable:
            found = replace(found, reason=reason, message=self._messages.of(unit, found.message))
        return found

    def gang(self, gang: GangKey) -> GangEntry | None:
        """A gang; None if it is none."""
        line, unit = self._gangs.line(gang), gang_unit(gang)
        if line is None:
            return None
        reason = self._pending.reason(unit) or ""
        return GangEntry(line, reason, self._messages.of(unit) if reason else "")


def _held_room(store: Store) -> str:
    """For whom room is held: `pod default/a until 12:00:00Z (2 devices on n0)`."""
    texts = []
    for one in list(store.nominations)[:MOST_HELD]:
        count, nodes = len(one.devices), ", ".join(dict.fromkeys(place.node for place in one.places))
        texts.append(f"{one} ({counted(count, 'device')} on {nodes})")
    more = len(store.nominations) - len(texts)
    return "; ".join([*texts, *([f"{more} more"] if more > 0 else [])])
