"""Gangs: groups of pods of which enough run together, or none. How pods and PodGroups declare them.

Three sources: a PodGroup of Kubernetes, a PodGroup of the coscheduling plugin, or annotations of ours on
the pods. PodGroups of Kubernetes may form a tree. Source: GANG-1 to GANG-5, TREE-1.

The annotation of a member's node is written before any gate of the gang is removed, on its claims and on
the pod itself, so that a successor can finish what was begun, or give it back (GANG-23).
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from pydantic import Field

from reconciler.api.objects.core import GATE, Pod, PodResourceClaim, PodResourceClaimStatus, names_of_claims
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Int, Model, Str, Tuple
from reconciler.api.objects.pinning import Operation, pin
from reconciler.api.objects.semantics import GROUP_CLAIMS, Semantics
from reconciler.errors import Malformed

GANG = "dra-reconciler.io/gang"
"""Annotation: the name of the gang, within the namespace of the pod"""
SIZE = "dra-reconciler.io/gang-size"
"""Annotation: how many pods must run together; the same in every pod of the gang"""
TOPOLOGY = "dra-reconciler.io/gang-topology"
"""Annotation: node labels or device attributes, the tightest first: `rack=preferred,block=required`"""
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
MAX_SIZE = 10_000
MAX_TIERS = 8


class GangSource(StrEnum):
    """Where a gang is declared."""

    POD_GROUP = "podgroup"
    """scheduling.k8s.io"""
    COMPOSITE = "compositepodgroup"
    """A group of groups of scheduling.k8s.io. Only the root of a tree is a gang"""
    COSCHEDULING = "coscheduling"
    """scheduling.x-k8s.io"""
    ANNOTATION = "annotation"


class GangKey(NamedTuple):
    """Identifies a gang. Gangs of different sources with one name are different gangs."""

    namespace: str
    source: GangSource
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Tier(NamedTuple):
    """All pods of a gang on nodes, or with devices, that share the value of a label or attribute."""

    key: str
    required: bool


class GangRules(Struct, frozen=True):
    """What a gang needs."""

    least: int
    """Pods that must run together, at least 1; of a group of groups, the groups"""
    tiers: tuple[Tier, ...] = ()
    """The tightest first"""
    name: str = ""
    """In a tree: the name of the group"""
    groups: tuple["GangRules", ...] = ()
    """The groups in a group of groups"""

    def walk(self) -> Iterator["GangRules"]:
        """The group and all that is in it, from the top."""
        yield self
        for group in self.groups:
            yield from group.walk()

    @property
    def least_pods(self) -> int:
        """Pods that must run together at least."""
        if not self.groups:
            return self.least
        return sum(sorted(group.least_pods for group in self.groups)[: self.least])

    def group_of(self, pod: Pod) -> str:
        """The name of the group in the tree that a pod of the gang is in; empty if there is no tree."""
        gang = gang_of(pod) if self.groups else None
        return gang.name if gang is not None else ""

    def is_met(self, pods: Mapping[str, int]) -> bool:
        """Whether so many pods of each group suffice."""
        if not self.groups:
            return pods.get(self.name, 0) >= self.least
        return sum(group.is_met(pods) for group in self.groups) >= self.least

    def met(self, pods: Mapping[str, int]) -> Iterator[str]:
        """The groups of pods that may run: they have enough, and so have all groups that they are in."""
        if self.is_met(pods):
            if not self.groups:
                yield self.name
            for group in self.groups:
                yield from group.met(pods)


class GangPolicy(Model):
    """All or nothing for so many pods."""

    min_count: Int


class SchedulingPolicy(Model):
    """How the pods of a PodGroup are scheduled. Without `gang`, each on its own."""

    gang: GangPolicy | None = None


class TopologyConstraint(Model):
    """A node label of which all pods of a PodGroup share the value."""

    key: Str


class SchedulingConstraints(Model):
    """Where the pods of a PodGroup may be together."""

    topology: Tuple[TopologyConstraint] = ()


class DisruptionMode(Model):
    """Whether the pods of a PodGroup are disrupted together. One of both is set."""

    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None


class _GroupSpec(Model):
    """What groups of pods and groups of groups have in common."""

    parent_composite_pod_group_name: Str | None = None
    """The group of groups that it is in"""
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: Int | None = None
    """Counts instead of that of its pods, which Kubernetes wants to be equal"""
    preemption_policy: Str | None = None
    priority_class_name: Str | None = None

    @property
    def leaves_whole(self) -> bool:
        """Whether what is in it is disrupted only together."""
        return self.disruption_mode is not None and self.disruption_mode.all is not None

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Of which labels all nodes share the value."""
        constraints = self.scheduling_constraints
        topology = constraints.topology if constraints is not None else ()
        return tuple(Tier(tier.key, required=True) for tier in topology)


class PodGroupSpec(_GroupSpec):
    """The fields of a PodGroup that an answer depends on."""

    scheduling_policy: SchedulingPolicy = Field(default_factory=SchedulingPolicy)
    resource_claims: Tuple[PodResourceClaim] = ()


class PodGroupStatus(Model):
    """The claims that were created from the templates of a PodGroup."""

    resource_claim_statuses: Tuple[PodResourceClaimStatus] = ()


class PodGroup(ApiObject):
    """A group of pods, scheduling.k8s.io."""

    kind: Literal["PodGroup"] = "PodGroup"
    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)

    @property
    def rules(self) -> GangRules | None:
        """What the gang needs; None if the group is no gang."""
        gang = self.spec.scheduling_policy.gang
        return GangRules(gang.min_count, self.spec.tiers) if gang is not None else None


MAX_DEPTH = 4
"""Levels of groups in a tree, the PodGroups among them"""


class CompositeGangPolicy(Model):
    """All or nothing for so many groups."""

    min_group_count: Int


class CompositeSchedulingPolicy(Model):
    """How the groups in a CompositePodGroup are scheduled. Without `gang`, one of them is enough."""

    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(_GroupSpec):
    """The fields of a CompositePodGroup that an answer depends on."""

    scheduling_policy: CompositeSchedulingPolicy = Field(default_factory=CompositeSchedulingPolicy)


class CompositePodGroup(ApiObject):
    """A group of groups, scheduling.k8s.io."""

    kind: Literal["CompositePodGroup"] = "CompositePodGroup"
    spec: CompositePodGroupSpec = Field(default_factory=CompositePodGroupSpec)

    @property
    def least(self) -> int:
        """How many of its groups must run together."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_group_count if gang is not None else 1


class SchedulingWorkload(ApiObject):
    """Templates of PodGroups, scheduling.k8s.io. Controllers make the groups; no decision reads it."""

    kind: Literal["Workload"] = "Workload"
    spec: dict[str, Any] = Field(default_factory=dict)


class CoschedulingPodGroupSpec(Model):
    """The fields of a coscheduling PodGroup that a placement depends on."""

    min_member: Int = Field(default=1)


class CoschedulingPodGroup(ApiObject):
    """A group of pods, scheduling.x-k8s.io."""

    kind: Literal["PodGroup"] = "PodGroup"
    spec: CoschedulingPodGroupSpec = Field(default_factory=CoschedulingPodGroupSpec)

    @property
    def rules(self) -> GangRules:
        """What the gang needs."""
        return GangRules(max(self.spec.min_member, 1))


GROUPS: tuple[type[PodGroup | CompositePodGroup | CoschedulingPodGroup], ...] = (
    PodGroup,
    CompositePodGroup,
    CoschedulingPodGroup,
)
"""The kinds of groups. A group of groups comes after the groups of pods: only these say that it matters"""


def gang_of(pod: Pod) -> GangKey | None:
    """The gang that a pod names. A PodGroup of Kubernetes wins over a label, a label over an annotation.

    The PodGroup may not exist, or may be no gang.
    """
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GangKey(pod.key.namespace, GangSource.POD_GROUP, group.pod_group_name)
    if name := pod.metadata.labels.get(COSCHEDULING_LABEL):
        return GangKey(pod.key.namespace, GangSource.COSCHEDULING, name)
    if name := pod.metadata.annotations.get(GANG):
        return GangKey(pod.key.namespace, GangSource.ANNOTATION, name)
    return None


def annotated_rules(pod: Pod) -> GangRules:
    """What a gang that annotations declare needs, as one of its pods says. Raises Malformed."""
    subject, annotations = f"Pod {pod.key}", pod.metadata.annotations
    text = annotations.get(SIZE)
    if text is None:
        raise _malformed(subject, SIZE, "is missing; set it to the number of pods")
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_SIZE):
        raise _malformed(subject, SIZE, f"{text!r} is not a number of pods from 1 to {MAX_SIZE}")
    return GangRules(int(text), _tiers(annotations.get(TOPOLOGY, ""), subject))


def _tiers(text: str, subject: str) -> tuple[Tier, ...]:
    """`rack=preferred,block=required`, or a key alone, which is required."""
    tiers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, how = part.partition("=")
        if not key or how not in ("", "required", "preferred"):
            raise _malformed(subject, TOPOLOGY, f"{part!r} is not KEY, KEY=required or KEY=preferred")
        tiers.append(Tier(key, required=how != "preferred"))
    if len(tiers) > MAX_TIERS:
        raise _malformed(subject, TOPOLOGY, f"has {len(tiers)} keys; the maximum is {MAX_TIERS}")
    return tuple(tiers)


def _malformed(subject: str, annotation: str, what: str) -> Malformed:
    return Malformed(subject, f"metadata.annotations[{annotation}]", what)


def group_claims(pod: Pod, group: PodGroup) -> dict[str, str | None]:
    """Entry of the pod's `resourceClaims` -> name of the group's claim.

    Only entries that stand for one of the group: name, claim and template are equal. None while the claim of
    a template does not exist; an entry whose template needed no claim is omitted (SCHED-2).
    """
    of_group = set(group.spec.resource_claims)
    entries = (entry for entry in pod.spec.resource_claims if entry in of_group)
    return names_of_claims(entries, group.status.resource_claim_statuses)


def unmade_claims(rules: Semantics) -> str:
    """Why no claim is made from the templates of PodGroups; empty if claims are."""
    return "" if rules.has(GROUP_CLAIMS) else f"none is made while the feature gate {GROUP_CLAIMS} is off"


SEAT = "dra-reconciler.io/gang-seat"
"""`SOURCE/NAME SIZE NODE`. On a claim: it was allocated for this gang. On a pod: it is to run on this node"""

FENCED = "dra-reconciler.io/fenced"
"""On a claim, for a moment: changes its resourceVersion, so that a late write to it gets a conflict"""


class SeatMark(NamedTuple):
    """What the annotation says."""

    gang: GangKey
    size: int
    """Pods that must run together"""
    node: str

    def __str__(self) -> str:
        return f"{self.gang.source}/{self.gang.name} {self.size} {self.node}"


def seat_mark(thing: ApiObject, gang: GangKey) -> SeatMark | None:
    """The mark on a claim or a pod, if it was set for this gang."""
    name, _, rest = thing.metadata.annotations.get(SEAT, "").partition(" ")
    size, _, node = rest.partition(" ")
    if name != f"{gang.source}/{gang.name}" or not (size.isascii() and size.isdecimal()) or not node:
        return None
    return SeatMark(gang, int(size), node)


def seated_on(pod: Pod) -> str:
    """The node that is recorded on a gated pod for its gang; else empty."""
    if SEAT not in pod.metadata.annotations or not pod.gated:
        return ""
    gang = gang_of(pod)
    mark = seat_mark(pod, gang) if gang is not None else None
    return mark.node if mark is not None else ""


def record(mark: SeatMark) -> dict[str, Any]:
    """The merge patch that records the node of a gated pod."""
    return {"metadata": {"annotations": {SEAT: str(mark)}}}


def take_back() -> dict[str, Any]:
    """The merge patch that removes what `record` wrote."""
    return {"metadata": {"annotations": {SEAT: None}}}


def release(pod: Pod) -> dict[str, Any]:
    """The merge patch that removes our gate; other gates stay."""
    return {"spec": {"schedulingGates": _other_gates(pod) or None}}


def release_on(pod: Pod, node: str) -> list[Operation]:
    """The steps of a JSON patch that restricts a pod to a node and removes our gate."""
    gates: Operation = {"op": "add", "path": "/spec/schedulingGates", "value": _other_gates(pod)}
    return [*([] if pod.spec.node_name else pin(pod, node)), gates]


def _other_gates(pod: Pod) -> list[Any]:
    return [gate.to_json() for gate in pod.spec.scheduling_gates if gate.name != GATE]
