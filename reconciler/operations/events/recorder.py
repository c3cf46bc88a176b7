"""Writes Events about pending claims and pods, with an explanation."""

import asyncio
from collections.abc import Callable, Iterator

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.allocation.reasons.reasons import remedy
from reconciler.analysis.explain.briefly import explain_briefly
from reconciler.api.objects.meta import ApiObject
from reconciler.cluster.kinds import Served
from reconciler.control.decisions.decisions import Waits
from reconciler.control.explainer import Explainer, RefusalQueue
from reconciler.control.planner import Step
from reconciler.control.queueing.units import Unit
from reconciler.operations.events.events import Events, Notice, Regarding
from reconciler.state.store import Store


class EventRecorder:
    """Explains refusals and writes Events about them, in the background."""

    def __init__(
        self,
        refusals: RefusalQueue,
        events: Events,
        served: Served,
        store: Store,
        *,
        step: Callable[[Unit], Step],
        clock: Callable[[], float],
    ) -> None:
        """`step` returns the next step of a unit; `clock` counts seconds."""
        self._events = events
        self._served = served
        self._store = store
        self._explainer = Explainer(
            store, refusals, step, explain=explain_briefly, clock=clock, explained=self._explained
        )

    async def run(self) -> None:
        """Explain and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._explainer.run(), name="explain refusals")
            group.create_task(self._events.run(), name="write events")

    def _explained(self, waits: Waits, explanation: Explanation | None) -> None:
        self._events.record(self._notices(waits, note(waits, explanation)))

    def _notices(self, waits: Waits, text: str) -> Iterator[Notice]:
        objects: list[tuple[str, ApiObject | None]] = [
            ("ResourceClaim", self._store.claims.get(key)) for key in waits.claims
        ]
        pods = waits.pods or () if waits.pod is None else (waits.pod,)
        objects += [("Pod", self._store.pods.get(key)) for key in pods]
        for kind, found in objects:
            if found is not None:
                version = self._served[kind].api_version
                regarding = Regarding(version, kind, found.key, found.metadata.uid)
                yield Notice(regarding, waits.reason, text, waits.decision_id)


def note(waits: Waits, explanation: Explanation | None) -> str:
    """The text of an Event. The nearest miss comes before the counts, because long notes are cut."""
    parts = [waits.message]
    if explanation is not None:
        parts.append(explanation.short())
    parts.append(remedy(waits.reason))
    return ". ".join(part.rstrip(".") for part in parts if part) + "."
