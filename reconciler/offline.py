"""Allocation without a cluster: manifests in, the devices of every claim or the reason against it out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from reconciler.errors import Rejected
from reconciler.inventory.loading import load
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.joint import decide as decide_claims
from reconciler.legacy import reading
from reconciler.manifests.bundle import Bundle, Entry
from reconciler.manifests.generated import ENTRY_ANNOTATION, claim_from_template
from reconciler.manifests.nodes import NodePicture, picture
from reconciler.manifests.uids import with_own_uid
from reconciler.objects.claims import (
    FINALIZER,
    Allocation,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
from reconciler.objects.core import Node, Pod
from reconciler.objects.meta import ObjectKey, PoolID
from reconciler.objects.plan import Granted, Plan, Unsatisfied
from reconciler.objects.pods import is_live
from reconciler.objects.semantics import Semantics
from reconciler.objects.slices import ResourceSlice, ResourceSliceSpec
from reconciler.objects.taintrules import DeviceTaintRule
from reconciler.reconcile.placement import candidates

STEPS = 10_000
"""Devices that may be tried for one decision on one node."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Claims that were not decided at all, because of something else in the input."""

    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of claims that were decided together."""

    pod: ObjectKey | None
    claims: tuple[ObjectKey, ...]
    outcome: Granted | Unsatisfied | Blocked


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was decided, in the order in which it was."""

    answers: tuple[Answer, ...]
    held: tuple[ObjectKey, ...]
    """Claims that were allocated before"""
    nodes: NodePicture
    nowhere: tuple[str, ...]
    """Slices that no node can use, since they say nothing about nodes"""
    unusable: Mapping[PoolID, str]
    """Pools from which no device is given on some node, because slices are missing or contradict, and why"""
    written: Mapping[ObjectKey, Mapping[str, Any]]
    """Every claim as the input spells it, and those made from templates"""

    @property
    def waiting(self) -> tuple[Answer, ...]:
        """The answers that leave a claim, or a pod, without devices."""
        granted = {plan.claim for answer in self.granted for plan in answer.plans}
        return tuple(
            answer
            for answer in self.answers
            if not isinstance(answer.outcome, Granted)
            and not (answer.claims and granted.issuperset(answer.claims))
        )

    @property
    def granted(self) -> tuple[Granted, ...]:
        """The answers that give devices."""
        return tuple(answer.outcome for answer in self.answers if isinstance(answer.outcome, Granted))

    def allocated(self, now: datetime) -> list[dict[str, Any]]:
        """The claims that got devices, as a live run would leave them on the server at that time."""
        stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return [
            _allocated(self.written[plan.claim], plan, stamp)
            for granted in self.granted
            for plan in granted.plans
        ]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked when the turn of some claims comes: the claims, where, and what is held by then."""

    pod: ObjectKey | None
    claims: tuple[ResourceClaim, ...]
    nodes: tuple[str, ...] | None
    """None for all nodes"""
    world: Snapshot


def decide(
    bundle: Bundle,
    rules: Semantics,
    *,
    steps: int = STEPS,
    only: Callable[[ObjectKey | None, tuple[ObjectKey, ...]], bool] = lambda _pod, _claims: True,
    asking: Callable[[Question], None] = lambda _: None,
) -> Report:
    """Allocate every waiting claim of a bundle.

    `only` says, given a pod and its claims, or no pod and a claim, whether those are decided at all;
    `asking` is told every question before it is answered.

    The claims of one pod are decided together, for one node; other claims one by one. First come higher
    pod priorities (a claim on its own has 0), then older objects, then the order of the input. Objects
    without a creation time count as youngest. Never raises for what is in the bundle.
    """
    run = _Run(bundle, rules, steps, asking)
    for pod in run.pods:
        run.make_claims(pod)
    alone = [entry for key, entry in run.claims.items() if key not in run.used]
    turns: list[Entry] = [*bundle.entries.get("Pod", {}).values(), *alone]
    for entry in sorted(turns, key=turn):
        if isinstance(entry.object, Pod):
            if is_live(entry.object) and only(entry.object.key, run.needs(entry.object)):
                run.decide_pod(entry.object)
        elif only(None, (entry.object.key,)):
            run.decide_claims((entry.object.key,), None)
    return run.report()


def turn(entry: Entry) -> tuple[int, str, int]:
    """Where a pod or claim stands: by priority, age and place in the input."""
    urgency = -(entry.object.spec.priority or 0) if isinstance(entry.object, Pod) else 0
    # "~" sorts behind every digit: what has no creation time yet is younger than what has one.
    return urgency, entry.object.metadata.creation_timestamp or "~", entry.number


class _Run:
    """The state of one run: what is known, what is held, what was answered."""

    def __init__(
        self, bundle: Bundle, rules: Semantics, steps: int, asking: Callable[[Question], None]
    ) -> None:
        self.pods = [pod for pod in bundle.of(Pod) if is_live(pod)]
        self.claims: dict[ObjectKey, Entry] = dict(bundle.entries.get("ResourceClaim", {}))
        self.used: set[ObjectKey] = set()
        self._templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
        self._steps = steps
        self._asking = asking
        self._store = Store(rules)
        self._needs: dict[ObjectKey, tuple[tuple[ObjectKey, ...], str]] = {}
        self._held: dict[ObjectKey, Allocation] = {}
        self._answers: list[Answer] = []
        self._nodes = picture(bundle.of(Node), bundle.of(ResourceSlice))
        self._nowhere = tuple(s.key.name for s in bundle.of(ResourceSlice) if _nowhere(s.spec))
        for kind in (ResourceSlice, DeviceClass, DeviceTaintRule):
            load(self._store, bundle.of(kind))
        load(self._store, self._nodes.nodes)
        for key in self.claims:
            claim = self._claim(key)
            if claim.allocation is not None:
                load(self._store, [claim])
                self._held[key] = claim.allocation
        self._before = tuple(self._held)

    def report(self) -> Report:
        written = {key: entry.raw for key, entry in self.claims.items()}
        return Report(
            tuple(self._answers), self._before, self._nodes, self._nowhere, self._unusable(), written
        )

    def _unusable(self) -> Mapping[PoolID, str]:
        topology = self._store.snapshot().topology
        found: dict[PoolID, str] = {}
        for name in topology.nodes:
            # A selector that cannot be read is an answer already: the node was refused for it.
            with suppress(Rejected):
                for on_node in topology.view(name).pools:
                    if on_node.problem:
                        found.setdefault(on_node.pool, on_node.problem)
        return found

    def make_claims(self, pod: Pod) -> None:
        """Find the claims of a pod, and make those that come from templates."""
        needs: list[ObjectKey] = []
        missing = ""
        templates = {entry.name: entry.resource_claim_template_name for entry in pod.spec.resource_claims}
        for entry, name in pod.claim_names().items():
            key = ObjectKey(pod.key.namespace, name or f"{pod.key.name}-{entry}")
            problem = self._absent(key) if name else self._make(pod, entry, key, templates[entry])
            if problem:
                missing = missing or problem
            else:
                needs.append(key)
        self.used.update(needs)
        self._needs[pod.key] = tuple(dict.fromkeys(needs)), missing

    def needs(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """The claims of a pod, as far as they are there."""
        return self._needs[pod.key][0]

    def decide_pod(self, pod: Pod) -> None:
        """Decide all claims of a pod that wait still, where the pod can run and use what it holds."""
        needs, missing = self._needs[pod.key]
        waiting = tuple(key for key in needs if key not in self._held)
        if missing:
            self._answers.append(Answer(pod.key, waiting, Blocked(missing)))
            return
        if not waiting:
            return
        held = [self._held[key] for key in needs if key in self._held]
        known = self._store.snapshot().topology.nodes
        try:
            nodes = candidates(pod, held, known)
        except Rejected as exc:
            self._answers.append(Answer(pod.key, waiting, Blocked(str(exc))))
            return
        if nodes == ():
            why = f"none of the nodes known ({len(known)}) goes with {_bounds(pod, held)}"
            undescribed = len(self._nodes.named) + (self._nodes.assumed is not None)
            if undescribed:
                why += f"; the labels of {undescribed} are not in the input, for want of Node objects"
            self._answers.append(Answer(pod.key, waiting, Blocked(why)))
            return
        self.decide_claims(waiting, pod.key, nodes)

    def decide_claims(
        self, keys: tuple[ObjectKey, ...], pod: ObjectKey | None, nodes: Iterable[str] | None = None
    ) -> None:
        """Decide claims together, and count what they get as held."""
        if any(key in self._held for key in keys):
            return
        claims = [self._claim(key) for key in keys]
        leaving = [claim.key for claim in claims if claim.deleting]
        if leaving:
            self._answers.append(Answer(pod, keys, Blocked(f"claim {leaving[0]} is being deleted")))
            return
        where = None if nodes is None else tuple(nodes)
        self._asking(Question(pod, tuple(claims), where, self._store.snapshot()))
        outcome = decide_claims(claims, self._store.snapshot(), nodes=where, steps=self._steps)
        self._answers.append(Answer(pod, keys, outcome))
        if isinstance(outcome, Granted):
            for plan in outcome.plans:
                self._store.assume(plan)
                self._held[plan.claim] = plan.allocation

    def _claim(self, key: ObjectKey) -> ResourceClaim:
        return with_own_uid(cast("ResourceClaim", self.claims[key].object))

    def _absent(self, key: ObjectKey) -> str:
        return "" if key in self.claims else f"claim {key} is not among the objects read"

    def _make(self, pod: Pod, entry: str, key: ObjectKey, template: str | None) -> str:
        """Make a claim from a template unless it is there already. Returns what stands against it."""
        if template is None:
            return f"resourceClaims entry {entry!r} names neither a claim nor a template"
        known = self.claims.get(key)
        if known is not None:
            made = known.object.metadata.annotations.get(ENTRY_ANNOTATION) == entry
            return (
                "" if made else f"the claim for entry {entry!r} would be {key}, which is another claim's name"
            )
        source = self._templates.get(ObjectKey(pod.key.namespace, template))
        if source is None:
            return f"template {pod.key.namespace}/{template} is not among the objects read"
        raw = claim_from_template(pod, entry, source.raw)
        self.claims[key] = Entry(source.origin, raw, reading.typed(raw), source.number)
        return ""


def _nowhere(spec: ResourceSliceSpec) -> bool:
    placed = spec.node_name or spec.all_nodes or spec.per_device_node_selection
    return not placed and spec.node_selector is None


def _bounds(pod: Pod, held: Sequence[Allocation]) -> str:
    """What limits a pod to some nodes, in words."""
    spec = pod.spec
    bounds = [f"node name {spec.node_name}"] if spec.node_name else []
    if spec.node_selector:
        bounds.append(
            "node selector " + ", ".join(f"{key}={value}" for key, value in spec.node_selector.items())
        )
    if spec.affinity is not None:
        bounds.append("node affinity")
    if held:
        bounds.append("the nodes of the claims it holds")
    return "the pod's " + " and ".join(bounds)


def _allocated(raw: Mapping[str, Any], plan: Plan, stamp: str) -> dict[str, Any]:
    metadata = dict(raw["metadata"])
    metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
    if plan.annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **dict(plan.annotations)}
    written = {**plan.allocation.to_json(), "allocationTimestamp": stamp}
    return {
        **raw,
        "metadata": metadata,
        "status": {**(raw.get("status") or {}), "allocation": written},
    }
