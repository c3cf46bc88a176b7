"""`POST /fit`: how many pods of some sets fit now. Answered from a fork of the state, in a thread."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Unfinished, WhileWanted
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import as_json
from reconciler.analysis.fitting.reading import question_in
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import of_text
from reconciler.errors import Rejected
from reconciler.operations.serving.port import Route
from reconciler.operations.serving.question import ANSWER_SECONDS, Busy, question_route
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from reconciler.state.trial import Fork, Forked, Trial

PATH = "/fit"
CHECK_EVERY = 16
"""Sets and steps of the search between two checks for cancellation"""


class FitEndpoint:
    """One question is answered at a time. What is decided but not written yet counts as held."""

    def __init__(self, store: Store, nodes: Nodes, *, ready: Callable[[], bool]) -> None:
        """`ready` tells whether all objects were listed."""
        self._store, self._nodes, self._ready = store, nodes, ready
        self._worker = WorkerThread("fit")

    def routes(self, *, seconds: float = ANSWER_SECONDS) -> list[Route]:
        """The route `/fit`."""
        return [question_route(PATH, self._reply, seconds=seconds)]

    async def _reply(self, request: web.BaseRequest, text: str) -> dict[str, Any]:
        if request.query:
            raise Rejected("unknown option " + min(request.query) + "; the body holds the whole question")
        return await self.ask(text)

    async def ask(self, text: str) -> dict[str, Any]:
        """The answer as JSON. Raises Busy, and Rejected for an invalid question."""
        if not self._ready():
            raise Busy("not all objects are listed yet")
        if self._worker.busy:
            raise Busy("another question is in progress")
        fork, nodes = Forked.fork_of(self._store), self._nodes.fork()
        try:
            return await self._worker.run(lambda wanted: _answer(text, fork, nodes, wanted))
        except (Unfinished, Closed) as exc:
            raise Busy("the answer was cancelled") from exc
        finally:
            # The answer says which objects are not listed yet; they are when it is asked again.
            self._nodes.on_demand.want(nodes.on_demand.wanted)


def _answer(text: str, fork: Fork, nodes: Nodes, wanted: ShouldContinue) -> dict[str, Any]:
    question = question_in(bundle(of_text("body", text)))
    with Trial(fork.store(), nodes, supposed=False) as trial:
        return as_json(fit(question, trial, budget=WhileWanted(wanted, CHECK_EVERY)))
