"""Answers `POST /whatif` from its own copy of the store, in a thread, one question at a time.

The copy shares the devices with the running reconciler, unless the question has its own slices.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Budget, Unfinished, WhileWanted
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.reading import units_in
from reconciler.analysis.whatif.scenario import Baseline, Scenario, as_json
from reconciler.api.manifests.bundle import Bundle, bundle, storage_of
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.storage import STORAGE
from reconciler.errors import Rejected, Unlisted
from reconciler.operations.serving.question import Busy
from reconciler.operations.serving.whatif import Options
from reconciler.state.nodes.table import Nodes
from reconciler.state.on_demand import NOT_LISTED
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Fork, Forked, load

MAX_COPIES = 256
"""Maximum number of copies if the question has no count"""
STEPS = 2_000
"""Step limit of one decision on one node"""
CHECK_EVERY = 64
"""Objects or devices between two checks for cancellation"""


_OF_VOLUMES = ("persistentVolumeClaim", "volumeClaimTemplate")
"""Fields of pods with claims of volumes"""


class Others(NamedTuple):
    """Objects that are known beside the store."""

    namespaces: tuple[Namespace, ...]
    storage: tuple[ApiObject, ...]
    volumes: bool
    """Whether the volumes of pods are considered"""
    groups: PodGroups


class WhatifEndpoint:
    """Answers questions on a copy; the store that the reconciler uses does not change."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        groups: PodGroups,
        *,
        ready: Callable[[], bool],
        policies: Callable[[], Policies] = lambda: PLAIN,
    ) -> None:
        """`ready` tells whether all objects were listed; `policies` are those in use."""
        self._store = store
        self._nodes = nodes
        self._groups = groups
        self._ready = ready
        self._policies = policies
        self._worker = WorkerThread("what if")

    async def ask(self, text: str, options: Options) -> dict[str, Any]:
        """The answer. Raises Busy; Rejected for an invalid question. If cancelled, the thread ends soon."""
        if not self._ready():
            raise Busy("not all objects are listed yet")
        if self._worker.busy:
            raise Busy("another question is in progress")
        self._require_storage(text)
        fork, nodes = Forked.fork_of(self._store), self._nodes.known
        volumes = self._nodes.volumes
        others = Others(
            self._nodes.residents.namespaces.known,
            volumes.objects.known,
            volumes.considered,
            self._groups.fork(),
        )
        supply = (*self._store.slices, *self._store.taint_rules)
        try:
            return await self._worker.run(
                partial(_answer, text, options, fork, supply, nodes, others, self._policies())
            )
        except (Unfinished, Closed) as exc:
            raise Busy("the answer was cancelled") from exc

    def _require_storage(self, text: str) -> None:
        """Let storage objects be listed for a question with volumes. Raises Busy until they are."""
        if self._nodes.volumes.considered and any(word in text for word in _OF_VOLUMES):
            try:
                self._nodes.on_demand.require_all(STORAGE, "a volume of the question")
            except Unlisted as exc:
                if exc.reason == NOT_LISTED:
                    raise Busy(str(exc)) from exc
                raise


def _answer(
    text: str,
    options: Options,
    fork: Fork,
    supply: tuple[ApiObject, ...],
    nodes: tuple[Node, ...],
    others: Others,
    policies: Policies,
    wanted: ShouldContinue,
) -> dict[str, Any]:
    budget = WhileWanted(wanted, CHECK_EVERY)
    manifests = bundle(of_text("body", text))
    if manifests.refused:
        raise Rejected(str(manifests.refused[0].problem))
    units = units_in(manifests)
    if not units and not options.drained:
        raise Rejected("the body holds no pending claim, no template and no pod, and no node is drained")
    added = tuple(_added(manifests))
    if any(isinstance(thing, ResourceSlice) for thing in added):  # other devices need another fleet
        store = Store(fork.snapshot.rules)
        added = (
            *nodes,
            *fork.snapshot.classes.values(),
            *supply,
            *fork.pods.values(),
            *fork.claims().values(),
            *added,
        )
        for one in fork.nominations:
            store.nominate(one)
    else:
        store = fork.store()
    load(store, _counted(added, budget))
    nodes, namespaces = (*nodes, *manifests.of(Node)), (*others.namespaces, *manifests.of(Namespace))
    storage = (*others.storage, *storage_of(manifests))
    scenario = Scenario(units, options.count, options.without, options.drained)
    baseline = Baseline(
        store, nodes, namespaces, storage=storage, volumes=others.volumes, groups=others.groups
    )
    return as_json(
        answer(scenario, baseline, steps=STEPS, max_copies=MAX_COPIES, budget=budget, policies=policies)
    )


def _counted(objects: Iterable[ApiObject], budget: Budget) -> Iterator[ApiObject]:
    for thing in objects:
        budget.spend()
        yield thing


def _added(manifests: Bundle) -> Iterable[ApiObject]:
    held = (claim for claim in manifests.of(ResourceClaim) if claim.allocation is not None)
    if next(held, None) is not None:
        raise Rejected("a claim of the body has an allocation; remove its status")
    return (*manifests.of(Node), *manifests.of(DeviceClass), *manifests.of(ResourceSlice))
