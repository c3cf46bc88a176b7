"""Records what changes the state of decisions, and the decisions, in their order."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from secrets import token_hex

import structlog
from msgspec.structs import replace

from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.changes import Change, Changed, Recorded, Refused, Removed, Replaced
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, is_same_version_aside
from reconciler.control import inputs
from reconciler.control.intake import Intake
from reconciler.operations.journal.entries import FILES, FULL_BYTES, Files, Header, encode

log = structlog.get_logger()

AGAIN_SECONDS = 60.0
KEPT_BY_STORE = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "Pod", "ResourceClaim")
"""The kinds of which the store has the objects"""


class Recorder:
    """The journal of an intake. If it cannot be written, it stops, and a new file is tried every minute;
    allocation continues.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        *,
        full: int = FULL_BYTES,
        files: int = FILES,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Keeps `files` files of about `full` bytes; `clock` counts seconds until a new attempt. Raises
        Rejected if the folder is not writable.
        """
        self.header = replace(header, run=token_hex(4))
        self._files = Files(folder, full=full, files=files)
        self._folder = folder
        self._clock = clock
        self._again_at: float | None = None
        """Since it could not be written: when to try again. None while it is written"""
        self._plugins: list[Callable[[], Iterable[Recorded]]] = []
        self._policies = PLAIN
        self._others: dict[str, dict[ObjectKey, ApiObject]] = {"Node": {}}
        """Kind -> the newest objects, for kinds of which the store does not have the objects"""

    def add(self, beginning: Callable[[], Iterable[Recorded]]) -> None:
        """Add a plugin. `beginning` returns what made its state, as far as the objects that are there now do
        not say it.
        """
        self._plugins.append(beginning)

    def use(self, policies: Policies) -> None:
        """Record the policies of the decisions that follow."""
        if policies == self._policies:
            return
        self._policies = policies
        if self._files.begun:  # the beginning of a file has them
            self._write(inputs.PoliciesUsed(policies), lambda: ())

    def note(self, what: Recorded, state: Intake) -> None:
        """Record what is about to change `state`, or a decision that is about to have effects."""
        if self._is_heartbeat(what):
            return
        # A file begins with a state, and the answer to a decision belongs to what was before it.
        if self._again_at is None or (
            self._clock() >= self._again_at and not isinstance(what, inputs.Answered)
        ):
            self._write(what, lambda: map(encode, self._beginning(state)))
        if isinstance(what, Change) and what.kind not in KEPT_BY_STORE:
            self._keep(what)

    def close(self) -> None:
        """Write all entries and close the file."""
        try:
            self._files.close()
        except OSError as exc:
            self._stop(exc)

    def _write(self, what: Recorded, beginning: Callable[[], Iterable[bytes]]) -> None:
        try:
            # An answer mostly follows its question: each file can then be replayed alone. Policies change
            # where no state is at hand, with which a file could begin.
            self._files.write(
                encode(what), beginning, with_last=isinstance(what, inputs.Answered | inputs.PoliciesUsed)
            )
            if isinstance(what, inputs.Answered) or self._again_at is not None:
                self._files.flush()
        except (OSError, ValueError) as exc:  # the disk fails, or an object has no JSON
            self._stop(exc)
            return
        if self._again_at is not None:
            self._again_at = None
            log.info("journal resumed", file=str(self._folder))

    def _stop(self, exc: Exception) -> None:
        if self._again_at is None:
            log.warning("journal stopped", file=str(self._folder), error=str(exc))
        self._again_at = self._clock() + AGAIN_SECONDS
        self._files.abandon()

    def _is_heartbeat(self, what: Recorded) -> bool:
        """Whether only the version of a Node differs."""
        if not isinstance(what, Changed) or what.kind != "Node":
            return False
        node, known = what.object, self._others["Node"].get(what.object.key)
        return (
            known is not None
            and is_same_version_aside(known.metadata, node.metadata)
            and known == node.model_copy(update={"metadata": known.metadata})
        )

    def _keep(self, change: Change) -> None:
        known = self._others.setdefault(change.kind, {})
        match change:
            case Changed(object=thing):
                known[thing.key] = thing
            case Removed(key=key) | Refused(key=key):
                known.pop(key, None)
            case Replaced(objects=objects):
                self._others[change.kind] = {thing.key: thing for thing in objects}

    def _beginning(self, state: Intake) -> Iterator[Recorded | Header]:
        """What makes the present state in an empty one. Draws come before the slices of their pools, nodes
        before what plugins add, and objects before what is decided about them.
        """
        store = state.store
        yield self.header
        yield inputs.PoliciesUsed(self._policies)
        for pool in store.retained.pools():
            for name, drawn in store.retained.of(pool).items():
                yield inputs.RetainedDraw(DeviceID(*pool, name), drawn)
        yield from _all("Node", self._others["Node"].values())
        for beginning in self._plugins:
            yield from beginning()
        others = {kind: known.values() for kind, known in self._others.items() if kind != "Node"}
        kept = (
            store.supply.classes.values(),
            store.supply.taint_rules,
            (block.source() for block in store.supply.inventory.all_blocks),
            store.pods.values(),
            store.claims.values(),
        )
        for kind, objects in {**others, **dict(zip(KEPT_BY_STORE, kept, strict=True))}.items():
            yield from _all(kind, objects)
        for (kind, key), why in store.refused.items():
            yield Refused(kind, key, why)
        for name, driver in store.supply.inventory.stating_elsewhere:
            yield Removed("ResourceSlice", ObjectKey("", name), driver)
        yield from map(inputs.Assumed, store.assumptions)
        for pod, node in state.assumed_pods.items():
            yield inputs.PodAssumed(pod, node)
        residents = state.nodes.residents
        gated = frozenset(residents.unbound(gated=True))
        yield from (inputs.PodReleased(pod) for pod in residents.unbound(gated=False) if pod not in gated)
        yield from (inputs.RoomHeld(replace(one, until=0.0)) for one in store.nominations)


def _all(kind: str, objects: Iterable[ApiObject]) -> Iterator[Changed]:
    return (Changed(kind, thing) for thing in objects)
