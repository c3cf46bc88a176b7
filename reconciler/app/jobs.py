"""Tasks beside the workers: the watches, the audit, the schedule of the garbage collector."""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from functools import partial
from random import random

from reconciler.aio.collector import COLLECTIONS
from reconciler.aio.tasks import forever
from reconciler.api.versions.reading import read
from reconciler.app.job import Job
from reconciler.cluster.client import Client
from reconciler.cluster.cursor import Decode
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.kinds import ON_DEMAND, Resource, Served
from reconciler.cluster.watch import Recall, Sink, follow
from reconciler.control.audit.auditor import Auditor
from reconciler.control.decisions.decision import Report
from reconciler.control.intake import Intake
from reconciler.errors import Gone, ReconcilerError

FREEZE_SECONDS = 0.05
"""How often a listing under way is looked at"""
GROWN = 3
"""Collections of the youngest generation after which its objects count as listed. A process whose listing
fails again and again collects its garbage all the same"""


def watches(
    client: Client,
    served: Served,
    sink: Sink,
    decoders: Mapping[str, Decode],
    recalls: Mapping[str, Recall],
    echoes: Echoes,
) -> Iterator[Job]:
    """A watch on each kind. `decoders` and `recalls` are by kind, for kinds that have one."""
    for resource in served:
        decode, recall = decoders.get(resource.kind, read), recalls.get(resource.kind)
        yield Job(f"watch {resource.plural}", partial(_watch, client, resource, sink, decode, recall, echoes))


def watches_on_demand(client: Client, intake: Intake, sink: Sink) -> Iterator[Job]:
    """A watch on each kind that is listed when a pod needs it."""
    for resource in ON_DEMAND.values():
        name = f"watch {resource.full_name} on demand"
        yield Job(name, partial(_watch_on_demand, client, resource, intake, sink))


def audit(intake: Intake, report: Report, seconds: float) -> Job:
    """Audit for devices and counters that are allocated twice, at most once in `seconds`."""
    return Job("audit", Auditor(intake.changed, intake.store, report, seconds, intake.audit).run)


def sparing_the_collector(intake: Intake) -> Job:
    """Collect garbage rarely, and never traverse listed objects."""
    return Job("spare the collector", partial(_spare_the_collector, intake))


async def _watch(
    client: Client, resource: Resource, sink: Sink, decode: Decode, recall: Recall | None, echoes: Echoes
) -> None:
    watch = follow(client, resource, sink=sink, random=random, decode=decode, recall=recall, echoes=echoes)
    await forever(resource.plural, watch)


async def _watch_on_demand(client: Client, resource: Resource, intake: Intake, sink: Sink) -> None:
    await intake.wanted[resource.kind].wait()

    def failed(exc: ReconcilerError) -> None:
        if isinstance(exc, Gone):
            intake.not_served(resource.kind)
        else:
            intake.cannot_list(resource.kind, str(exc))

    watch = follow(client, resource, sink=sink, random=random, on_error=failed)
    await forever(resource.plural, watch)


async def _spare_the_collector(intake: Intake) -> None:
    """Listed objects stay, as do the pools that are built of them; to traverse them at every collection would
    block the loop for tens of milliseconds with ten thousand devices. That holds during a long listing, too.
    Next to no garbage of ours is circular.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTIONS)
    gc.freeze()  # modules and classes
    try:
        starting = True
        while starting:
            await asyncio.sleep(FREEZE_SECONDS)
            starting = not intake.listed.is_set() or intake.store.unbuilt
            if not starting or gc.get_count()[1] >= GROWN:
                gc.freeze()  # without a collection, which would walk it once more
        await asyncio.Event().wait()
    finally:
        gc.set_threshold(*before)
