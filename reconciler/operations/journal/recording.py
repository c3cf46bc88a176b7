"""Records the inputs of decisions and the decisions, in their order."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from secrets import token_hex

import structlog
from msgspec.structs import replace

from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.allocation.gangs.places import GangNodes
from reconciler.allocation.placement.together import Together
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.changes import Change, Changed, Refused, Replaced
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ApiObject, DeviceID
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.control.decider import Refusal
from reconciler.control.decisions.every import MovesPlanned, RoomPlanned
from reconciler.control.gangs.planner import Solve
from reconciler.control.planner import Decide
from reconciler.control.units import Unit
from reconciler.operations.journal.entries import (
    BEGUN,
    Header,
    Json,
    PolicyUse,
    answered,
    write_change,
    write_decided,
    write_moves_plan,
    write_nomination,
    write_nomination_end,
    write_plan,
    write_retained_draw,
    write_room_plan,
)
from reconciler.operations.journal.files import FILES, FULL_BYTES, Files
from reconciler.operations.journal.gangs import write_gang
from reconciler.operations.journal.policies import RoomWriter, write_policies, write_preferences
from reconciler.state.delta import NOTHING, Delta
from reconciler.state.devices.reach import NodeInfo
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import Nomination, Nominee
from reconciler.state.store import Store

log = structlog.get_logger()

REMEMBERED = 4096
"""Snapshots whose position among the inputs is known"""


class Recorder:
    """The journal of a store. If the disk fails, the journal stops; allocation continues."""

    def __init__(self, folder: Path, header: Header, *, full: int = FULL_BYTES, files: int = FILES) -> None:
        """Keeps `files` files of about `full` bytes. Raises Rejected if the folder is not writable."""
        self.store = RecordedStore(header.rules, self)
        self.header = replace(header, run=token_hex(4))
        self._files: Files | None = Files(folder, self._beginning, full=full, files=files)
        self._folder = folder
        self._parts: list[Callable[[], Iterator[Json]]] = []
        self._policies = PLAIN
        self._room = RoomWriter()

    def add(self, whole: Callable[[], Iterator[Json]]) -> None:
        """Add the part of a plugin: `whole` returns entries that rebuild its state."""
        self._parts.append(whole)

    def use(self, policies: Policies) -> None:
        """Record the policies of the decisions that follow. First fit alone needs no entry."""
        if policies.first_fit or policies == self._policies:
            return
        self._policies = policies
        self.note(write_policies(policies))

    def note_decision(self, entry: Json) -> None:
        """Record a decision of a plugin, before it changes the state."""
        self.note(entry, in_snapshot=False)
        if self._files is not None:
            self._files.flush()

    def note(self, entry: Json, *, in_snapshot: bool = True) -> None:
        """Write an entry. `in_snapshot`: a new snapshot contains it."""
        if self._files is None:
            return
        try:
            self._files.write(entry, in_snapshot=in_snapshot)
        except OSError as exc:
            self._files = None
            log.warning("journal stopped", file=str(self._folder), error=str(exc))

    def decided(self, name: str, unit: Unit, asked: Decide, answer: Granted | Refusal) -> None:
        """Record a decision."""
        if self._files is None:
            return
        behind = self.store.behind(answer.version)
        claims = [claim.key for claim in asked.claims]
        decided = answered(name, str(unit), claims, asked.nodes, answer, behind=behind)
        if isinstance(asked.together, Together):
            decided = replace(decided, together=tuple(asked.together.refused_nodes()))
        if self.store.nominations:
            decided = replace(decided, own=tuple(sorted(asked.own)))
        decided = replace(decided, expected=asked.expected)
        if not asked.policies.first_fit:
            decided = replace(decided, policy=_policy_of(asked, answer))
            if asked.policies.looks_at_pods:
                self._note_room(asked)
        if asked.room is not None:
            wishes = write_preferences(asked.room.preferences, self.store.snapshot().topology.order)
            decided = replace(decided, preferences=wishes)
        self.note(write_decided(decided), in_snapshot=False)
        if self._files is not None:
            self._files.flush()

    def _note_room(self, asked: Decide) -> None:
        order = self.store.snapshot().topology.order
        if asked.room is None or len(asked.room.free) != len(order):
            return
        entry = self._room.entry(dict(zip(order, asked.room.free.tolist(), strict=True)))
        if entry is not None:
            self.note(entry, in_snapshot=False)

    def planned(self, plan: RoomPlanned) -> None:
        """Record a plan to evict pods. It changes nothing by itself."""
        self.note(write_room_plan(plan), in_snapshot=False)
        if self._files is not None:
            self._files.flush()

    def moves_planned(self, plan: MovesPlanned) -> None:
        """Record a plan to move pods. It changes nothing by itself."""
        self.note(write_moves_plan(plan), in_snapshot=False)
        if self._files is not None:
            self._files.flush()

    def placed(
        self, name: str, solve: Solve, answer: GangGranted | GangUnsatisfied, picture: GangNodes | None
    ) -> None:
        """Record a decision about a gang. With a picture, it can be decided again."""
        if self._files is None:
            return
        self.note(write_gang(name, solve, answer, picture), in_snapshot=False)
        if self._files is not None:
            self._files.flush()

    def close(self) -> None:
        """Write all entries and close the file."""
        if self._files is not None:
            try:
                self._files.close()
            except OSError as exc:
                log.warning("journal stopped", file=str(self._folder), error=str(exc))
            self._files = None

    def _beginning(self) -> Iterator[Json]:
        yield self.header.to_json()
        yield from self.store.whole()
        for whole in self._parts:
            yield from whole()
        if not self._policies.first_fit:
            yield write_policies(self._policies)
            yield self._room.whole()
        yield {"t": BEGUN, "inputs": self.store.inputs}


class RecordedStore(Store):
    """A store that records every change in order."""

    def __init__(self, rules: Semantics, journal: Recorder) -> None:
        super().__init__(rules)
        self._journal = journal
        self.inputs = 0
        """Inputs so far"""
        self._taken: OrderedDict[int, int] = OrderedDict()

    def apply(self, change: Change) -> Delta:
        delta = super().apply(change)
        heartbeat = isinstance(change, Changed) and change.kind == "Node" and delta == NOTHING
        if not heartbeat:
            self._write_down(write_change(change))
        return delta

    def assume(self, plan: Plan) -> None:
        super().assume(plan)
        self._write_down(write_plan("assumed", plan))

    def forget(self, plan: Plan) -> Delta:
        delta = super().forget(plan)
        self._write_down(write_plan("forgotten", plan))
        return delta

    def nominate(self, nomination: Nomination) -> Delta:
        delta = super().nominate(nomination)
        self._write_down(write_nomination(nomination))
        return delta

    def end_nomination(self, nominee: Nominee) -> Delta:
        delta = super().end_nomination(nominee)
        self._write_down(write_nomination_end(nominee))
        return delta

    def snapshot_for(self, own: frozenset[Nominee]) -> Snapshot:
        found = super().snapshot_for(own)
        self._take(found)
        return found

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        self._take(found)
        return found

    def _take(self, found: Snapshot) -> None:
        # A change of claims makes no new snapshot, so the last request for the snapshot counts.
        self._taken[found.version] = self.inputs
        if len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)

    def behind(self, version: int) -> int:
        """Inputs since a snapshot was taken; -1 if unknown."""
        taken = self._taken.get(version)
        return -1 if taken is None else self.inputs - taken

    def whole(self) -> Iterator[Json]:
        """Entries that rebuild the store. Retained consumption comes first, because slices need it."""
        for pool in self._retained.pools():
            for name, drawn in self._retained.of(pool).items():
                yield write_retained_draw(DeviceID(*pool, name), drawn)
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
            elsewhere = self.stating_elsewhere if kind == "ResourceSlice" else ()
            yield write_change(Replaced(kind, tuple(objects), refused, stating=elsewhere))
        yield from (write_plan("assumed", plan) for plan in self._assumed.values())
        yield from map(write_nomination, self.nominations)

    def _write_down(self, entry: Json) -> None:
        self.inputs += 1
        self._journal.note(entry)


def _policy_of(asked: Decide, answer: Granted | Refusal) -> PolicyUse:
    policies = asked.policies
    name = answer.policy if isinstance(answer, Granted) else ""
    cores = asked.room.cores if asked.room is not None and policies.looks_at_pods else None
    return PolicyUse(name, policies.seed, policies.demand.digest, cores)


def _node(info: NodeInfo) -> Node:
    """A node with only the fields that decisions use."""
    status = {"declaredFeatures": sorted(info.features)}
    metadata = {"name": info.name, "labels": dict(info.labels)}
    return Node.model_validate({"metadata": metadata, "status": status})
