"""Finds devices that are allocated together although they exclude one another, and expressions that fail.

A slice may be edited while its devices are held, and other allocators may allocate too. Nothing is freed
here; operators must fix it.
"""

from weakref import ref

from reconciler.control.decisions.decisions import ExclusionViolated, Report
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

    def check(self, snapshot: Snapshot) -> None:
        """Check the allocated devices. Costs one comparison if no devices exclude others."""
        if snapshot.fleet.exclusion is None and not self._reported:
            return
        if self._fleet is None or self._fleet() is not snapshot.fleet:
            self._fleet = ref(snapshot.fleet)
            self._problems = tuple(problems(snapshot))
        found = dict.fromkeys(self._problems, ()) | dict(conflicts(snapshot))
        for message in sorted(found.keys() - self._reported):
            self._report(ExclusionViolated(message, found[message]))
        self._reported = frozenset(found)
