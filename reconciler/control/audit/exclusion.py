"""Devices that are held side by side though they exclude one another, and expressions that fail.

A slice may be edited while its devices are held, and others may allocate too. Nothing is undone here;
somebody has to look.
"""

from weakref import ref

from reconciler.control.decisions.decisions import ExclusionViolated, Report
from reconciler.state.devices.exclusion.modes import conflicts, problems
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot


class ExclusionAudit:
    """Looks at every picture from which something is decided, and tells of each oddity once."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told: frozenset[str] = frozenset()
        self._fleet: ref[Fleet] | None = None
        self._problems: tuple[str, ...] = ()

    def look(self, snapshot: Snapshot) -> None:
        """Check what is held. Costs a comparison where nothing is at odds."""
        if snapshot.fleet.exclusion is None and not self._told:
            return
        if self._fleet is None or self._fleet() is not snapshot.fleet:
            self._fleet = ref(snapshot.fleet)
            self._problems = tuple(problems(snapshot))
        found = frozenset((*self._problems, *conflicts(snapshot)))
        for message in sorted(found - self._told):
            self._report(ExclusionViolated(message))
        self._told = found
