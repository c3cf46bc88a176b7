"""Makes the decisions of a journal again and compares them, without cluster and clock."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kernels.types import Mask
from reconciler.allocation.placement.placing import among
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.plugins import PLUGINS
from reconciler.control.decider import Decider
from reconciler.control.planner import Decide
from reconciler.errors import Rejected
from reconciler.operations.journal import entries as entries_of
from reconciler.operations.journal import gangs, policies
from reconciler.operations.journal.entries import (
    BEGUN,
    Decided,
    Header,
    NodeSets,
    answered,
    own_of_entry,
    read_change,
    read_decided,
    read_header,
    read_plan,
    read_retained_draw,
)
from reconciler.operations.journal.files import entries, paths
from reconciler.operations.journal.policies import read_preferences
from reconciler.state.devices.retained_draws import Drawn
from reconciler.state.devices.snapshot import Snapshot, Topology
from reconciler.state.nominations import Nominee, nomination_of, nominee_of
from reconciler.state.store import Store

Moment = tuple[str, int]
"""A process and the number of its inputs so far"""
Own = tuple[Nominee, ...]
"""For whom a decision was made"""


class Again(Struct, frozen=True):
    """A recorded decision and the same decision made again."""

    then: Decided
    now: Decided | None
    """None if the journal does not have its inputs"""
    world: Snapshot | None
    claims: tuple[ResourceClaim, ...]
    explanation: Explanation | None = None
    """For a refusal of a plugin's devices"""

    @property
    def same(self) -> bool:
        """Whether both decisions agree."""
        return self.now is None or _essence(self.then) == _essence(self.now)


def _essence(decided: Decided) -> tuple[object, ...]:
    return decided.reason, decided.node, decided.devices


class Override(Struct, frozen=True):
    """What replaces the policies of a journal."""

    names: tuple[tuple[str, str], ...] | None
    demand: Demand | None

    def of(self, recorded: Policies) -> Policies:
        """The policies to decide with."""
        if self.names is None and self.demand is None:
            return recorded
        names = recorded.names if self.names is None else self.names
        demand = recorded.demand if self.demand is None else self.demand
        return replace(recorded, names=names, demand=demand)


class Tally(Struct):
    """The result of a replay."""

    same: int = 0
    unknown: int = 0
    """Decisions whose inputs are older than the journal"""
    different: list[Again] = field(default_factory=list)


def replay(
    place: Path,
    *,
    until: str | None = None,
    names: tuple[tuple[str, str], ...] | None = None,
    demand: Demand | None = None,
    seen: Callable[[Again], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> Tally:
    """Make every decision of a journal again, or those up to and with the one named `until`.

    `names` (see `parse_policies`) and `demand` replace those of the journal; its seed remains. `seen` is
    called for each, `progress` with the number of read entries. Raises Rejected for other files.
    """
    tally = Tally()
    for again in _decisions(place, progress, Override(names, demand)):
        seen(again)
        if again.now is None:
            tally.unknown += 1
        elif again.same:
            tally.same += 1
        else:
            tally.different.append(again)
        if again.then.id == until:
            break
    return tally


def _decisions(place: Path, progress: Callable[[int], None], override: Override) -> Iterator[Again]:
    """All decisions. Every file starts with a complete snapshot, so it needs no earlier file."""
    files = paths(place)
    run = _Run(_snapshots_needed(files), override)
    count = 0
    for path in files:
        found = entries(path)
        try:
            run.restart(read_header(next(found, {})))
        except Rejected as exc:
            raise Rejected(f"{path}: {exc}; name a folder or file that run --journal wrote") from exc
        for raw in found:
            count += 1
            progress(count)
            again = run.take(raw)
            if again is not None:
                yield again


def _snapshots_needed(files: Iterable[Path]) -> dict[Moment, Counter[Own]]:
    """The snapshots that later entries were decided from, with the number of these decisions."""
    wanted: dict[Moment, Counter[Own]] = {}
    for path in files:
        process, inputs = "", 0
        for raw in entries(path, only=("header", BEGUN, "decided")):
            match raw["t"]:
                case "header":
                    process = raw.get("run", "")
                case "begun":
                    inputs = raw.get("inputs", 0)
                case "decided":
                    if raw["behind"] > 0:
                        of_moment = wanted.setdefault((process, inputs - raw["behind"]), Counter())
                        of_moment[own_of_entry(raw)] += 1
                case name if any(name == plugin.name for plugin in PLUGINS):
                    pass  # inputs of a plugin
                case (
                    "gang" | policies.POLICIES | policies.ROOM | entries_of.ROOM_PLAN | entries_of.MOVES_PLAN
                ):
                    pass  # no inputs of the store
                case _:
                    inputs += 1
    return wanted


class ReplayPart(Protocol):
    """Rebuilds the state of a plugin from its part of the journal, and makes its decisions again."""

    def take(self, entry: dict[str, Any]) -> Again | None:
        """Apply an entry, or make its decision again."""


class _Run:
    """Rebuilds the store and makes the decisions again."""

    def __init__(self, wanted: dict[Moment, Counter[Own]], override: Override) -> None:
        """`wanted` counts the decisions on each earlier snapshot."""
        self._wanted = wanted
        self._override = override
        self._policies, self._room = policies.RecordedPolicies(), policies.RecordedRoom()
        self._kept: dict[Moment, tuple[dict[Own, Snapshot], dict[ObjectKey, ResourceClaim]]] = {}
        self._process = ""

    def restart(self, header: Header) -> None:
        """Start with an empty store for a new file. Snapshots of the same process are kept."""
        if not header.run or header.run != self._process:
            self._kept.clear()
        self._process = header.run
        self._header = header
        self._store = _ReplayStore(header.rules)
        self._decider = Decider(header.ours, steps=header.steps)
        self._parts: dict[str, ReplayPart] = {
            plugin.name: part for plugin in PLUGINS if (part := plugin.replay(header.settings)) is not None
        }
        self._inputs, self._begun = 0, False

    def take(self, raw: dict[str, Any]) -> Again | None:
        """Apply an entry, or make its decision again."""
        match raw["t"]:
            case name if name in self._parts:
                return self._parts[name].take(raw["entry"])
            case "decided":
                return self._again(read_decided(raw))
            case gangs.GANG:
                return self._of_gang(raw)
            case policies.POLICIES:
                self._policies.take(raw)
                return None
            case policies.ROOM:
                self._room.take(raw)
                return None
            case entries_of.ROOM_PLAN | entries_of.MOVES_PLAN:
                return None
            case "begun":
                self._inputs, self._begun = raw.get("inputs", 0) - 1, True
            case "remembered":
                self._store.retain(*read_retained_draw(raw))
            case entries_of.NOMINATED | entries_of.NOMINATION_ENDED:
                self._nominate(raw)
            case "assumed":
                self._store.assume(read_plan(raw))
            case "forgotten":
                self._store.forget(read_plan(raw))
            case _:
                change = read_change(raw)
                if change is not None:
                    self._store.apply(change)
        self._inputs += 1
        if self._begun and (at := (self._process, self._inputs)) in self._wanted:
            seen = {own: self._store.snapshot_for(frozenset(own)) for own in self._wanted[at]}
            self._kept[at] = seen, dict(self._store.claims)
        return None

    def _nominate(self, raw: dict[str, Any]) -> None:
        if raw["t"] == entries_of.NOMINATED:
            self._store.nominate(nomination_of(raw))
        else:
            self._store.end_nomination(nominee_of(raw["nominee"]))

    def _of_gang(self, raw: dict[str, Any]) -> Again | None:
        then = gangs.read_gang(raw)
        if then is None:
            return None  # it depends on what the journal does not have
        ours, steps, used = self._header.ours, self._header.steps, raw.get("policy")
        policies = self._override.of(self._policies.of(None if used is None else used["demand"]))
        now = gangs.decided_again(
            raw, then, self._store, steps=steps, restricted=ours.restricted, policies=policies
        )
        return Again(then, now, None, ())

    def _again(self, then: Decided) -> Again:
        if then.behind == 0:
            world = self._store.snapshot_for(frozenset(then.own))
            claims: Mapping[ObjectKey, ResourceClaim] = self._store.claims
        else:
            at = self._process, self._inputs - then.behind
            if then.behind < 0 or at not in self._kept:
                return Again(then, None, None, ())
            seen, claims = self._kept[at]
            world, of_moment = seen[then.own], self._wanted[at]
            of_moment[then.own] -= 1
            if not of_moment.total():
                del self._kept[at]
        asked = [claims.get(key) for key in then.claims]
        if any(claim is None for claim in asked):
            return Again(then, None, None, ())
        known = tuple(claim for claim in asked if claim is not None)
        answer = self._decider.answer(self._question(known, then, world), world)
        now = answered(then.id, then.unit, then.claims, then.nodes, answer)
        return Again(
            then,
            replace(
                now,
                behind=then.behind,
                together=then.together,
                policy=then.policy,
                own=then.own,
                expected=then.expected,
                preferences=then.preferences,
            ),
            world,
            known,
        )

    def _question(self, claims: tuple[ResourceClaim, ...], then: Decided, world: Snapshot) -> Decide:
        used, order = then.policy, world.topology.order
        room = self._room.of(None if used is None else used.cores, order)
        if then.preferences is not None:
            room = room or PodRoom(0, np.zeros(len(order), dtype=np.int64))
            room = replace(room, preferences=read_preferences(then.preferences, order))
        return Decide(
            claims,
            None if then.nodes is None else among(then.nodes, world.topology),
            together=None if then.together is None else _Recorded(then.together, world.topology),
            policies=self._override.of(self._policies.of(None if used is None else used.demand)),
            room=room,
            expected=then.expected,
        )


class _ReplayStore(Store):
    """A store with the retained consumption of another process."""

    def retain(self, device: DeviceID, drawn: Drawn) -> None:
        """Retain the consumption of a held device. Call it before the slices of its pool are applied."""
        self._retained.put(device, drawn)


class _Recorded:
    """The verdicts about pods that share claims, as they were recorded."""

    def __init__(self, refused: Iterable[NodeSets], topology: Topology) -> None:
        self._refused = {tuple(among(names, topology).mask.tobytes() for names in sets) for sets in refused}

    def fit(self, reach: Sequence[Mask], _spend: Callable[[], object] = lambda: None) -> bool:
        """Whether all pods fitted."""
        return tuple(mask.tobytes() for mask in reach) not in self._refused

    def refusal(self) -> str:
        """Why a decision was refused that did not serve all pods."""
        return "the pods that share the claims do not fit together"
