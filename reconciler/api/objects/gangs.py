"""Gangs: groups of pods of which enough run together, or none. How pods and PodGroups declare them.

Three sources: a PodGroup of Kubernetes, a PodGroup of the coscheduling plugin, or annotations of ours on
the pods. Source: GANG-1 to GANG-5.

The annotation of a member's node is written before any gate of the gang is removed, on its claims and on
the pod itself, so that a successor can finish what was begun, or give it back (GANG-23).
"""

from enum import StrEnum
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from pydantic import Field

from reconciler.api.objects.core import GATE, Pod, PodResourceClaim, PodResourceClaimStatus
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Int, Model, Str, Tuple
from reconciler.api.objects.pinning import Operation, pin
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
    """Pods that must run together, at least 1"""
    tiers: tuple[Tier, ...] = ()
    """The tightest first"""


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


class PodGroupSpec(Model):
    """The fields of a PodGroup that an answer depends on."""

    scheduling_policy: SchedulingPolicy = Field(default_factory=SchedulingPolicy)
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: Tuple[PodResourceClaim] = ()
    disruption_mode: DisruptionMode | None = None
    priority: Int | None = None
    """Counts instead of that of its pods, which Kubernetes wants to be equal"""
    preemption_policy: Str | None = None


class PodGroupStatus(Model):
    """The claims that were created from the templates of a PodGroup."""

    resource_claim_statuses: Tuple[PodResourceClaimStatus] = ()


class PodGroup(ApiObject):
    """A group of pods, scheduling.k8s.io."""

    kind: Literal["PodGroup"] = "PodGroup"
    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)

    @property
    def leaves_whole(self) -> bool:
        """Whether its pods are disrupted only together."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def rules(self) -> GangRules | None:
        """What the gang needs; None if the group is no gang."""
        gang = self.spec.scheduling_policy.gang
        if gang is None:
            return None
        constraints = self.spec.scheduling_constraints
        tiers = constraints.topology if constraints is not None else ()
        return GangRules(gang.min_count, tuple(Tier(tier.key, required=True) for tier in tiers))


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
        raise Malformed(subject, f"metadata.annotations[{SIZE}]", "is missing; set it to the number of pods")
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_SIZE):
        raise Malformed(
            subject,
            f"metadata.annotations[{SIZE}]",
            f"{text!r} is not a number of pods from 1 to {MAX_SIZE}",
        )
    return GangRules(int(text), _tiers(annotations.get(TOPOLOGY, ""), subject))


def _tiers(text: str, subject: str) -> tuple[Tier, ...]:
    """`rack=preferred,block=required`, or a key alone, which is required."""
    tiers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, how = part.partition("=")
        if not key or how not in ("", "required", "preferred"):
            raise Malformed(
                subject,
                f"metadata.annotations[{TOPOLOGY}]",
                f"{part!r} is not KEY, KEY=required or KEY=preferred",
            )
        tiers.append(Tier(key, required=how != "preferred"))
    if len(tiers) > MAX_TIERS:
        raise Malformed(
            subject,
            f"metadata.annotations[{TOPOLOGY}]",
            f"has {len(tiers)} keys; the maximum is {MAX_TIERS}",
        )
    return tuple(tiers)


def group_claims(pod: Pod, group: PodGroup) -> dict[str, str | None]:
    """Entry of the pod's `resourceClaims` -> name of the group's claim.

    Only entries that stand for one of the group: name, claim and template are equal. None while the claim of
    a template does not exist; an entry whose template needed no claim is omitted (SCHED-2).
    """
    of_group = set(group.spec.resource_claims)
    made = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    names: dict[str, str | None] = {}
    for entry in pod.spec.resource_claims:
        if entry not in of_group:
            continue
        if entry.resource_claim_name is not None:
            names[entry.name] = entry.resource_claim_name
        elif entry.name not in made:
            names[entry.name] = None
        elif made[entry.name] is not None:
            names[entry.name] = made[entry.name]
    return names


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
