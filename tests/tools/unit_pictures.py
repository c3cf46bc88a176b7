"""A picture of a few objects, and how a unit looks in it."""

from itertools import count
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.decisions.declaration import Decision, Report
from reconciler.control.handler import Step
from reconciler.control.intake import NOTHING_OWNED, Intake, Journal
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import Kind, Unit
from reconciler.state.store import Store

_versions = count(1)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def claim_unit(name: str) -> Unit:
    return Unit(Kind.CLAIM, key(name))


def pod_unit(name: str) -> Unit:
    return Unit(Kind.POD, key(name))


def typed(raw: dict[str, Any]) -> Any:
    """The object as the server would show it: with a uid and a version of its own."""
    metadata = {"uid": f"uid of {raw['metadata']['name']}", "resourceVersion": str(next(_versions))}
    return read({**raw, "metadata": {**metadata, **raw["metadata"]}})


def as_pod(raw: dict[str, Any]) -> Pod:
    found = typed(raw)
    assert isinstance(found, Pod)
    return found


def _ignore(_: Decision) -> None:
    """Nobody listens."""


def intake(
    *raws: dict[str, Any],
    report: Report = _ignore,
    ours: Ownership = NOTHING_OWNED,
    journal: Journal | None = None,
) -> Intake:
    """Everything was listed; back-off is ten minutes. Needs a running loop."""
    queue: Queue[Unit] = Queue(base=600.0, cap=600.0, random=lambda: 1.0)
    found = Intake(Store(Semantics()), queue, [], report, ours=ours, journal=journal)
    put(found, *raws)
    return found


def put(found: Intake, *raws: dict[str, Any]) -> None:
    """The watch tells of these objects."""
    for raw in raws:
        thing = typed(raw)
        found.take(Changed(type(thing).__name__, thing))


def remove(found: Intake, kind: str, name: str) -> None:
    found.take(Removed(kind, key(name)))


async def taken(found: Intake) -> list[Unit]:
    """The units that are due, in their order."""
    units = []
    found.queue.close()
    while len(found.queue):
        async with found.queue.take() as unit:
            units.append(unit)
    return units


def step(found: Intake, unit: Unit, **ours: Any) -> Step:
    """What the unit needs."""
    owned = Ownership(**{"alone": True, **ours})
    return Planner(found.store, found.roster, found.placement, owned, found.reclaimed).next(unit)
