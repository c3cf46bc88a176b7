"""Writes down what the picture is made of and what is decided from it, in the order in which it happens."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import structlog

from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.api.objects.changes import Change, Changed, Refused, Replaced
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject, DeviceID
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.control.decider import Refusal
from reconciler.control.decisions.decisions import Report
from reconciler.control.koordinator.refusing import Refusal as DeviceRefusal
from reconciler.control.koordinator.state import Grant
from reconciler.control.planner import Decide
from reconciler.control.queueing.units import Unit
from reconciler.operations.journal.entries import (
    BEGUN,
    Header,
    Json,
    answered,
    write_change,
    write_decided,
    write_plan,
    write_remembered,
)
from reconciler.operations.journal.files import FILES, FULL_BYTES, Files
from reconciler.operations.journal.machines import RecordedState, write_decision
from reconciler.state.delta import NOTHING, Touched
from reconciler.state.devices.pools.reach import NodeInfo
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.store import Store

log = structlog.get_logger()

REMEMBERED = 4096
"""Pictures of which it is known after which input they were taken."""


class Recorder:
    """A journal of one store. A disk that fails ends the journal, never the work."""

    def __init__(self, folder: Path, header: Header, *, full: int = FULL_BYTES, files: int = FILES) -> None:
        """Keeps so many `files` of about `full` bytes. Raises Rejected if the folder cannot be written to."""
        self.store = RecordedStore(header.rules, self)
        self.header = replace(header, run=token_hex(4))
        self._files: Files | None = Files(folder, self._beginning, full=full, files=files)
        self._folder = folder
        self._picture: RecordedState | None = None

    def machines(self, fleet: Fleet, report: Report) -> RecordedState:
        """The picture of Koordinator's devices, to be written down with the rest."""
        self._picture = RecordedState(fleet, report, self.note)
        return self._picture

    def equipped(
        self, name: str, pod: Pod, suits: Callable[[str], bool], answer: Grant | DeviceRefusal
    ) -> None:
        """Write down a decision about Koordinator's devices, before it changes the picture."""
        if self._files is None or self._picture is None:
            return
        self.note(write_decision(name, pod, self._picture.fleet, suits, answer), told=False)
        if self._files is not None:
            self._files.flush()

    def note(self, entry: Json, *, told: bool = True) -> None:
        """Write an entry. `told`: the picture has it already."""
        if self._files is None:
            return
        try:
            self._files.write(entry, told=told)
        except OSError as exc:
            self._files = None
            log.warning("journal ended", file=str(self._folder), error=str(exc))

    def decided(self, name: str, unit: Unit, asked: Decide, answer: Granted | Refusal) -> None:
        """Write down a decision."""
        if self._files is None:
            return
        behind = self.store.behind(answer.version)
        claims = [claim.key for claim in asked.claims]
        decided = answered(name, str(unit), claims, asked.nodes, answer, behind=behind)
        self.note(write_decided(decided), told=False)
        if self._files is not None:
            self._files.flush()

    def close(self) -> None:
        """Write to the end what there is."""
        if self._files is not None:
            try:
                self._files.close()
            except OSError as exc:
                log.warning("journal ended", file=str(self._folder), error=str(exc))
            self._files = None

    def _beginning(self) -> Iterator[Json]:
        yield self.header.to_json()
        yield from self.store.whole()
        if self._picture is not None:
            yield from self._picture.whole()
        yield {"t": BEGUN, "inputs": self.store.inputs}


class RecordedStore(Store):
    """A store that tells a journal of every change, in order."""

    def __init__(self, rules: Semantics, journal: Recorder) -> None:
        super().__init__(rules)
        self._journal = journal
        self.inputs = 0
        """That came so far"""
        self._taken: OrderedDict[int, int] = OrderedDict()

    def apply(self, change: Change) -> Touched:
        touched = super().apply(change)
        heartbeat = isinstance(change, Changed) and change.kind == "Node" and touched == NOTHING
        if not heartbeat:
            self._write_down(write_change(change))
        return touched

    def assume(self, plan: Plan) -> None:
        super().assume(plan)
        self._write_down(write_plan("assumed", plan))

    def forget(self, plan: Plan) -> Touched:
        touched = super().forget(plan)
        self._write_down(write_plan("forgotten", plan))
        return touched

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        # Claims come without another picture, so the last time that it was asked for is what counts.
        self._taken[found.version] = self.inputs
        if len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)
        return found

    def behind(self, version: int) -> int:
        """How many inputs came since a picture was taken; -1 if that is not known any more."""
        taken = self._taken.get(version)
        return -1 if taken is None else self.inputs - taken

    def whole(self) -> Iterator[Json]:
        """Entries that make the picture from nothing. What is remembered first: slices are read with it."""
        for pool in self._memory.pools():
            for name, drawn in self._memory.of(pool).items():
                yield write_remembered(DeviceID(*pool, name), drawn)
        kinds: dict[str, Iterable[ApiObject]] = {
            "Node": map(_node, self._nodes.values()),
            "DeviceClass": self._classes.values(),
            "DeviceTaintRule": self._taint_rules.values(),
            "ResourceSlice": self.slices,
            "Pod": self.pods.values(),
            "ResourceClaim": self.claims.values(),
        }
        for kind, objects in kinds.items():
            refused = tuple(Refused(of, key, why) for (of, key), why in self.refused.items() if of == kind)
            yield write_change(Replaced(kind, tuple(objects), refused))
        yield from (write_plan("assumed", plan) for plan in self._assumed.values())

    def _write_down(self, entry: Json) -> None:
        self.inputs += 1
        self._journal.note(entry)


def _node(info: NodeInfo) -> Node:
    """What of a node is of any concern to decisions."""
    status = {"declaredFeatures": sorted(info.features)}
    metadata = {"name": info.name, "labels": dict(info.labels)}
    return Node.model_validate({"metadata": metadata, "status": status})
