"""Answers `POST /whatif` from a picture of its own, in a thread, one question at a time.

The picture shares its devices with the one that is at work, unless the question brings others.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Budget, Unfinished, WhileWanted
from reconciler.analysis.whatif import Baseline, Scenario, answer
from reconciler.analysis.whatif.reading import units_in
from reconciler.analysis.whatif.report import as_json
from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Rejected
from reconciler.operations.serving.whatif import Busy, Options
from reconciler.state.devices.snapshot.fork import Fork, Forked
from reconciler.state.loading import load
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store

MOST = 256
"""Copies tried where none are counted"""
STEPS = 2_000
"""Devices tried for one decision on one node"""
SELDOM = 64
"""Objects or devices between two checks whether the answer is still wanted"""


class WhatifEndpoint:
    """Answers questions about a picture that goes on changing meanwhile; none of it reaches that."""

    def __init__(self, store: Store, nodes: Nodes, *, whole: Callable[[], bool]) -> None:
        """`whole` tells whether everything was listed."""
        self._store = store
        self._nodes = nodes
        self._whole = whole
        self._lane = WorkerThread("what if")

    async def ask(self, text: str, options: Options) -> dict[str, Any]:
        """The answer. Raises Busy, or Rejected for what cannot be asked. Cancelled: the thread soon ends."""
        if not self._whole():
            raise Busy("not everything was listed yet")
        if self._lane.busy:
            raise Busy("another question is being answered")
        fork, nodes = Forked.fork_of(self._store), self._nodes.known
        supply = (*self._store.slices, *self._store.taint_rules)
        try:
            return await self._lane.run(partial(_answer, text, options, fork, supply, nodes))
        except (Unfinished, Closed) as exc:
            raise Busy("the answer was broken off") from exc


def _answer(
    text: str,
    options: Options,
    fork: Fork,
    supply: tuple[ApiObject, ...],
    nodes: tuple[Node, ...],
    wanted: ShouldContinue,
) -> dict[str, Any]:
    budget = WhileWanted(wanted, SELDOM)
    asked = bundle(of_text("body", text))
    if asked.refused:
        raise Rejected(str(asked.refused[0].problem))
    units = units_in(asked)
    if not units and not options.drained:
        raise Rejected("the body holds no claim that waits, no template and no pod; and no node is drained")
    added = tuple(_added(asked))
    if any(isinstance(thing, ResourceSlice) for thing in added):  # other devices: a fleet of their own
        store = Store(fork.snapshot.rules)
        added = (*nodes, *fork.snapshot.classes.values(), *supply, *fork.pods, *fork.claims(), *added)
    else:
        store = fork.store()
    load(store, _counted(added, budget))
    nodes = (*nodes, *asked.of(Node))
    scenario = Scenario(units, options.count, options.without, options.drained)
    return as_json(answer(scenario, Baseline(store, nodes), steps=STEPS, max_copies=MOST, budget=budget))


def _counted(objects: Iterable[ApiObject], budget: Budget) -> Iterator[ApiObject]:
    for thing in objects:
        budget.spend()
        yield thing


def _added(asked: Bundle) -> Iterable[ApiObject]:
    held = (claim for claim in asked.of(ResourceClaim) if claim.allocation is not None)
    if next(held, None) is not None:
        raise Rejected("a claim of the body has an allocation; leave its status out to ask about it")
    return (*asked.of(Node), *asked.of(DeviceClass), *asked.of(ResourceSlice))
