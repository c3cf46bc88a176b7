"""The input of `explain` on a cluster: the questions about a claim or pod as the reconciler meets them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any

from reconciler.aio.queue import Queue
from reconciler.allocation.alignment.deciding import decide as decide_claims
from reconciler.allocation.dra.budget import STEPS, UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.allocation.placement.placing import refusal_reason
from reconciler.allocation.pod_devices import PodRefusal
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.changes import Refused, Replaced
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.storage import STORAGE
from reconciler.api.plugins import classes_first, kinds_of_plugins, serving
from reconciler.api.versions.reading import read
from reconciler.cli.cluster import KINDS, held_room_lines, list_objects, split_held_room, waits_for_volumes
from reconciler.cli.connection import Connection
from reconciler.cli.input import read_valid
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve, UngateAll
from reconciler.control.handler import Blocked, Decide, Idle
from reconciler.control.intake import Intake
from reconciler.control.offline import made_by_scheduler
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import Kind, Unit, gang_unit
from reconciler.errors import Malformed, Rejected
from reconciler.library import explaining
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import NOBODY, Nomination, of_claim, own_of_all
from reconciler.state.store import Store
from reconciler.state.trial import Trial

Options = Mapping[str, str]
_UNGATED = (
    "dra-reconciler serves only pods with the scheduling gate dra-reconciler.io/allocation; this pod has none"
)


_ON_DEMAND = ("Namespace", "PodGroup", "CompositePodGroup", "CoschedulingPodGroup", *STORAGE)
"""Listed if a pod needs them; the store receives them first"""


def intake_of(raws: Iterable[Mapping[str, Any]], rules: Semantics, held: Iterable[Nomination] = ()) -> Intake:
    """The state of a cluster, and room that others do not get. Needs a running loop."""
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
    intake = Intake(Store(rules), queue, KINDS, lambda _: None)
    for listing in listings(raws):
        intake.take(listing)
    for one in held:
        intake.nominating.restore(one, "the leader holds it")
    return intake


def planners(intake: Intake, policies: Policies = PLAIN) -> tuple[Planner, GangPlanner]:
    """What units need, and what gangs need, if every claim and device is ours."""
    ours = Ownership(all_claims=True, alone=True)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed, lambda: policies)
    return planner, GangPlanner(intake.units, planner, intake.nodes.on_demand)


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


def pod_of_plugin(
    raws: Iterable[dict[str, Any]],
    objects: Sequence[ApiObject],
    rules: Semantics,
    key: ObjectKey,
    options: Options,
) -> explaining.Situation:
    """Explain a pod as the reconciler meets it now: other pending pods do not come first. `objects` are the
    nodes and what plugins read.
    """
    others = kinds_of_plugins()
    intake = intake_of((one for one in raws if one["kind"] not in others), rules)
    pod = intake.store.pods[key]
    if (found := explaining.settled(pod)) is not None:
        return found
    part = serving(pod).offline(objects, intake.store.pods.values(), options)
    notes = [] if pod.gated else [_UNGATED]
    snapshot, why = intake.store.snapshot(), part.refusal(pod)
    try:
        choice = intake.placement.for_pod(pod, (), snapshot, offered=part.offered)
    except Rejected as exc:
        why = why or PodRefusal(refusal_reason(exc), str(exc))
    if why is not None:
        explanation = part.explain(pod, lambda _: True, explaining.nothing)
        return explaining.Situation(explanations=[explaining.with_refusal(explanation, why)], notes=notes)
    names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
    explanation = part.explain(
        pod, names.__contains__, lambda: intake.placement.left_out(pod, (), snapshot, offered=part.offered)
    )
    return explaining.Situation(explanations=[explanation], notes=notes)


async def ask_cluster(
    key: ObjectKey,
    rules: Semantics,
    options: Mapping[str, str],
    connection: Connection,
    *,
    of_pod: bool,
    policies: Policies,
) -> explaining.Situation:
    """List a cluster, and return the questions about a claim or pod. Raises ReconcilerError or OSError."""
    refused: Rejected | None = None
    try:
        raws, held = split_held_room(await list_objects(KINDS, connection, volumes=True))
    except Rejected as exc:  # a server without claims may have devices of a plugin
        if not of_pod:
            raise
        refused, (raws, held) = exc, split_held_room(await list_objects(("Node", "Pod"), connection))
    named = list(_named(raws, key)) if of_pod else []
    if (plugin := next(filter(None, map(serving, named)), None)) is not None:
        kinds = tuple(model.__name__ for model in plugin.models.values())
        raws += await list_objects(kinds, connection._replace(held_room=()))
        known = list(read_valid(one for one in raws if one["kind"] in {"Node", "DeviceClass", *kinds}))
        first = classes_first(known)
        if any(serving(pod, first) for pod in named):
            return pod_of_plugin(raws, known, rules, key, options)
    if refused is not None:
        raise refused
    return on_cluster(raws, rules, key, of_pod=of_pod, policies=policies, held=held)


def on_cluster(
    raws: Iterable[Mapping[str, Any]],
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    policies: Policies,
    held: Iterable[Nomination] = (),
) -> explaining.Situation:
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
    questions: list[explaining.AllocationQuestion] = []
    own = own_of_all(intake.store.pods[pod] for pod in pods if pod in intake.store.pods)
    own |= NOBODY if of_pod else {of_claim(key)}
    notes = held_room_lines(held, lambda one: one.nominee in own)
    message = ""
    for unit in units:
        match planner.next(unit):
            case Decide() as planned:
                where = None if planned.nodes is None else tuple(planned.nodes)
                snapshot = intake.store.snapshot_for(planned.own)
                answer = None
                # It may depend on more than claims and nodes.
                if planned.together or planned.room or planned.charging or not policies.first_fit:
                    answer = answer_now(planned, snapshot, policies)
                questions.append(explaining.AllocationQuestion(planned.claims, snapshot, where, answer))
                notes += filter(
                    None, [planner.left_out(planned), _ownership_note(unit, planned, intake.store)]
                )
                for special in (one for one in planned.claims if one.is_special):
                    notes += made_by_scheduler(special, snapshot)
            case Blocked(reason=reason, message=why):
                message = message or f"{reason}: {why}"
    if questions or message:
        return explaining.Situation(questions, message=message, notes=notes)
    return explaining.without_questions(key, intake.store.claims, intake.store.pods, of_pod=of_pod)


def answer_now(planned: Decide, snapshot: Snapshot, policies: Policies) -> Granted | Unsatisfied:
    """What the reconciler would answer to a question in the present state, without limits."""
    return decide_claims(
        planned.claims,
        snapshot,
        nodes=planned.nodes,
        companions=planned.together,
        charging=planned.charging,
        policy=policies.of(planned.claims, snapshot),
        pod=planned.room,
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
        case Idle():
            return None
        case step:
            return step


def _of_gang(gang: GangKey, gangs: GangPlanner, intake: Intake) -> explaining.Situation:
    """Say what a gang waits for: its pods are decided together."""
    match gang_now(gang, gangs, intake):
        case GiveBack(why=why):
            return explaining.Situation(
                message=f"gang {gang} is partly written and will be given back: {why}"
            )
        case Blocked(reason=reason, message=message):
            return explaining.Situation(message=f"gang {gang}: {reason}: {message}")
        case GangGranted(seats=seats):
            pods = ", ".join(f"{seat.pod.name} on {seat.node}" for seat in seats)
            return explaining.Situation(message=f"gang {gang} can be placed: {pods}")
    return explaining.Situation(message=f"gang {gang} is placed; its gates are being removed")


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


def _named(raws: Iterable[Mapping[str, Any]], key: ObjectKey) -> Iterator[Pod]:
    """The pod of that name, if it can be read."""
    for raw in raws:
        metadata = raw["metadata"]
        if raw["kind"] == "Pod" and (metadata.get("namespace"), metadata["name"]) == tuple(key):
            with suppress(Malformed):
                pod = read(raw)
                assert isinstance(pod, Pod)
                yield pod
