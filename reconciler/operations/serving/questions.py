"""Questions over HTTP: `POST /whatif` and `POST /fit`, answered from a fork of the state, in a thread.

The body holds the manifests, as YAML or JSON; the query of /whatif holds `count`, and any number of `without`
and `drain`. An answer is JSON, also if something does not fit. Slices in the body count as if published.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from aiohttp import web
from msgspec import Struct

from reconciler.aio.tasks import Closed, ShouldContinue, WorkerThread, postponed
from reconciler.allocation.dra.budget import Budget, Unfinished, WhileWanted
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import as_json as fit_as_json
from reconciler.analysis.fitting.question import question_in
from reconciler.analysis.whatif.answering import answer as answer_whatif
from reconciler.analysis.whatif.question import Scenario, units_in
from reconciler.analysis.whatif.simulation import as_json as whatif_as_json
from reconciler.analysis.world import World
from reconciler.api.manifests.bundle import Bundle, bundle, storage_of
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.storage import STORAGE
from reconciler.errors import Rejected, Unlisted
from reconciler.operations.serving.port import Route
from reconciler.state.nodes.table import Nodes
from reconciler.state.on_demand import NOT_LISTED
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Fork, Forked, Trial, load

MAX_BYTES = 2**20
"""Size of a body"""
READ_SECONDS = 10.0
"""Timeout to read the body"""
ANSWER_SECONDS = 60.0
"""Timeout of the answer. Large fleets need most of it to build a snapshot."""
NAMED_TYPES = ("application/json", "application/yaml")
"""Content types that a refusal names"""
TYPES = frozenset({*NAMED_TYPES, "application/x-yaml", "text/yaml"})
"""A page in a browser cannot send these to another site without CORS permission"""


class Busy(Exception):
    """Another question is in progress, or not all objects are listed yet."""


Reply = Callable[[web.BaseRequest, str], Awaitable[dict[str, Any]]]
"""Takes a request and the text of its body; returns the answer as JSON. Raises Rejected or Busy."""


def question_route(
    path: str, reply: Reply, *, seconds: float = ANSWER_SECONDS, read_seconds: float = READ_SECONDS
) -> Route:
    """The route of one kind of question. `read_seconds` are for its body, `seconds` for the answer."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.content_type not in TYPES:
            return _text_response(415, f"unsupported content type; use {' or '.join(NAMED_TYPES)}")
        try:
            text = await _body_of(request, read_seconds)
            async with asyncio.timeout(seconds):
                result = await reply(request, text)
        except Rejected as exc:
            return _text_response(400, str(exc))
        except Busy as exc:
            return _text_response(429, str(exc), {"Retry-After": "5"})
        except TimeoutError:
            return _text_response(503, f"no answer within {seconds:g} seconds", {"Retry-After": "60"})
        return web.Response(text=json.dumps(result, indent=2) + "\n", content_type="application/json")

    return Route(path, handle, methods=("POST",))


async def _body_of(request: web.BaseRequest, seconds: float) -> str:
    """The body. Raises HTTPRequestEntityTooLarge (413), HTTPRequestTimeout (408), and Rejected."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(body))
    except TimeoutError as exc:
        reason = f"the body did not arrive within {seconds:g} seconds"
        raise web.HTTPRequestTimeout(reason=reason) from exc
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise Rejected("the body is not UTF-8") from exc


def _text_response(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)


class Endpoint:
    """Answers one question at a time, in a thread, from a copy of the state."""

    def __init__(self, store: Store, nodes: Nodes, *, ready: Callable[[], bool]) -> None:
        """`ready` tells whether all objects were listed."""
        self._store, self._nodes, self._ready = store, nodes, ready
        self._worker = WorkerThread(type(self).__name__)

    def _require_free(self) -> None:
        """Raise Busy if no question can be answered now."""
        if not self._ready():
            raise Busy("not all objects are listed yet")
        if self._worker.busy:
            raise Busy("another question is in progress")

    async def _answered(self, work: Callable[[ShouldContinue], dict[str, Any]]) -> dict[str, Any]:
        """Run `work` in the thread. If that is cancelled, the thread ends soon. Raises Busy, and Rejected."""

        def uncollected(wanted: ShouldContinue) -> dict[str, Any]:
            with postponed():
                return work(wanted)

        try:
            return await self._worker.run(uncollected)
        except (Unfinished, Closed) as exc:
            raise Busy("the answer was cancelled") from exc


class FitEndpoint(Endpoint):
    """How many pods fit. What is decided but not written yet counts as held."""

    def routes(self) -> list[Route]:
        """The route `/fit`."""
        return [question_route("/fit", self._reply)]

    async def _reply(self, request: web.BaseRequest, text: str) -> dict[str, Any]:
        if request.query:
            raise Rejected("unknown option " + min(request.query) + "; the body holds the whole question")
        return await self.ask(text)

    async def ask(self, text: str) -> dict[str, Any]:
        """The answer as JSON. Raises Busy, and Rejected for an invalid question."""
        self._require_free()
        fork, nodes = Forked.fork_of(self._store), self._nodes.fork()
        try:
            return await self._answered(partial(_answer_fit, text, fork, nodes))
        finally:
            # The answer says which objects are not listed yet; they are when it is asked again.
            self._nodes.on_demand.want(nodes.on_demand.wanted)


def _answer_fit(text: str, fork: Fork, nodes: Nodes, wanted: ShouldContinue) -> dict[str, Any]:
    budget = WhileWanted(wanted, 1)
    manifests = bundle(of_text("body", text))
    budget.spend()
    question = question_in(manifests)
    budget.spend()
    with Trial(fork.store(), nodes, supposed=False) as trial:
        found = fit(question, trial, budget=budget)
    budget.spend()
    return fit_as_json(found)


MAX_COUNT = 1_000
MAX_NAMES = 100
"""Claims and nodes that one question may leave out"""


class WhatifOptions(Struct, frozen=True):
    """The parameters of the query."""

    count: int | None
    without: frozenset[ObjectKey]
    drained: frozenset[str]


Ask = Callable[[str, WhatifOptions], Awaitable[dict[str, Any]]]
"""Takes the text of the body and returns the answer as JSON. Raises Rejected or Busy."""


def whatif_routes(ask: Ask, *, seconds: float = ANSWER_SECONDS) -> list[Route]:
    """The route `/whatif`."""

    async def reply(request: web.BaseRequest, text: str) -> dict[str, Any]:
        return await ask(text, _options(request))

    return [question_route("/whatif", reply, seconds=seconds)]


def _options(request: web.BaseRequest) -> WhatifOptions:
    query = request.query
    unknown = sorted(set(query) - {"count", "without", "drain"})
    if unknown:
        raise Rejected(f"unknown option {unknown[0]}; use count, without or drain")
    without, drained = query.getall("without", []), query.getall("drain", [])
    if len(without) + len(drained) > MAX_NAMES:
        raise Rejected(f"without and drain may name at most {MAX_NAMES} claims and nodes")
    freed = frozenset(map(ObjectKey.parse, without))
    return WhatifOptions(_count(query.getall("count", [])), freed, frozenset(drained))


def _count(given: list[str]) -> int | None:
    if not given:
        return None
    text = given[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MAX_COUNT):
        raise Rejected(f"count must be a number from 1 to {MAX_COUNT}")
    return int(text)


MAX_COPIES = 256
"""Maximum number of copies if the question has no count"""
STEPS = 2_000
"""Step limit of one decision on one node"""
CHECK_EVERY = 16
"""Objects or devices between two checks for cancellation"""


_OF_VOLUMES = ("persistentVolumeClaim", "volumeClaimTemplate")
"""Fields of pods with claims of volumes"""


class WhatifEndpoint(Endpoint):
    """What would be allocated where. The copy shares the devices, unless the question has slices."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        groups: PodGroups,
        *,
        ready: Callable[[], bool],
        policies: Callable[[], Policies] = lambda: PLAIN,
    ) -> None:
        """`policies` are those in use."""
        super().__init__(store, nodes, ready=ready)
        self._groups = groups
        self._policies = policies

    async def ask(self, text: str, options: WhatifOptions) -> dict[str, Any]:
        """The answer. Raises Busy; Rejected for an invalid question."""
        self._require_free()
        self._require_storage(text)
        supply = self._store.supply.slices, self._store.supply.taint_rules
        fork, nodes, groups = Forked.fork_of(self._store), self._nodes.fork(), self._groups.fork()
        try:
            return await self._answered(
                partial(_answer_whatif, text, options, fork, nodes, groups, supply, self._policies())
            )
        finally:
            self._nodes.on_demand.want(nodes.on_demand.wanted)  # as for `FitEndpoint`

    def _require_storage(self, text: str) -> None:
        """Let storage objects be listed for a question with volumes. Raises Busy until they are."""
        if self._nodes.volumes.considered and any(word in text for word in _OF_VOLUMES):
            try:
                self._nodes.on_demand.require_all(STORAGE, "a volume of the question")
            except Unlisted as exc:
                if exc.reason == NOT_LISTED:
                    raise Busy(str(exc)) from exc
                raise


def _answer_whatif(
    text: str,
    options: WhatifOptions,
    fork: Fork,
    nodes: Nodes,
    groups: PodGroups,
    supply: tuple[Iterable[ApiObject], ...],
    policies: Policies,
    wanted: ShouldContinue,
) -> dict[str, Any]:
    budget = WhileWanted(wanted, CHECK_EVERY)
    manifests = bundle(of_text("body", text), rules=fork.snapshot.rules)
    if manifests.refused:
        raise Rejected(str(manifests.refused[0].problem))
    units = units_in(manifests, fork.snapshot.rules)
    if not units and not options.drained:
        raise Rejected("the body holds no pending claim, no template and no pod, and no node is drained")
    added = tuple(_added(manifests))
    if any(isinstance(thing, ResourceSlice) for thing in added):  # other devices need another fleet
        store = Store(fork.snapshot.rules)
        known = nodes.known, fork.snapshot.classes.values(), *supply, fork.pods.values()
        added = (*chain.from_iterable(known), *fork.claims().values(), *added)
        for nomination in fork.nominations:
            store.nominate(nomination)
    else:
        store = fork.store()
    load(store, _counted(added, budget))
    for one in (*manifests.of(Node), *manifests.of(Namespace), *storage_of(manifests)):
        nodes.note(Changed(type(one).__name__, one))
    scenario = Scenario(units, options.count, options.without, options.drained)
    world = World(store, nodes, groups, supposed=True)
    return whatif_as_json(
        answer_whatif(scenario, world, steps=STEPS, max_copies=MAX_COPIES, budget=budget, policies=policies)
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
