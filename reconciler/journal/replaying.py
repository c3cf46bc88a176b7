"""Decides again what a journal says was decided, and compares. No cluster, no clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconciler.inventory.chosen import Chosen
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.journal.entries import (
    BEGUN,
    Decided,
    Header,
    answered,
    read_change,
    read_decided,
    read_header,
    read_plan,
)
from reconciler.journal.files import entries, paths
from reconciler.objects.claims import ResourceClaim
from reconciler.reconcile.deciding import Decider
from reconciler.reconcile.steps import Decide


@dataclass(frozen=True, slots=True)
class Again:
    """A decision that was made again."""

    then: Decided
    now: Decided | None
    """None: the journal does not hold what it was made from"""
    world: Snapshot | None
    claims: tuple[ResourceClaim, ...]

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
    """Every file begins with the whole picture, so the first is begun with and the others go on from it."""
    run: _Run | None = None
    count = 0
    for number, path in enumerate(paths(place)):
        wanted = _pictures(path)
        found = entries(path)
        header = read_header(next(found, {}))
        if run is None or number == 0:
            run = _Run(header)
        else:
            run.restart(header)
        run.wanted = wanted
        for raw in found:
            count += 1
            progress(count)
            again = run.take(raw)
            if again is not None:
                yield again


def _pictures(path: Path) -> set[int]:
    """The inputs of a file after which a picture was taken that a later decision was made from."""
    inputs, wanted = 0, set[int]()
    for raw in entries(path):
        if raw["t"] == BEGUN:
            inputs = 0
        elif raw["t"] == "decided":
            if raw["behind"] > 0:
                wanted.add(inputs - raw["behind"])
        else:
            inputs += 1
    return wanted


class _Run:
    """The picture as it grows, and what is decided from it."""

    def __init__(self, header: Header) -> None:
        self.wanted: set[int] = set()
        self.restart(header)

    def restart(self, header: Header) -> None:
        """Begin with nothing: the file says all there was."""
        self._store = Store(header.rules)
        self._decider = Decider(header.ours, steps=header.steps)
        self._inputs, self._begun = 0, False
        self._kept: dict[int, tuple[Snapshot, dict[Any, ResourceClaim]]] = {}

    def take(self, raw: dict[str, Any]) -> Again | None:
        """Take in an entry; a decision is made again."""
        match raw["t"]:
            case "decided":
                return self._again(read_decided(raw))
            case "begun":
                self._inputs, self._begun = -1, True
            case "assumed":
                self._store.assume(read_plan(raw))
            case "forgotten":
                self._store.forget(read_plan(raw))
            case _:
                change = read_change(raw)
                if change is not None:
                    self._store.apply(change)
        self._inputs += 1
        if self._begun and self._inputs in self.wanted:
            self._kept[self._inputs] = self._store.snapshot(), dict(self._store.claims)
        return None

    def _again(self, then: Decided) -> Again:
        if then.behind == 0:
            world, claims = self._store.snapshot(), dict(self._store.claims)
        else:
            at = self._inputs - then.behind
            if then.behind < 0 or at not in self._kept:
                return Again(then, None, None, ())
            world, claims = self._kept[at]
        asked = [claims.get(key) for key in then.claims]
        if any(claim is None for claim in asked):
            return Again(then, None, None, ())
        known = tuple(claim for claim in asked if claim is not None)
        answer = self._decider.answer(_question(known, then.nodes, world), world)
        now = answered(then.id, then.unit, then.claims, then.nodes, answer)
        return Again(then, replace(now, behind=then.behind), world, known)


def _question(claims: tuple[ResourceClaim, ...], nodes: tuple[str, ...] | None, world: Snapshot) -> Decide:
    order = world.topology.order
    return Decide(claims, None if nodes is None else Chosen(order, np.isin(np.array(order), nodes)))
