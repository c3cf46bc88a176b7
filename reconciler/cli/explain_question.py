"""The input of `explain`: the allocation questions of a claim or pod, in manifests or on a cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import random
from typing import Any, NamedTuple

from reconciler.aio.queue import Queue
from reconciler.allocation.alignment import decide as decide_claims
from reconciler.allocation.defaults import STEPS
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.question import GangGranted, GangUnsatisfied
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.changes import Refused, Replaced
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import similar_key
from reconciler.api.objects.storage import STORAGE
from reconciler.api.versions.reading import read
from reconciler.cli.common.cluster_listing import waits_for_volumes
from reconciler.cli.common.held_room import lines
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve, UngateAll
from reconciler.control.intake import Intake
from reconciler.control.offline import Question, decide
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.control.planner import Blocked, Decide, Nothing, Planner
from reconciler.control.queueing.units import Kind, Unit, gang_unit
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.nominations.nomination import NOBODY, Nomination, of_claim, own_of_all
from reconciler.state.store import Store
from reconciler.state.trial import Trial

KINDS = ("Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "Pod")
"""The kinds to list, in the order in which the store receives them"""
_ON_DEMAND = ("Namespace", "PodGroup", "CoschedulingPodGroup", *STORAGE)
"""Listed if a pod needs them; the store receives them first"""


class AllocationQuestion(NamedTuple):
    """The input of one allocation, and its result if it was decided."""

    claims: Sequence[ResourceClaim]
    snapshot: Snapshot
    nodes: Collection[str] | None
    answer: Granted | Unsatisfied | None = None


class Situation(NamedTuple):
    """The questions about a claim or pod; if there are none, a message."""

    questions: Sequence[AllocationQuestion] = ()
    explanations: Sequence[Explanation] = ()
    """Instead of questions, for pods that request Koordinator's devices"""
    message: str = ""
    allocated: bool = False
    """Without questions: whether nothing is pending"""
    known: bool = True
    """Whether the claim or pod exists"""
    notes: Sequence[str] = ()


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    steps: int,
    policies: Policies,
    on_question: Callable[[Question], None] = lambda _: None,
) -> Situation:
    """Return the questions as `allocate` meets them: earlier claims and pods are allocated first.

    `asking` is called with each question before it is decided.
    """
    matching: list[Question] = []
    notes: list[str] = []

    def note(question: Question) -> None:
        on_question(question)
        if question.pod == key if of_pod else any(claim.key == key for claim in question.claims):
            matching.append(question)
            notes.extend(filter(None, [question.left_out()]))

    report = decide(bundle, rules, steps=steps, policies=policies, on_question=note)
    answers = {
        (answer.pod, answer.claims): answer.outcome
        for answer in report.answers
        if not isinstance(answer.outcome, Blocked)
    }
    if matching:
        questions = [
            AllocationQuestion(
                q.claims, q.snapshot, q.nodes, answers.get((q.pod, tuple(c.key for c in q.claims)))
            )
            for q in matching
        ]
        return Situation(questions, notes=notes)
    for answer in report.answers:
        named = answer.pod == key if of_pod else key in answer.claims
        if named and isinstance(answer.outcome, Blocked):
            return Situation(message=f"{answer.reason}: {answer.message}")
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim)}
    return _without_questions(key, claims, {pod.key: pod for pod in bundle.of(Pod)}, of_pod=of_pod)


async def on_cluster(
    raws: Iterable[Mapping[str, Any]],
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    policies: Policies,
    held: Iterable[Nomination] = (),
) -> Situation:
    """Return the questions as the reconciler meets them now: other pending claims do not come first.

    Treats every claim and device as owned: ownership is a setting of the running reconciler. `held` is room
    that others do not get.
    """
    intake = intake_of(raws, rules)
    held = [one for one in held if intake.nominating.restore(one, "the leader holds it")]
    planner, gangs = planners(intake, policies)
    pods = [key] if of_pod else sorted(intake.roster.users(key))
    for gang in sorted(intake.gangs.of(pods)):
        if gangs.serves(gang_unit(gang)) and any(gangs.serves(Unit(Kind.POD, pod)) for pod in pods):
            return _of_gang(gang, gangs, intake)
    units = [Unit(Kind.POD, pod) for pod in pods] or [Unit(Kind.CLAIM, key)]
    questions: list[AllocationQuestion] = []
    own = own_of_all(intake.store.pods[pod] for pod in pods if pod in intake.store.pods)
    own |= NOBODY if of_pod else {of_claim(key)}
    notes = lines(held, lambda one: one.nominee in own)
    message = ""
    for unit in units:
        match planner.next(unit):
            case Decide() as planned:
                where = None if planned.nodes is None else tuple(planned.nodes)
                snapshot = intake.store.snapshot_for(planned.own)
                answer = None
                # It may depend on more than claims and nodes.
                if planned.together or planned.room or not policies.first_fit:
                    answer = decide_claims(
                        planned.claims,
                        snapshot,
                        nodes=planned.nodes,
                        companions=planned.together,
                        policy=policies.of(planned.claims, snapshot),
                        pod=planned.room,
                    )
                questions.append(AllocationQuestion(planned.claims, snapshot, where, answer))
                notes += filter(
                    None, [planner.left_out(planned), _ownership_note(unit, planned, intake.store)]
                )
            case Blocked(reason=reason, message=why):
                message = message or f"{reason}: {why}"
    if questions or message:
        return Situation(questions, message=message, notes=notes)
    return _without_questions(key, intake.store.claims, intake.store.pods, of_pod=of_pod)


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


def gang_now(
    gang: GangKey, gangs: GangPlanner, intake: Intake
) -> GangGranted | Blocked | GiveBack | UngateAll | None:
    """What the reconciler would do with a gang now. None: it needs nothing."""
    match gangs.next(gang):
        case Solve(question=question):
            own = own_of_all(member.pod for member in question.members)
            with Trial(intake.store, intake.nodes, supposed=False, own=own) as trial:
                answer = decide_gang(question, trial, steps=STEPS, budget=UNLIMITED)
            if isinstance(answer, GangUnsatisfied):
                return Blocked((), answer.reason, answer.message)
            return answer
        case Nothing():
            return None
        case step:
            return step


def _of_gang(gang: GangKey, gangs: GangPlanner, intake: Intake) -> Situation:
    """Say what a gang waits for: its pods are decided together."""
    match gang_now(gang, gangs, intake):
        case GiveBack(why=why):
            return Situation(message=f"gang {gang} is partly written and will be given back: {why}")
        case Blocked(reason=reason, message=message):
            return Situation(message=f"gang {gang}: {reason}: {message}")
        case GangGranted(seats=seats):
            pods = ", ".join(f"{seat.pod.name} on {seat.node}" for seat in seats)
            return Situation(message=f"gang {gang} can be placed: {pods}")
    return Situation(message=f"gang {gang} is placed; its gates are being removed")


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


def _ownership_note(unit: Unit, planned: Decide, store: Store) -> str:
    """Return a note if the reconciler ignores some of the claims by default; otherwise nothing."""
    pod = store.pods.get(unit.key) if unit.kind is Kind.POD else None
    if pod is not None and pod.gated:
        return ""
    foreign = [str(claim.key) for claim in planned.claims if claim.metadata.labels.get(MANAGED) != "true"]
    if not foreign:
        return ""
    return (
        f"{', '.join(foreign)}: dra-reconciler allocates it only with --all-claims, because it has neither "
        f"the label {MANAGED}=true nor a gated pod"
    )


def _without_questions(
    key: ObjectKey,
    claims: Mapping[ObjectKey, ResourceClaim],
    pods: Mapping[ObjectKey, Pod],
    *,
    of_pod: bool,
) -> Situation:
    """Say why there is nothing to decide: it is allocated, its pods have finished, or it does not exist."""
    if of_pod and key in pods:
        return Situation(message=_of_pod(pods[key], claims), allocated=True)
    if of_pod or key not in claims:
        hint = "" if of_pod or key not in pods else "; there is a pod of that name; use --pod to explain it"
        hint = hint or similar_key(key, pods if of_pod else claims)
        return Situation(message=f"there is no {'pod' if of_pod else 'claim'} {key}{hint}", known=False)
    allocation = claims[key].allocation
    if allocation is not None:
        return Situation(message=f"allocated: {_devices(allocation)}", allocated=True)
    return Situation(message="not pending: the claim is being deleted, or its pods have finished")


def _of_pod(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> str:
    """The devices of a pod without pending claims."""
    names = dict.fromkeys(pod.claim_names().values())
    named = (claims.get(ObjectKey(pod.key.namespace, name)) for name in names if name is not None)
    held = [
        f"{claim.key.name}: {_devices(claim.allocation)}"
        for claim in named
        if claim is not None and claim.allocation is not None
    ]
    return f"allocated: {'; '.join(held)}" if held else "the pod has no pending claims"


def _devices(allocation: Allocation) -> str:
    devices = (f"{device.id} for request {device.request}" for device in allocation.devices.results)
    return ", ".join(devices) or "no devices"
