"""What `explain` explains: the question that a claim or pod raises, in manifests or on a cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from random import random
from typing import Any, NamedTuple

from reconciler.aio.queue import Queue
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.changes import Refused, Replaced
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.offline import Question, decide
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.control.planner import Blocked, Decide, Planner
from reconciler.control.queueing.units import Kind, Unit
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.store import Store

MOST_MEANT = 3
"""Names that are suggested for one that is not there"""
KINDS = ("Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "Pod")
"""What a cluster is asked for, in the order in which it is taken in"""


class Asked(NamedTuple):
    """A question to the allocator, and what it said if it was asked."""

    claims: Sequence[ResourceClaim]
    world: Snapshot
    nodes: Collection[str] | None
    answer: Granted | Unsatisfied | None = None


class Situation(NamedTuple):
    """The questions; or, where there are none, why not."""

    questions: Sequence[Asked] = ()
    message: str = ""
    allocated: bool = False
    """Without a question: whether all is well"""
    known: bool = True
    """Whether there is such a claim or pod at all"""
    notes: Sequence[str] = ()


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    steps: int,
    on_question: Callable[[Question], None] = lambda _: None,
) -> Situation:
    """As `allocate` meets it: claims and pods that come first are allocated first.

    `on_question` is told of every question before it is answered.
    """
    asked: list[Question] = []
    notes: list[str] = []

    def note(question: Question) -> None:
        on_question(question)
        if question.pod == key if of_pod else any(claim.key == key for claim in question.claims):
            asked.append(question)
            notes.extend(filter(None, [question.left_out()]))

    report = decide(bundle, rules, steps=steps, on_question=note)
    answers = {
        (answer.pod, answer.claims): answer.outcome
        for answer in report.answers
        if not isinstance(answer.outcome, Blocked)
    }
    if asked:
        questions = [
            Asked(q.claims, q.snapshot, q.nodes, answers.get((q.pod, tuple(c.key for c in q.claims))))
            for q in asked
        ]
        return Situation(questions, notes=notes)
    for answer in report.answers:
        named = answer.pod == key if of_pod else key in answer.claims
        if named and isinstance(answer.outcome, Blocked):
            return Situation(message=f"{answer.reason}: {answer.message}")
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim)}
    return _unasked(key, claims, {pod.key: pod for pod in bundle.of(Pod)}, of_pod=of_pod)


async def on_cluster(
    raws: Iterable[Mapping[str, Any]], rules: Semantics, key: ObjectKey, *, of_pod: bool
) -> Situation:
    """As the reconciler meets it now: what is allocated there is, and nobody else comes first.

    Every claim and device counts as ours: whose they are is a setting of who runs.
    """
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
    intake = Intake(Store(rules), queue, KINDS, lambda _: None)
    for listing in _listings(raws):
        intake.take(listing)
    ours = Ownership(all_claims=True, alone=True)
    planner = Planner(intake.store, intake.roster, intake.placement, ours, intake.reclaimed)
    pods = [key] if of_pod else sorted(intake.roster.users(key))
    units = [Unit(Kind.POD, pod) for pod in pods] or [Unit(Kind.CLAIM, key)]
    questions: list[Asked] = []
    notes: list[str] = []
    message = ""
    for unit in units:
        match planner.next(unit):
            case Decide() as asked:
                where = None if asked.nodes is None else tuple(asked.nodes)
                questions.append(Asked(asked.claims, intake.store.snapshot(), where))
                notes += filter(None, [planner.left_out(asked), _whose(unit, asked, intake.store)])
            case Blocked(reason=reason, message=why):
                message = message or f"{reason}: {why}"
    if questions or message:
        return Situation(questions, message, notes=notes)
    return _unasked(key, intake.store.claims, intake.store.pods, of_pod=of_pod)


def _listings(raws: Iterable[Mapping[str, Any]]) -> Iterable[Replaced]:
    objects: dict[str, list[ApiObject]] = {kind: [] for kind in KINDS}
    refused: dict[str, list[Refused]] = {kind: [] for kind in KINDS}
    for raw in raws:
        kind = raw["kind"]
        try:
            objects[kind].append(read(raw))
        except Malformed as exc:
            metadata = raw["metadata"]
            key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
            refused[kind].append(Refused(kind, key, str(exc)))
    return [Replaced(kind, tuple(objects[kind]), tuple(refused[kind])) for kind in KINDS]


def _whose(unit: Unit, asked: Decide, store: Store) -> str:
    """Who would have to ask us."""
    pod = store.pods.get(unit.key) if unit.kind is Kind.POD else None
    if pod is not None and pod.gated:
        return ""
    foreign = [str(claim.key) for claim in asked.claims if claim.metadata.labels.get(MANAGED) != "true"]
    if not foreign:
        return ""
    return (
        f"{', '.join(foreign)}: neither labelled {MANAGED}=true nor of a gated pod, so it is allocated by "
        "dra-reconciler with --all-claims alone"
    )


def _unasked(
    key: ObjectKey,
    claims: Mapping[ObjectKey, ResourceClaim],
    pods: Mapping[ObjectKey, Pod],
    *,
    of_pod: bool,
) -> Situation:
    """Nobody has to decide: it is held already, its pods have ended, or it is not there."""
    if of_pod and key in pods:
        return Situation(message="the pod has no claim that waits", allocated=True)
    if of_pod or key not in claims:
        hint = "" if of_pod or key not in pods else "; there is a pod of that name, say --pod to explain it"
        hint = hint or _like(key, pods if of_pod else claims)
        return Situation(message=f"there is no {'pod' if of_pod else 'claim'} {key}{hint}", known=False)
    allocation = claims[key].allocation
    if allocation is not None:
        return Situation(message=f"allocated: {_holdings(allocation)}", allocated=True)
    return Situation(message="nobody decides about it: it is being deleted, or its pods have ended")


def _like(key: ObjectKey, known: Collection[ObjectKey]) -> str:
    """What may have been meant: the name in another namespace, or one that is spelled nearly so."""
    names = get_close_matches(key.name, {one.name for one in known}, MOST_MEANT)
    meant = sorted(one for one in known if one.name == key.name) or [
        one for one in known if one.name in names
    ]
    return f"; there is {', '.join(map(str, meant[:MOST_MEANT]))}" if meant else ""


def _holdings(allocation: Allocation) -> str:
    found = (f"{device.id} for request {device.request}" for device in allocation.devices.results)
    return ", ".join(found) or "no devices"
