"""The state for questions, from manifests or a cluster, as a world to try things on or as an intake."""

from collections.abc import Iterable, Mapping, Sequence
from random import random
from typing import Any, NamedTuple

from reconciler.aio.queue import Queue
from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.manifest_world import Fleet, world_of_manifests
from reconciler.analysis.world import Wanted, WantedGang, WantedPod, World
from reconciler.api.manifests.inferred_nodes import InferredNodes
from reconciler.api.objects.changes import Refused, Replaced
from reconciler.api.objects.core import Node, is_live
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import similar_key
from reconciler.api.objects.storage import STORAGE
from reconciler.api.plugins import serving
from reconciler.api.versions.reading import read
from reconciler.cli import cluster
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer
from reconciler.cli.input import read_files, read_valid
from reconciler.cli.output import ProgressTracker
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve
from reconciler.control.handler import Blocked, Decide
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import GangRoster, Kind, Roster, Unit, gang_unit
from reconciler.errors import Malformed
from reconciler.state.store import Store


class Waiting(NamedTuple):
    """What is asked about, or why there is nothing to ask."""

    wanted: Wanted | None
    message: str = ""
    placed: bool = False
    """Without a question: whether it has its devices"""


def fleet_of_cluster(raws: Iterable[dict[str, Any]]) -> Fleet:
    """What is read of a cluster, with the held room. Prints invalid objects to standard error."""
    raws, held = cluster.split_held_room(raws)
    order = ("Namespace", "Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim")
    objects = sorted(
        read_valid(raws), key=lambda one: order.index(kind) if (kind := type(one).__name__) in order else 9
    )
    nodes = tuple(one for one in objects if isinstance(one, Node))
    return Fleet(InferredNodes(nodes, (), None, ()), objects, held=held, may_suppose=False)


def read_world(
    files: Sequence[str],
    connection: Connection,
    rules: Semantics,
    progress: ProgressTracker,
    *,
    budgets: bool,
) -> World:
    """The state of manifests, or without any of the cluster. Raises ReconcilerError or OSError."""
    if files:
        return world_of_manifests(read_files(files, progress), rules)
    progress.stage("reading the cluster")
    raws = cluster.from_cluster(
        cluster.list_objects(cluster.KINDS, connection, volumes=True, budgets=budgets)
    )
    return fleet_of_cluster(raws).world(rules)


class Asking:
    """Finds out what something waits for, as the reconciler would."""

    def __init__(self, world: World) -> None:
        self._world, self._store = world, world.store
        self._roster, self._gangs = Roster(), GangRoster(world.groups)
        for key, pod in self._store.pods.items():
            self._roster.note(key, pod)
            self._gangs.note(key, pod)
        placement, ours = world.placement(), Ownership(all_claims=True, alone=True)
        self._planner = Planner(self._store, self._roster, placement, ours, ())
        self._gang_planner = GangPlanner(
            self._store, self._roster, self._gangs, world.groups, world.nodes.on_demand, self._planner
        )

    def claim(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a claim waits for: with its pod, if it has one. Raises NoAnswer if it does not exist."""
        claim = self._store.claims.get(key)
        if claim is None:
            hint = "; there is a pod of that name; use --pod" if key in self._store.pods else ""
            raise NoAnswer(f"there is no claim {key}{hint or similar_key(key, self._store.claims)}")
        if claim.allocation is not None:
            return Waiting(None, "the claim is allocated", placed=True)
        users = [self._store.pods[user] for user in self._roster.users(key)]
        if users:
            return self.pod(min(users, key=queue_key).key, priority)
        return self._unit(Unit(Kind.CLAIM, key), priority)

    def pod(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a pod waits for: with its gang, if it is gated. Raises NoAnswer if it does not exist."""
        pod = self._store.pods.get(key)
        if pod is None:
            raise NoAnswer(f"there is no pod {key}{similar_key(key, self._store.pods)}")
        if not pod.spec.resource_claims and (plugin := serving(pod)) is not None:
            why = f"the pod requests {plugin.title}; room is made for ResourceClaims only"
            return Waiting(None, f"{why}; `whatif --without` shows what a removal would change")
        gang = gang_of(pod)
        if gang is not None and self._gang_planner.serves(Unit(Kind.POD, key)):
            return self._gang(self._world.groups.root(gang), priority)
        return self._unit(Unit(Kind.POD, key), priority)

    def gang(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a gang waits for. Raises NoAnswer if it does not exist."""
        gangs = {*self._gangs.known, *self._gangs.named}
        found = sorted(gang for gang in gangs if (gang.namespace, gang.name) == tuple(key))
        if not found:
            known = [ObjectKey(gang.namespace, gang.name) for gang in gangs]
            raise NoAnswer(f"no pod is of a gang {key}{similar_key(key, known)}")
        for gang in map(self._world.groups.root, found):
            if self._gang_planner.serves(gang_unit(gang)) and self._gangs.waits(gang):
                return self._gang(gang, priority)
        return Waiting(None, "no pod of the gang waits", placed=True)

    def _gang(self, gang: GangKey, priority: int | None) -> Waiting:
        match self._gang_planner.next(gang):
            case Solve(question=question):
                return Waiting(WantedGang(question, priority))
            case Blocked(reason=reason, message=message):
                return Waiting(None, f"{reason}: {message}")
            case GiveBack(why=why):
                return Waiting(None, f"the gang is partly written and will be given back: {why}")
        return Waiting(None, "the gang has its places", placed=True)

    def _unit(self, unit: Unit, priority: int | None) -> Waiting:
        match self._planner.next(unit):
            case Decide(claims=claims, held=held, pod=pod):
                gated = pod is not None and pod.gated
                sharing = self._planner.sharing(pod, (*claims, *held)) if pod is not None and gated else ()
                ranked = self._world.groups.ranked(pod) if pod is not None else None
                return Waiting(WantedPod(claims, ranked, held, tuple(sharing), priority))
            case Blocked(reason=reason, message=message):
                return Waiting(None, f"{reason}: {message}")
        pod = self._store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if pod is not None and is_live(pod):
            return Waiting(None, "the pod has no pending claims", placed=True)
        return Waiting(None, f"the {unit.kind} is finished or being deleted")


_ON_DEMAND = ("Namespace", "PodGroup", "CompositePodGroup", "CoschedulingPodGroup", *STORAGE)
"""Listed if a pod needs them; the store receives them first"""


def intake_of(raws: Iterable[Mapping[str, Any]], rules: Semantics) -> Intake:
    """The state of a cluster. Needs a running loop."""
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
    intake = Intake(Store(rules), queue, cluster.KINDS, lambda _: None)
    for listing in listings(raws):
        intake.take(listing)
    return intake


def planners(intake: Intake, policies: Policies = PLAIN) -> tuple[Planner, GangPlanner]:
    """What units need, and what gangs need, if every claim and device is ours."""
    ours = Ownership(all_claims=True, alone=True)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed, lambda: policies)
    return planner, GangPlanner.of(intake, planner)


def listings(raws: Iterable[Mapping[str, Any]]) -> Iterable[Replaced]:
    """The objects of a cluster as listings, one for each of KINDS, and of kinds listed on demand."""
    raws = list(raws)
    kinds = (*_ON_DEMAND, *cluster.KINDS)
    storage = any(raw["kind"] == "Pod" and cluster.waits_for_volumes(raw) for raw in raws)
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
