"""Allocates the claims of manifests without a cluster, or says why a claim gets no devices."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from reconciler.allocation.alignment.deciding import decide as decide_claims
from reconciler.allocation.dra.budget import STEPS, Fatal
from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.placement.placing import Placement, refusal_reason
from reconciler.allocation.pod_devices import PodDevices, PodGrant, PodRefusal
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.manifests.bundle import Bundle, Claims, storage_of
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.migrate.special_claims import REMEDY, UNSAFE, served_by_classes
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import FINALIZER, DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node, Pod, claims_of, is_live
from reconciler.api.objects.gangs import GROUPS, GangKey, gang_of
from reconciler.api.objects.meta import ApiObject, ObjectKey, PoolID
from reconciler.api.objects.plan import Granted, Plan, Reason, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice, ResourceSliceSpec
from reconciler.api.plugins import PLUGINS, classes_first, serving
from reconciler.control.charges import Charges
from reconciler.control.handler import Blocked, Decide
from reconciler.control.ownership import Ownership
from reconciler.control.planner import DELETING, NOT_FOUND, NOT_MADE, Planner
from reconciler.control.special_claims import selected_drivers
from reconciler.control.units import Kind, Roster, Unit
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import demand as room_for
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from reconciler.state.trial import load

if TYPE_CHECKING:
    from reconciler.allocation.gangs.kinds import GangGranted
    from reconciler.control.gangs.search import OfflineGangs


class Answer(Struct, frozen=True):
    """The outcome for claims that were decided together."""

    pod: ObjectKey | None
    claims: tuple[ObjectKey, ...]
    outcome: Granted | Unsatisfied | Blocked
    left_out: str = ""
    """Why nodes were excluded for the pod; empty if none was, or if devices were allocated"""

    @property
    def reason(self) -> str:
        """Why there are no devices, as the reconciler names it; empty if there are."""
        return "" if isinstance(self.outcome, Granted) else str(self.outcome.reason)

    @property
    def message(self) -> str:
        """The reason in words."""
        said = "" if isinstance(self.outcome, Granted) else self.outcome.message
        return "; ".join(filter(None, [said, self.left_out]))


class PodReport(Struct):
    """What pods got of the devices of plugins, in the order of the decisions."""

    given: list[PodGrant] = field(default_factory=list)
    refused: list[tuple[ObjectKey, PodRefusal]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be read of devices, and of pods that hold some"""


class Report(Struct, frozen=True):
    """All decisions, in their order."""

    answers: tuple[Answer, ...]
    held: tuple[ObjectKey, ...]
    """Claims that were already allocated in the input"""
    nodes: InferredNodes
    nowhere: tuple[str, ...]
    """Slices that no node can use, since they name no nodes"""
    unusable: Mapping[PoolID, str]
    """Pools that are unusable on some node, and why: slices are missing or contradict each other"""
    written: Mapping[ObjectKey, Mapping[str, Any]]
    """Every claim as the input has it, and those created from templates"""
    devices: PodReport | None = None
    """What pods got of the devices of plugins; None if the input has none"""
    gangs: "tuple[tuple[GangKey, GangGranted], ...]" = ()
    """Gangs that were placed"""
    special: tuple[str, ...] = ()
    """Notes on the claims that kube-scheduler is to make"""

    @property
    def waiting(self) -> tuple[Answer, ...]:
        """The answers without devices for a claim or a pod."""
        granted = {plan.claim for answer in self.granted for plan in answer.plans}
        return tuple(
            answer
            for answer in self.answers
            if not isinstance(answer.outcome, Granted)
            and not (answer.claims and granted.issuperset(answer.claims))
        )

    @property
    def granted(self) -> tuple[Granted, ...]:
        """The answers with devices."""
        return tuple(answer.outcome for answer in self.answers if isinstance(answer.outcome, Granted))

    def allocated(self, now: datetime) -> list[dict[str, Any]]:
        """The newly allocated claims, as a live run at that time would write them."""
        stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return [
            _allocated(self.written[plan.claim], plan, stamp)
            for granted in self.granted
            for plan in granted.plans
        ]


class Question(Struct, frozen=True):
    """A question just before its decision: claims, nodes and the snapshot at that time."""

    pod: ObjectKey | None
    claims: tuple[ResourceClaim, ...]
    nodes: tuple[str, ...] | None
    """None for all nodes"""
    snapshot: Snapshot
    left_out: Callable[[], str]
    """Says why nodes are excluded for the pod; empty if none is"""


OnPod = Callable[[Pod, PodDevices, Callable[[str], bool]], object]
"""Gets a pod just before its decision, the devices of a plugin, and on which nodes the pod can run"""


def decide(
    bundle: Bundle,
    rules: Semantics,
    *,
    steps: int = STEPS,
    policies: Policies = PLAIN,
    options: Mapping[str, str] = MappingProxyType({}),
    on_question: Callable[[Question], None] = lambda _: None,
    on_pod: OnPod = lambda *_: None,
) -> Report:
    """Allocate every pending claim of a bundle, and the devices of plugins, which have `options`.

    The claims of one pod are decided together, for one node; other claims one by one. Order and nodes are
    those of `placement`, and `policies` prefer some of the nodes and devices; nodes that only slices name may
    be used. `on_question` gets every question about claims before its decision, `on_pod` every question about
    a pod's devices of a plugin. Raises nothing for the content of the bundle.
    """
    run = _Run(bundle, rules, steps, options, policies, on_question, on_pod)
    for thing in sorted(run.waiting, key=queue_key):
        if isinstance(thing, Pod):
            run.decide_pod(thing)
        else:
            run.decide_claim(thing)
    return run.report()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        bundle: Bundle,
        rules: Semantics,
        steps: int,
        options: Mapping[str, str],
        policies: Policies,
        on_question: Callable[[Question], None],
        on_pod: OnPod,
    ) -> None:
        self._steps = steps
        self._on_pod = on_pod
        self._on_question = on_question
        self._answers: list[Answer] = []
        self._special: list[str] = []
        self._claims = Claims(bundle, rules)
        self._store, self._roster = Store(rules), Roster()
        slices, others = bundle.of(ResourceSlice), list(bundle.objects())
        self._first = classes_first(others)
        pods = [pod for pod in self._claims.pods if not served_by_classes(pod, self._first)]
        found = ((plugin, plugin.offline(others, pods, options)) for plugin in PLUGINS)
        self._devices: list[tuple[Any, PodDevices]] = [one for one in found if one[1] is not None]
        self._pods = PodReport(notes=[note for _, part in self._devices for note in part.notes])
        with_devices = [node for _, part in self._devices for node in part.nodes]
        self._inferred = infer_nodes(bundle.of(Node), slices, with_devices)
        self._nowhere = tuple(one.key.name for one in slices if _nowhere(one.spec))
        nodes = _table(self._inferred, (*bundle.of(Namespace), *storage_of(bundle)))
        placement = self._placement = Placement(nodes, supposed=True)
        self._nodes = nodes
        ours = Ownership(all_claims=True, alone=True)
        self._planner = Planner(self._store, self._roster, placement, ours, (), lambda: policies)
        self._charges = Charges(self._store, self._roster, nodes)
        for kind in (ResourceSlice, DeviceClass, DeviceTaintRule):
            load(self._store, bundle.of(kind))
        load(self._store, self._inferred.nodes)
        claims = [self._claims.typed(key) for key in self._claims.entries]
        self._before = tuple(claim.key for claim in claims if claim.allocation is not None)
        load(self._store, claims)
        load(self._store, self._claims.pods)
        for pod in self._claims.pods:
            self._roster.note(pod.key, pod)
            self._charges.pod(pod.key)
        self.waiting: list[Pod | ResourceClaim] = [
            *filter(is_live, self._claims.pods),
            *(one for one in claims if one.allocation is None and not self._roster.users(one.key)),
        ]
        """Pods, and claims without a pod"""
        self._gangs = self._gangs_of(bundle, nodes)
        self._gangs_decided: set[GangKey] = set()
        self._gangs_placed: list[tuple[GangKey, GangGranted]] = []

    def _gangs_of(self, bundle: Bundle, nodes: Nodes) -> "OfflineGangs | None":
        """The gangs of the pods; None if there is none."""
        if all(gang_of(pod) is None for pod in self._claims.pods):
            return None
        from reconciler.control.gangs.search import OfflineGangs  # noqa: PLC0415 - few inputs have gangs

        return OfflineGangs(
            [one for kind in GROUPS for one in bundle.of(kind)],
            self._claims.pods,
            self._store,
            self._roster,
            nodes,
            self._planner,
            steps=self._steps,
        )

    def report(self) -> Report:
        return Report(
            tuple(self._answers),
            self._before,
            self._inferred,
            self._nowhere,
            self._unusable(),
            {key: entry.raw for key, entry in self._claims.entries.items()},
            self._pods if self._devices else None,
            tuple(self._gangs_placed),
            tuple(self._special),
        )

    def _unusable(self) -> Mapping[PoolID, str]:
        topology = self._store.snapshot().topology
        found: dict[PoolID, str] = {}
        for name in topology.nodes:
            # The answers already name a selector that cannot be read.
            with suppress(Rejected):
                for on_node in topology.view(name).pools:
                    if on_node.problem:
                        found.setdefault(on_node.pool, on_node.problem)
        return found

    def decide_pod(self, pod: Pod) -> None:
        """Decide all pending claims of a pod, its devices of a plugin, or its whole gang."""
        if self._gangs is not None and (gang := self._gangs.gang(pod)) is not None:
            if gang not in self._gangs_decided:
                self._gangs_decided.add(gang)
                self._decide_gang(gang, self._gangs)
            return
        for plugin, part in self._devices:
            if serving(pod, self._first) is plugin and not plugin.holds(pod):
                self._decide_devices(pod, part)
                return
        waiting = tuple(key for key in claims_of(pod) if self._waits(key))
        unmade, absent = self._claims.unmade.get(pod.key), self._claims.absent.get(pod.key)
        if unmade is not None:
            self._answers.append(Answer(pod.key, waiting, Blocked(waiting, NOT_MADE, unmade)))
        elif absent is not None:
            self._answers.append(Answer(pod.key, waiting, Blocked(waiting, NOT_FOUND, absent)))
        else:
            self._next_step(Unit(Kind.POD, pod.key), waiting)

    def _decide_devices(self, pod: Pod, part: PodDevices) -> None:
        """Give a pod devices of a plugin, or refuse it."""
        found = self._devices_of(pod, part)
        if isinstance(found, PodRefusal):
            self._pods.refused.append((pod.key, found))
        else:
            self._pods.given.append(found)

    def _devices_of(self, pod: Pod, part: PodDevices) -> PodGrant | PodRefusal:
        if (why := part.refusal(pod)) is not None:
            return why
        snapshot = self._store.snapshot()
        try:
            choice = self._placement.for_pod(pod, (), snapshot, offered=part.offered)
        except Rejected as exc:
            return PodRefusal(refusal_reason(exc), str(exc))
        names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
        self._on_pod(pod, part, names.__contains__)
        found = part.place(
            pod, names.__contains__, lambda: self._placement.left_out(pod, (), snapshot, offered=part.offered)
        )
        if isinstance(found, PodGrant):
            self._nodes.host(pod.key, pod, found.node, room_for(pod))
        return found

    def _decide_gang(self, gang: GangKey, gangs: "OfflineGangs") -> None:
        """Decide all gated pods of a gang together, in the place of its first one."""
        members = gangs.members(gang)
        pods = [pod for pod in self._claims.pods if pod.gated and is_live(pod) and pod.key in members]
        granted = gangs.place(gang)
        if granted is None:
            return
        if isinstance(granted, Blocked):
            for pod in pods:
                self._refuse(pod, granted)
            return
        for seat in granted.seats:
            keys = tuple(plan.claim for plan in seat.plans)
            for plan in seat.plans:
                self._hold(plan)
            self._charges.assume(seat.pod, seat.node)
            self._charges.claims(keys)
            if keys:
                self._answers.append(Answer(seat.pod, keys, Granted(seat.node, seat.plans, granted.steps)))
        seated = {gang_of(pod) for pod in pods if pod.key not in granted.left_out}
        for pod in pods:
            if pod.key in granted.left_out:
                group = gang_of(pod)
                none = "there is no place for this pod"
                what = none if group in seated else f"its group {group} cannot be placed as a whole"
                self._refuse(pod, Blocked((), str(Reason.NO_NODE), f"its gang has its minimum, and {what}"))
        self._gangs_placed.append((gang, granted))

    def _refuse(self, pod: Pod, why: Blocked) -> None:
        waiting = tuple(key for key in claims_of(pod) if self._waits(key))
        self._answers.append(Answer(pod.key, waiting, Blocked(waiting, why.reason, why.message)))

    def decide_claim(self, claim: ResourceClaim) -> None:
        """Decide a claim that no pod names."""
        if claim.deleting:
            why = f"claim {claim.key} is being deleted"
            self._answers.append(Answer(None, (claim.key,), Blocked((claim.key,), DELETING, why)))
        else:
            self._next_step(Unit(Kind.CLAIM, claim.key), (claim.key,))

    def _waits(self, key: ObjectKey) -> bool:
        claim = self._store.claims.get(key)
        return claim is not None and claim.allocation is None

    def _next_step(self, unit: Unit, waiting: tuple[ObjectKey, ...]) -> None:
        """Do what the unit needs next, as far as possible without a cluster."""
        pod = unit.key if unit.kind is Kind.POD else None
        match self._planner.next(unit):
            case Blocked() as blocked:
                self._answers.append(Answer(pod, waiting, blocked))
            case Decide() as question:
                self._answers.append(self._decided(pod, question))

    def _decided(self, pod: ObjectKey | None, question: Decide) -> Answer:
        """Decide claims together, and count their devices as held."""
        snapshot = self._store.snapshot()
        among = None if question.nodes is None else tuple(question.nodes)

        def left_out() -> str:
            return "; ".join(filter(None, [self._planner.left_out(question), self._unlabelled(question)]))

        self._on_question(Question(pod, question.claims, among, snapshot, left_out))
        keys = tuple(claim.key for claim in question.claims)
        outcome = decide_claims(
            question.claims,
            snapshot,
            nodes=question.nodes,
            steps=self._steps,
            companions=question.together,
            charging=question.charging,
            policy=question.policies.of(question.claims, snapshot),
            pod=question.room,
        )
        if not isinstance(outcome, Granted):
            return Answer(pod, keys, outcome, left_out())
        for claim in filter(lambda one: one.is_special, question.claims):
            self._special += made_by_scheduler(claim, snapshot)
        for plan in outcome.plans:
            self._hold(plan)
        self._charges.claims(keys)
        return Answer(pod, keys, outcome)

    def _hold(self, plan: Plan) -> None:
        """Count the devices of a plan as held, as if it were written."""
        self._store.assume(plan)
        load(self._store, [_holding(self._store.claims[plan.claim], plan)])

    def _unlabelled(self, question: Decide) -> str:
        """How many nodes may be excluded only because the input lacks their labels."""
        undescribed = len(self._inferred.supposed)
        if question.nodes is None or len(question.nodes) or not undescribed or question.pod is None:
            return ""
        nodes = "node" if undescribed == 1 else "nodes"
        return f"the labels of {undescribed} {nodes} are unknown; add the Node objects to the input"


def _table(found: InferredNodes, others: Iterable[ApiObject]) -> Nodes:
    nodes = Nodes()
    for thing in others:
        nodes.note(Changed(type(thing).__name__, thing))
    for node in found.described:
        nodes.note(Changed("Node", node))
    for node in found.supposed:
        nodes.suppose(node)
    return nodes


def _holding(claim: ResourceClaim, plan: Plan) -> ResourceClaim:
    """The claim as the server shows it once the plan is written."""
    return claim.replacing("status", allocation=plan.allocation)


def _nowhere(spec: ResourceSliceSpec) -> bool:
    placed = spec.node_name or spec.all_nodes or spec.per_device_node_selection
    return not placed and spec.node_selector is None


def _allocated(raw: Mapping[str, Any], plan: Plan, stamp: str) -> dict[str, Any]:
    metadata = dict(raw["metadata"])
    metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
    if plan.annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **dict(plan.annotations)}
    written = {**plan.allocation.to_json(), "allocationTimestamp": stamp}
    return {**raw, "metadata": metadata, "status": {**(raw.get("status") or {}), "allocation": written}}


def made_by_scheduler(claim: ResourceClaim, snapshot: Snapshot) -> Iterator[str]:
    """Notes on a special claim: nobody else can make it, and whose devices it may get (EXT-4, EXT-5)."""
    yield (
        f"claim {claim.key} does not exist yet: kube-scheduler makes it for the extended resources of the "
        "pod, once `run` has chosen the node and removed the gate"
    )
    try:
        found = selected_drivers(claim, snapshot)
    except Fatal:  # the decision reports it
        return
    for name, drivers in found.items():
        if len(drivers) > 1:
            several = f"class {name} selects devices of several drivers: {', '.join(sorted(drivers))}"
            yield f"{several}; unless all are its own, `run` refuses the pod ({UNSAFE}): {REMEDY}"
