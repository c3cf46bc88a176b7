"""Finds devices that are allocated together although they exclude one another, and expressions that fail.

Also reports when the groups of a driver are compared in another way while its devices are held. A slice may
be edited while its devices are held, and other allocators may allocate too. Nothing is freed here; operators
must fix it.
"""

from weakref import ref

from reconciler.api.objects.semantics import GroupMode
from reconciler.control.decisions.decision import Report
from reconciler.control.decisions.findings import ExclusionViolated, GroupModeChanged
from reconciler.state.devices.exclusion.group_modes import group_modes, held_of
from reconciler.state.devices.exclusion.modes import conflicts, problems
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot


class ExclusionAudit:
    """Checks snapshots, and reports each finding once."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: frozenset[str] = frozenset()
        self._fleet: ref[Fleet] | None = None
        self._problems: tuple[str, ...] = ()
        self._modes: dict[str, GroupMode] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Check the allocated devices. Costs one comparison if no devices exclude others."""
        if snapshot.fleet.exclusion is None and not self._reported:
            return
        if self._fleet is None or self._fleet() is not snapshot.fleet:
            self._fleet = ref(snapshot.fleet)
            self._problems = tuple(problems(snapshot))
            self._compare_modes(snapshot)
        found = dict.fromkeys(self._problems, ()) | dict(conflicts(snapshot))
        for message in sorted(found.keys() - self._reported):
            self._report(ExclusionViolated(message, found[message]))
        self._reported = frozenset(found)

    def _compare_modes(self, snapshot: Snapshot) -> None:
        for one in group_modes(snapshot):
            before = self._modes.get(one.driver, one.mode)
            self._modes[one.driver] = one.mode
            held = held_of(snapshot, one.driver) if before != one.mode else 0
            if held:
                self._report(GroupModeChanged(one.driver, before, one.mode, held))
