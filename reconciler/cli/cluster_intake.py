"""The state of a cluster as the reconciler takes it in, for commands that read it once."""

from collections.abc import Iterable, Mapping
from random import random
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.changes import Refused, Replaced
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.storage import STORAGE
from reconciler.api.versions.reading import read
from reconciler.cli.cluster import KINDS, waits_for_volumes
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import Unit
from reconciler.errors import Malformed
from reconciler.state.store import Store

_ON_DEMAND = ("Namespace", "PodGroup", "CoschedulingPodGroup", *STORAGE)
"""Listed if a pod needs them; the store receives them first"""


def intake_of(raws: Iterable[Mapping[str, Any]], rules: Semantics) -> Intake:
    """The state of a cluster. Needs a running loop."""
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
    intake = Intake(Store(rules), queue, KINDS, lambda _: None)
    for listing in listings(raws):
        intake.take(listing)
    return intake


def planners(intake: Intake, policies: Policies = PLAIN) -> tuple[Planner, GangPlanner]:
    """What units need, and what gangs need, if every claim and device is ours."""
    ours = Ownership(all_claims=True, alone=True)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed, lambda: policies)
    return planner, GangPlanner(
        intake.store, intake.roster, intake.gangs, intake.groups, intake.nodes.on_demand, planner
    )


def listings(raws: Iterable[Mapping[str, Any]]) -> Iterable[Replaced]:
    """The objects of a cluster as listings, one for each of KINDS, and of kinds listed on demand."""
    raws = list(raws)
    kinds = (*_ON_DEMAND, *KINDS)
    storage = any(raw["kind"] == "Pod" and waits_for_volumes(raw) for raw in raws)
    objects: dict[str, list[ApiObject]] = {kind: [] for kind in kinds}
    refused: dict[str, list[Refused]] = {kind: [] for kind in kinds}
    for raw in raws:
        kind = raw["kind"]
        try:
            found = read(raw)
            objects[type(found).__name__].append(found)
        except Malformed as exc:
            metadata = raw["metadata"]
            key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
            refused[kind].append(Refused(kind, key, str(exc)))
    return [
        Replaced(kind, tuple(objects[kind]), tuple(refused[kind]))
        for kind in kinds
        if kind not in ("Namespace", *STORAGE) or objects[kind] or (storage and kind in STORAGE)
    ]
