"""Pauses of all writes, by the settings or a ConfigMap, and the units that they hold back."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.transport import PauseReasons
from reconciler.control.decisions.allocating import HeldBack, WritesPaused, WritesResumed
from reconciler.control.decisions.declaration import Report
from reconciler.control.units import Kind, Unit

KEY = "pause"
"""In the data of the ConfigMap."""
_NOT_PAUSED = ("", "false")
MOST_SHOWN = 80
"""Characters of its value that are reported."""


class Pause(Struct, eq=False):
    """Reports that writes are paused or enabled, and keeps the units that a pause holds back.

    `put` requeues a unit.
    """

    _reasons: PauseReasons
    _report: Report
    _put: Callable[[Unit], None]
    _held: set[Unit] = set()
    _sharing: set[Unit] = set()
    """Units that left a claim to one that is held"""

    @property
    def paused(self) -> bool:
        return bool(self._reasons)

    @property
    def why(self) -> str:
        """The reasons, for people; empty while writes are enabled."""
        return str(self._reasons)

    @property
    def held(self) -> int:
        """Units that need a write, and are requeued when writes resume."""
        return len(self._held)

    def set(self, source: str, reason: str) -> None:
        """Set the reason of one source; empty to resume. Writes are paused while any source has a reason."""
        before = self.why
        self._reasons.set(source, reason)
        if self.paused and self.why != before:
            self._report(WritesPaused(self.why))
        elif before and not self.paused:
            held, self._held = sorted(self._held), set()
            self._report(WritesResumed(len(held)))
            sharing, self._sharing = sorted(self._sharing.difference(held)), set()
            for unit in (*held, *sharing):
                self._put(unit)

    def check(self) -> None:
        """Raise Paused unless writes are enabled."""
        self._reasons.check()

    def hold(self, unit: Unit, sharing: Iterable[Unit] = ()) -> None:
        """Hold back a unit that needs a write. The units that share a claim with it are requeued with it."""
        if not self._reasons:  # resumed while its request was on its way to the guard
            for one in (unit, *sharing):
                self._put(one)
            return
        self._sharing.update(sharing)
        if unit not in self._held:
            self._held.add(unit)
            self._report(
                HeldBack(
                    unit.key if unit.kind is Kind.CLAIM else None,
                    unit.key if unit.kind is Kind.POD else None,
                    unit.gang if unit.kind is Kind.GANG else None,
                )
            )


class Switch:
    """Follows the ConfigMap that pauses writes. Writes are paused until it is read once."""

    def __init__(self, key: ObjectKey, pause: Pause) -> None:
        self._key = key
        self._pause = pause
        self._set(f"ConfigMap {key} is not read yet")

    def take(self, change: Notice) -> None:
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
        self._set("" if value in _NOT_PAUSED else f"ConfigMap {self._key} says {KEY}: {value[:MOST_SHOWN]}")

    def _set(self, reason: str) -> None:
        self._pause.set("configmap", reason)
