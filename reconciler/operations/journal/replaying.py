"""Decides again what a journal says was decided, and compares. No cluster, no clock."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler.allocation.placement.placing import among
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decider import Decider
from reconciler.control.planner import Decide
from reconciler.errors import Rejected
from reconciler.operations.journal import machines
from reconciler.operations.journal.entries import (
    BEGUN,
    Decided,
    Header,
    answered,
    read_change,
    read_decided,
    read_header,
    read_plan,
    read_retained_draw,
)
from reconciler.operations.journal.files import entries, paths
from reconciler.state.devices.occupancy.retained_draws import Drawn
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.store import Store

Moment = tuple[str, int]
"""A process, and how many inputs it had"""


@dataclass(frozen=True, slots=True)
class Again:
    """A decision that was made again."""

    then: Decided
    now: Decided | None
    """None: the journal does not hold what it was made from"""
    world: Snapshot | None
    claims: tuple[ResourceClaim, ...]
    told: Explanation | None = None
    """Of a refusal of Koordinator's devices"""

    @property
    def same(self) -> bool:
        """Whether both decided alike."""
        return self.now is None or _essence(self.then) == _essence(self.now)


def _essence(decided: Decided) -> tuple[object, ...]:
    return decided.reason, decided.node, decided.devices


@dataclass(slots=True)
class Tally:
    """What a replay came to."""

    same: int = 0
    unknown: int = 0
    """Not made again: what they were made from came before the journal"""
    different: list[Again] = field(default_factory=list)


def replay(
    place: Path,
    *,
    until: str | None = None,
    seen: Callable[[Again], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> Tally:
    """Make every decision of a journal again, or those up to and with the one named `until`.

    `seen` is told each, `progress` how many entries were read. Raises Rejected for what is no journal.
    """
    tally = Tally()
    for again in _decisions(place, progress):
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


def _decisions(place: Path, progress: Callable[[int], None]) -> Iterator[Again]:
    """Every file begins with the whole picture of its time, so that none needs those before it."""
    files = paths(place)
    run = _Run(_pictures(files))
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


def _pictures(files: Iterable[Path]) -> Counter[Moment]:
    """The pictures that later decisions were made from, and how many were."""
    wanted = Counter[Moment]()
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
                        wanted[process, inputs - raw["behind"]] += 1
                case "koordinator":
                    pass  # of its own picture
                case _:
                    inputs += 1
    return wanted


class _Run:
    """The picture as it grows, and what is decided from it."""

    def __init__(self, wanted: Counter[Moment]) -> None:
        """`wanted` counts the decisions that were made from each of some earlier pictures."""
        self._wanted = wanted
        self._kept: dict[Moment, tuple[Snapshot, dict[ObjectKey, ResourceClaim]]] = {}
        self._process = ""

    def restart(self, header: Header) -> None:
        """Begin with nothing: the file says all there was. Earlier pictures of the same process are kept."""
        if not header.run or header.run != self._process:
            self._kept.clear()
        self._process = header.run
        self._store = _Again(header.rules)
        self._decider = Decider(header.ours, steps=header.steps)
        self._machines = machines.Run(header.settings.get("koordinator_semantics", "proposal"))
        self._inputs, self._begun = 0, False

    def take(self, raw: dict[str, Any]) -> Again | None:
        """Take in an entry; a decision is made again."""
        match raw["t"]:
            case machines.KOORDINATOR:
                return self._of_machines(raw["entry"])
            case "decided":
                return self._again(read_decided(raw))
            case "begun":
                self._inputs, self._begun = raw.get("inputs", 0) - 1, True
            case "remembered":
                self._store.retain(*read_retained_draw(raw))
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
            self._kept[at] = self._store.snapshot(), dict(self._store.claims)
        return None

    def _of_machines(self, entry: dict[str, Any]) -> Again | None:
        if entry["t"] != "decided":
            self._machines.take(entry)
            return None
        then, pod = machines.read_decision(entry), ObjectKey(*entry["pod"])
        now = self._machines.again(then, pod)
        told = None if now is None or not now.reason else self._machines.explained(pod, now.reason)
        return Again(then, now, None, (), told)

    def _again(self, then: Decided) -> Again:
        if then.behind == 0:
            world = self._store.snapshot()
            claims: Mapping[ObjectKey, ResourceClaim] = self._store.claims
        else:
            at = self._process, self._inputs - then.behind
            if then.behind < 0 or at not in self._kept:
                return Again(then, None, None, ())
            world, claims = self._kept[at]
            self._wanted[at] -= 1
            if not self._wanted[at]:
                del self._kept[at]
        asked = [claims.get(key) for key in then.claims]
        if any(claim is None for claim in asked):
            return Again(then, None, None, ())
        known = tuple(claim for claim in asked if claim is not None)
        answer = self._decider.answer(_question(known, then.nodes, world), world)
        now = answered(then.id, then.unit, then.claims, then.nodes, answer)
        return Again(then, replace(now, behind=then.behind), world, known)


class _Again(Store):
    """A store that is told what another process remembered."""

    def retain(self, device: DeviceID, drawn: Drawn) -> None:
        """Goes on charging a held device as it drew. Before the slices of its pool come."""
        self._retained.put(device, drawn)


def _question(claims: tuple[ResourceClaim, ...], nodes: tuple[str, ...] | None, world: Snapshot) -> Decide:
    return Decide(claims, None if nodes is None else among(nodes, world.topology))
