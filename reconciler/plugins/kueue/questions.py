"""What Workloads ask for, the search for room for all their pods, and the room that is held for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec import Struct

from reconciler.aio.tasks import Closed, ShouldContinue, WorkerThread, postponed
from reconciler.allocation.dra.budget import Budget, StepLimit, Unfinished, WhileWanted
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member, Seat
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import WORKLOAD, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.api.validation.pods import with_label_keys
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS
from reconciler.errors import Rejected
from reconciler.plugins.kueue.objects import ResourceFlavor, TopologyRequest, Workload, WorkloadPodSet
from reconciler.state.nominations import HeldPlace, Nomination, Nominee, NomineeKind, devices_of, of_workload
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.store import Store
from reconciler.state.trial import Forked, Trial

MAX_PODS = 10_000
"""Of one Workload"""


class Known(Struct, frozen=True):
    """Objects that a Workload refers to."""

    flavors: Mapping[ObjectKey, ResourceFlavor]
    templates: Mapping[ObjectKey, ResourceClaimTemplate]
    claims: Mapping[ObjectKey, ResourceClaim]


def questions_of(
    workload: Workload, known: Known, restricted: Callable[[ResourceClaim], ResourceClaim]
) -> tuple[GangQuestion, ...]:
    """The gangs that have to fit together: sets with a topology each on their own, all others as one.

    `restricted` limits a claim to devices that are ours. Raises Rejected for a pod that cannot be created as
    the Workload says, and for an object that does not exist.
    """
    pods = sum(one.count for one in _sets(workload))
    if pods > MAX_PODS:
        raise Rejected(f"Workload {workload.key} has {pods} pods; the maximum is {MAX_PODS}")
    free: list[Member] = []
    found: list[GangQuestion] = []
    for asked in _sets(workload):
        members = tuple(_members(asked, workload, known, restricted))
        tiers = tuple(_tiers(asked.topology_request))
        if not tiers:
            free += members
        elif members:
            found.append(_question(workload, asked.name, members, tiers))
    if free:
        found.append(_question(workload, "", tuple(free), ()))
    return tuple(found)


def pods_of(workload: Workload) -> int:
    """How many pods it will have."""
    return sum(one.count for one in _sets(workload))


def _question(
    workload: Workload, name: str, members: tuple[Member, ...], tiers: tuple[Tier, ...]
) -> GangQuestion:
    key = GangKey(workload.key.namespace, GangSource.ANNOTATION, f"{workload.key.name} {name}".strip())
    return GangQuestion(key, members, len(members), tiers)


def _sets(workload: Workload) -> Iterator[WorkloadPodSet]:
    """The sets with the counts for which quota is reserved."""
    admission = workload.status.admission
    counts = {one.name: one.count for one in (admission.pod_set_assignments if admission else ())}
    for one in workload.spec.pod_sets:
        count = counts.get(one.name)
        yield one if count is None else one.model_copy(update={"count": count})


def _tiers(request: TopologyRequest | None) -> Iterator[Tier]:
    if request is not None and request.preferred:
        yield Tier(request.preferred, required=False)
    if request is not None and request.required:
        yield Tier(request.required, required=True)


def _members(
    asked: WorkloadPodSet,
    workload: Workload,
    known: Known,
    restricted: Callable[[ResourceClaim], ResourceClaim],
) -> Iterator[Member]:
    if not asked.count:
        return
    first = _pod(asked, workload, known)
    made, shared, held = _claims(first, workload, known, restricted)
    for number in range(asked.count):
        name = f"{workload.key.name} {asked.name} {number}"
        own = (claim.replacing("metadata", uid=f"workload {name} {at}") for at, claim in enumerate(made))
        yield Member(first.replacing("metadata", name=name), (*own, *shared), held)


def _pod(asked: WorkloadPodSet, workload: Workload, known: Known) -> Pod:
    """One of the pods, with what Kueue adds to it. Raises Malformed."""
    given = asked.template.get("metadata") or {}
    spec = dict(asked.template.get("spec") or {})
    labels, tolerations = _of_flavors(asked, workload, known)
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    annotations = {**(given.get("annotations") or {}), WORKLOAD: workload.key.name}
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": asked.name,
            "namespace": workload.key.namespace,
            "labels": given.get("labels") or {},
            "annotations": annotations,
        },
        "spec": spec,
    }
    pod = cast("Pod", read(with_label_keys(raw)))
    priority = pod.spec.priority if pod.spec.priority is not None else workload.spec.priority
    return pod.replacing("spec", priority=priority)


def _of_flavors(
    asked: WorkloadPodSet, workload: Workload, known: Known
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Node labels and tolerations of the flavors for which quota is reserved."""
    admission = workload.status.admission
    assigned = {one.name: one for one in (admission.pod_set_assignments if admission else ())}
    labels: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    found = assigned.get(asked.name)
    for name in dict.fromkeys(found.flavors.values() if found is not None else ()):
        flavor = known.flavors.get(ObjectKey("", name))
        if flavor is None:
            raise Rejected(f"ResourceFlavor {name} does not exist")
        labels |= flavor.spec.node_labels
        tolerations += flavor.spec.tolerations
    return labels, tolerations


def _claims(
    pod: Pod, workload: Workload, known: Known, restricted: Callable[[ResourceClaim], ResourceClaim]
) -> tuple[list[ResourceClaim], tuple[ResourceClaim, ...], tuple[ResourceClaim, ...]]:
    """Claims that each pod has for itself, claims to be allocated that all share, and allocated ones."""
    made: list[ResourceClaim] = []
    named: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            named.append(_known(known.claims, entry.resource_claim_name, "ResourceClaim", workload))
            continue
        template = _known(
            known.templates, entry.resource_claim_template_name or "", "ResourceClaimTemplate", workload
        )
        given = template.spec.metadata
        metadata = {
            "name": f"{pod.key.name}-{entry.name}",
            "namespace": workload.key.namespace,
            "labels": given.labels,
            "annotations": given.annotations,
        }
        made.append(
            restricted(ResourceClaim.model_validate({"metadata": metadata, "spec": template.spec.spec}))
        )
    return made, tuple(_without(named, restricted)), tuple(one for one in named if one.allocation is not None)


def _without(
    named: Iterable[ResourceClaim], restricted: Callable[[ResourceClaim], ResourceClaim]
) -> Iterator[ResourceClaim]:
    return (restricted(one) for one in named if one.allocation is None)


def _known(objects: Mapping[ObjectKey, Any], name: str, kind: str, workload: Workload) -> Any:
    found = objects.get(ObjectKey(workload.key.namespace, name))
    if found is None:
        raise Rejected(f"{kind} {workload.key.namespace}/{name} does not exist")
    return found


QUICK_STEPS = 100
"""Nodes and devices that are tried on the loop, about 0.25 ms each"""
REPEATS = 3
"""How often an answer may be outdated by events before the Workload waits for its next turn"""
SELDOM = 16
"""Search steps between two checks whether the answer is still wanted"""

QUICK_PODS = 64
"""Pods whose Workload is built and tried on the loop: more than that take too long"""

Ask = Callable[[], Sequence[GangQuestion]]
"""Builds the gangs of a Workload. Other threads call it, too: it only looks up objects"""
Answer = tuple[HeldPlace, ...] | GangUnsatisfied


class WorkloadSearch:
    """One search at a time."""

    def __init__(self, intake: Intake, ours: Ownership, *, steps: int) -> None:
        """`steps` limits the search for one gang."""
        self._intake, self._ours, self._steps = intake, ours, steps
        self._thread = WorkerThread("kueue")

    def close(self) -> None:
        """Stop a running search. Its caller gets no answer."""
        self._thread.close()

    async def answer(self, ask: Ask, pods: int, own: frozenset[Nominee]) -> Answer | None:
        """Places for all pods, or why there are none. Places are possible when this returns, and in no trial.

        `ask` returns the gangs, in a thread if there are many `pods`; raises what `ask` raises. None: the
        state changes faster than the search ends.
        """
        try:
            if pods <= QUICK_PODS:
                with Trial(self._intake.store, self._intake.nodes, supposed=False, own=own) as trial:
                    return self._decided(ask(), trial, StepLimit(QUICK_STEPS))
        except Unfinished:
            pass
        for _ in range(REPEATS):
            before = self._state(own)
            try:
                found = await self._in_thread(ask, own)
            except (Unfinished, Closed):
                return None
            if isinstance(found, GangUnsatisfied) or self._state(own) == before:
                return found
        return None

    def _state(self, own: frozenset[Nominee]) -> tuple[int, int]:
        return self._intake.store.snapshot_for(own).version, self._intake.nodes.serial

    async def _in_thread(self, ask: Ask, own: frozenset[Nominee]) -> Answer:
        fork, nodes = Forked.fork_of(self._intake.store), self._intake.nodes.fork()

        def search(wanted: ShouldContinue) -> Answer:
            with postponed(), Trial(fork.store(), nodes, supposed=False, own=own) as trial:
                return self._decided(ask(), trial, WhileWanted(wanted, SELDOM))

        return await self._thread.run(search)

    def _decided(self, asked: Sequence[GangQuestion], trial: Trial, budget: Budget) -> Answer:
        """All gangs beside each other, in their order."""
        places: dict[str, HeldPlace] = {}
        for question in asked:
            found = decide_gang(question, trial, steps=self._steps, budget=budget)
            if not isinstance(found, GangGranted):
                return found
            claims = {claim.metadata.uid: claim for one in question.members for claim in one.claims}
            for seat in found.seats:
                for plan in seat.plans:
                    why = self._ours.trespass(claims[plan.uid], plan.allocation)
                    if why is not None:
                        return GangUnsatisfied(NOT_OURS, why)
            _add(places, found.seats, question, trial.store)
        return tuple(places.values())


def _add(places: dict[str, HeldPlace], seats: Sequence[Seat], question: GangQuestion, store: Store) -> None:
    """Add what the pods of a gang take to the places, one for each node."""
    members = {one.pod.key: one for one in question.members}
    planned = {plan.uid: plan for seat in seats for plan in seat.plans}
    for seat in seats:
        before = places.get(seat.node, HeldPlace(seat.node))
        room = dict(before.room)
        member = members[seat.pod]
        plans = [planned[uid] for claim in member.claims if (uid := claim.metadata.uid) in planned]
        for resource, amount in demand_of(member.pod, store, plans).items():
            room[resource] = room.get(resource, 0) + amount
        devices = (*before.devices, *devices_of(seat.plans))
        places[seat.node] = HeldPlace(seat.node, devices, tuple(room.items()))


class WorkloadHolds:
    """Holds room, and ends holds that are used or not wanted. Those that nobody uses expire by themselves."""

    def __init__(
        self, intake: Intake, *, seconds: float, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        """`seconds`: how long room is held; `clock` is that of the loop; `now` the time of day."""
        self._intake, self._seconds, self._clock, self._now = intake, seconds, clock, now
        self._earlier: dict[tuple[ObjectKey, str], frozenset[str]] = {}
        """Workload and deadline of a hold -> uids of pods that were bound before it began.

        Not of holds that another process began.
        """
        self._used: dict[ObjectKey, tuple[str, datetime | None]] = {}
        """Workload -> its admission whose pods came and use the room. See `_admission`"""

    def hold(self, workload: Workload, places: tuple[HeldPlace, ...]) -> str:
        """Hold these places for all its pods. Returns until when, for people."""
        until = timestamp(self._now() + timedelta(seconds=self._seconds))
        self._earlier[workload.key, until] = frozenset(pod.metadata.uid for pod in self._bound(workload.key))
        self._used.pop(workload.key, None)
        self._intake.nominating.hold(
            Nomination(
                of_workload(workload.key),
                places,
                workload.spec.priority or 0,
                self._clock() + self._seconds,
                until,
                workload.metadata.uid,
            ),
            "Kueue may admit it",
        )
        return until

    def used(self, workload: Workload) -> bool:
        """Whether its room is not held any more because its pods of this admission are bound."""
        return self._used.get(workload.key) == _admission(workload)

    def drop(self, key: ObjectKey, why: str) -> None:
        """Hold nothing for a Workload any more."""
        self._intake.nominating.drop(of_workload(key), why)

    def end(self, workloads: Mapping[ObjectKey, Workload]) -> None:
        """End the holds of Workloads that are gone, lost their quota, or have all their pods bound."""
        held = [one for one in self._intake.store.nominations if one.nominee.kind is NomineeKind.WORKLOAD]
        known = {(one.nominee.key, one.deadline) for one in held}
        self._earlier = {one: uids for one, uids in self._earlier.items() if one in known}
        self._used = {key: one for key, one in self._used.items() if key in workloads}
        for one in held:
            key = one.nominee.key
            workload = workloads.get(key)
            if workload is None or workload.metadata.uid != one.uid:
                self.drop(key, "it is gone")
            elif workload.condition("QuotaReserved") is None or workload.condition("Finished") is not None:
                self.drop(key, "it has no quota any more")
            elif self._came(workload, one.deadline) >= pods_of(workload):
                self._used[key] = _admission(workload)
                self.drop(key, "its pods are bound")

    def _came(self, workload: Workload, deadline: str) -> int:
        """How many pods are bound of those for which the room is held, not of an earlier admission.

        Of a hold that another process began, it is not known which pods were bound before: then those count
        that were created after the quota was reserved.
        """
        bound, earlier = self._bound(workload.key), self._earlier.get((workload.key, deadline))
        if earlier is not None:
            return sum(pod.metadata.uid not in earlier for pod in bound)
        since = workload.quota_since
        created = (pod.metadata.created for pod in bound)
        return sum(since is not None and one is not None and one >= since for one in created)

    def _bound(self, workload: ObjectKey) -> list[Pod]:
        """Its pods that are bound and use their room: a pod that ended may be replaced."""
        known = self._intake.store.pods
        pods = (known[key] for key in self._intake.workloads.users(workload))
        return [
            pod
            for pod in pods
            if pod.spec.node_name and not pod.finished and not pod.metadata.deletion_timestamp
        ]


def _admission(workload: Workload) -> tuple[str, datetime | None]:
    """Its uid, and when its quota was reserved: another time when it is admitted again."""
    return workload.metadata.uid, workload.quota_since
