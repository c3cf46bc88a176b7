"""Stops all writes, at once, and takes up again what was held back."""

from collections.abc import Callable

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.pause_reasons import PauseReasons
from reconciler.control.decisions.decisions import HeldBack, Report, WritesPaused, WritesResumed
from reconciler.control.queueing.units import Kind, Unit

KEY = "pause"
"""In the data of the ConfigMap."""
_GO_ON = ("", "false")
MOST_SHOWN = 80
"""Characters of what it says that are told."""


class Pause:
    """Reports that writes are paused or enabled, and keeps the units that were held back meanwhile."""

    def __init__(self, reasons: PauseReasons, report: Report, put: Callable[[Unit], None]) -> None:
        """`put` gives a unit another turn."""
        self._reasons = reasons
        self._report = report
        self._put = put
        self._held: set[Unit] = set()

    @property
    def paused(self) -> bool:
        return bool(self._reasons)

    @property
    def why(self) -> str:
        """The reasons, for people; empty while writes are enabled."""
        return str(self._reasons)

    @property
    def held(self) -> int:
        """Units that would have written something, and get their turn afterwards."""
        return len(self._held)

    def set(self, source: str, reason: str) -> None:
        """Let one source ask for a pause, or with an empty reason for none. Any that asks is enough."""
        before = self.why
        self._reasons.set(source, reason)
        if self.paused and self.why != before:
            self._report(WritesPaused(self.why))
        elif before and not self.paused:
            held, self._held = sorted(self._held), set()
            self._report(WritesResumed(len(held)))
            for unit in held:
                self._put(unit)

    def check(self) -> None:
        """Raise Paused unless writes are enabled."""
        self._reasons.check()

    def hold(self, unit: Unit) -> None:
        """The unit would have written something."""
        if not self._reasons:  # resumed while its request was on the way to the door
            self._put(unit)
        elif unit not in self._held:
            self._held.add(unit)
            of_pod = unit.kind is Kind.POD
            self._report(HeldBack(None if of_pod else unit.key, unit.key if of_pod else None))


class Switch:
    """Follows the one ConfigMap that can pause us. Until it was read once, nothing is written."""

    def __init__(self, key: ObjectKey, pause: Pause) -> None:
        self._key = key
        self._pause = pause
        self._set(f"ConfigMap {key} was not read yet")

    def take(self, change: Change) -> None:
        """The sink of the watch on that ConfigMap."""
        match change:
            case Changed(object=ConfigMap() as found) if found.key == self._key:
                self._read(found)
            case Replaced(objects=objects, refused=refused):
                there = [thing for thing in objects if thing.key == self._key]
                if there and isinstance(there[0], ConfigMap):
                    self._read(there[0])
                else:
                    self._set(f"ConfigMap {self._key} cannot be read" if refused else "")
            case Removed(key=key) if key == self._key:
                self._set("")
            case Refused(key=key) if key == self._key:
                self._set(f"ConfigMap {key} cannot be read")

    def _read(self, found: ConfigMap) -> None:
        value = found.data.get(KEY, "").strip().lower()
        self._set("" if value in _GO_ON else f"ConfigMap {self._key} says {KEY}: {value[:MOST_SHOWN]}")

    def _set(self, reason: str) -> None:
        self._pause.set("configmap", reason)
