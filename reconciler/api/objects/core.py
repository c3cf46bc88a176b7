"""Node, Pod, Namespace, ConfigMap and PodDisruptionBudget: the fields that an allocation depends on."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from reconciler.api.objects.meta import ApiObject, ObjectKey, OwnerReference, is_same_version_aside
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple, kept, misplaced
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.selectors import LabelSelector, NodeSelector, NodeSelectorTerm
from reconciler.api.objects.storage import Resources, Volumes

GATE = "dra-reconciler.io/allocation"
"""The scheduling gate of pods whose claims we allocate before kube-scheduler sees them."""
WORKLOAD = "dra-reconciler.io/workload"
"""Annotation of the pods of one of Kueue's Workloads: its name. Our check lets Kueue add it when the pods are
created."""


class Taint(Model):
    """A taint of a node."""

    key: Str = ""
    value: Str = ""
    effect: Str = ""


class NodeSpec(Model):
    """Whether a node accepts pods."""

    unschedulable: Bool | None = None
    taints: Tuple[Taint] = ()


class Condition(Model):
    """A condition of a node: True, False or Unknown."""

    type: Str
    status: Str = "Unknown"


READY = "Ready"


@cache
def _is_ready() -> Condition:
    """One object for all pods."""
    return Condition(type=READY, status="True")


def _deciding(value: Any) -> Any:
    """Without conditions that no answer depends on. Kubelets report some five of each pod."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        return value
    given = [one for one in value if isinstance(one, Mapping)]
    is_ready = any(one.get("type") == READY and one.get("status") == "True" for one in given)
    return (_is_ready(),) if is_ready or _is_ready() in value else ()


class NodeStatus(Model):
    """Features, allocatable resources and conditions of a node."""

    declared_features: Tuple[Str] = ()
    allocatable: Resources = Field(default_factory=dict)
    conditions: Tuple[Condition] = ()


class Node(ApiObject):
    """A machine that runs pods."""

    kind: Literal["Node"] = "Node"
    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)


class PodSchedulingGate(Model):
    """A scheduling gate of a pod."""

    name: Str


class PodResourceClaim(Model):
    """A claim that a pod uses, by name or made from a template."""

    name: Str
    resource_claim_name: Str | None = None
    resource_claim_template_name: Str | None = None
    belongs_elsewhere: ClassVar[Any] = misplaced(
        {"source": "was removed in 1.31; move its fields up to the entry"}
    )


class PreferredSchedulingTerm(Model):
    """Nodes that a pod prefers."""

    weight: Int = 0
    preference: NodeSelectorTerm = Field(default_factory=NodeSelectorTerm)


class NodeAffinity(Model):
    """The node affinity of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Tuple[PreferredSchedulingTerm] = ()


class PodAffinityTerm(Model):
    """Pods that must be, or must not be, in the topology domain of the node."""

    label_selector: LabelSelector | None = None
    """None selects no pod"""
    namespaces: Tuple[Str] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: Str = ""
    match_label_keys: Tuple[Str] = ()
    mismatch_label_keys: Tuple[Str] = ()


class WeightedPodAffinityTerm(Model):
    """Pods that should be, or should not be, in the topology domain of the node."""

    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = Field(default_factory=PodAffinityTerm)


class PodAffinity(Model):
    """The affinity, or anti-affinity, of a pod to other pods."""

    required_during_scheduling_ignored_during_execution: Tuple[PodAffinityTerm] = ()
    preferred_during_scheduling_ignored_during_execution: Tuple[WeightedPodAffinityTerm] = ()


class Affinity(Model):
    """Which nodes a pod needs or prefers, by their labels and by the pods on them."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model):
    """How evenly pods must be spread over topology domains."""

    max_skew: Int = 1
    topology_key: Str = ""
    when_unsatisfiable: Str = ""
    label_selector: LabelSelector | None = None
    """None selects no pod"""
    min_domains: Int | None = None
    node_affinity_policy: Str | None = None
    node_taints_policy: Str | None = None
    match_label_keys: Tuple[Str] = ()


class Toleration(Model):
    """The taints of nodes that a pod tolerates."""

    key: Str = ""
    operator: Str = "Equal"
    value: Str = ""
    effect: Str = ""


class ContainerClaim(Model):
    """An entry of the pod's `resourceClaims` that a container refers to."""

    name: Str


class ResourceRequirements(Model):
    """Requests and limits of a container. Without a request its limit counts."""

    claims: Tuple[ContainerClaim] = ()
    requests: Resources = Field(default_factory=dict)
    limits: Resources = Field(default_factory=dict)


class ContainerPort(Model):
    """A port of a container. Only its port on the node matters here."""

    container_port: Int = 0
    host_port: Int = 0
    host_ip: Str = Field(default="", alias="hostIP")
    protocol: Str = ""


class RestartRule(Model):
    """What a kubelet does when a container exits."""

    action: Str = ""


class Container(Model):
    """One container of a pod."""

    name: Str = ""
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    restart_policy: Str | None = None
    """`Always` for an init container that keeps running (a sidecar)"""
    restart_policy_rules: Tuple[RestartRule] = ()
    ports: Tuple[ContainerPort] = ()


class PodSchedulingGroup(Model):
    """The group of pods that a pod belongs to."""

    pod_group_name: Str | None = None


class PodSpec(Model):
    """The fields that decide where a pod can run, and where its claims can be allocated."""

    node_name: Str = ""
    node_selector: Map[Str] = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: Tuple[Toleration] = ()
    priority: Int | None = None
    priority_class_name: Str = ""
    preemption_policy: Str = ""
    """`Never`: the pod waits rather than have others evicted"""
    scheduling_gates: Tuple[PodSchedulingGate] = ()
    resource_claims: Tuple[PodResourceClaim] = ()
    containers: Tuple[Container] = ()
    init_containers: Tuple[Container] = ()
    overhead: Resources = Field(default_factory=dict)
    resources: ResourceRequirements | None = None
    """For the pod as a whole; overrides the resources of its containers"""
    scheduling_group: PodSchedulingGroup | None = None
    topology_spread_constraints: Tuple[TopologySpreadConstraint] = ()
    host_network: Bool | None = None
    host_users: Bool | None = None
    volumes: Volumes = ()
    """Only those that may decide where the pod runs"""

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """The init containers, then the others."""
        return (*self.init_containers, *self.containers)


class PodResourceClaimStatus(Model):
    """The claim made from a template for one entry of a pod."""

    name: Str
    resource_claim_name: Str | None = None


class ExtendedResourceClaimStatus(Model):
    """The claim that kube-scheduler made for the extended resources of a pod (EXT-4)."""

    resource_claim_name: Str = ""


class ContainerStatus(Model):
    """The resources of a container now. After a resize they may still exceed its spec."""

    name: Str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = Field(default_factory=dict)


class MappedResource(Model):
    """What the devices of a claim are of a resource of the node."""

    name: Str
    quantity: Quantity | None = None


class OverheadResource(Model):
    """What a pod and its containers need of a resource of the node beside the devices of a claim."""

    name: Str
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableClaimStatus(Model):
    """What a claim of the pod takes of the resources of its node, as kube-scheduler wrote it (NAR-5)."""

    resource_claim_name: Str
    containers: Tuple[Str] = ()
    mapping: Tuple[MappedResource] = ()
    overhead: Tuple[OverheadResource] = ()


class PodStatus(Model):
    """The phase of a pod, its claims and its containers."""

    phase: Str = ""
    start_time: Str | None = None
    nominated_node_name: Str = ""
    """Where kube-scheduler makes room for the pod, or an autoscaler expects it"""
    resource_claim_statuses: Tuple[PodResourceClaimStatus] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    conditions: Annotated[tuple[Condition, ...], BeforeValidator(_deciding)] = ()
    """That it is ready, or nothing"""
    container_statuses: Tuple[ContainerStatus] = ()
    init_container_statuses: Tuple[ContainerStatus] = ()
    resources: ResourceRequirements | None = None
    """Those of the pod as a whole that are in effect now: they differ during a resize"""
    allocated_resources: Resources = Field(default_factory=dict)
    node_allocatable_resource_claim_statuses: Tuple[NodeAllocatableClaimStatus] = ()


class Pod(ApiObject):
    """A pod, which may use claims."""

    kind: Literal["Pod"] = "Pod"
    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)

    @kept
    def gated(self) -> bool:
        """Whether the pod has our scheduling gate. Cached: it is read dozens of times for each pod."""
        return GATE in [gate.name for gate in self.spec.scheduling_gates]

    @kept
    def claim_keys(self) -> tuple[ObjectKey, ...]:
        """The claims that the pod names, in its order, then that for its extended resources. Cached: they are
        read dozens of times for each pod.
        """
        names = [name for name in self.claim_names().values() if name is not None]
        if self.special_claim:
            names.append(self.special_claim)
        return tuple(dict.fromkeys(ObjectKey(self.key.namespace, name) for name in names))

    @kept
    def may_ask_for_extended_resources(self) -> bool:
        """Whether some resource has a domain, as most have not. Cached as the above."""
        containers = (*self.spec.containers, *self.spec.init_containers)
        return any(
            "/" in name
            for one in containers
            for part in (one.resources.limits, one.resources.requests)
            for name in part
        )

    @property
    def special_claim(self) -> str:
        """The claim that kube-scheduler made for its extended resources; else empty (EXT-4)."""
        made = self.status.extended_resource_claim_status
        return made.resource_claim_name if made is not None else ""

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    def claim_names(self) -> dict[str, str | None]:
        """Entry of `resourceClaims` -> name of its claim, or None while the template's claim does not exist.

        An entry whose template needed no claim is omitted (SCHED-2).
        """
        return names_of_claims(self.spec.resource_claims, self.status.resource_claim_statuses)


def names_of_claims(
    entries: Iterable[PodResourceClaim], statuses: Iterable[PodResourceClaimStatus]
) -> dict[str, str | None]:
    """See `Pod.claim_names`."""
    made = {status.name: status.resource_claim_name for status in statuses}
    names: dict[str, str | None] = {}
    for entry in entries:
        own = entry.resource_claim_name
        name = own if own is not None else made.get(entry.name)
        if name is not None or entry.name not in made:
            names[entry.name] = name
    return names


class Namespace(ApiObject):
    """A namespace; its labels select pods."""

    kind: Literal["Namespace"] = "Namespace"


class ConfigMap(ApiObject):
    """Settings that can be changed at run time."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    data: Map[Str] = Field(default_factory=dict)


def is_live(pod: Pod) -> bool:
    """Whether a pod may still use its claims."""
    return not pod.finished and pod.metadata.deletion_timestamp is None


def is_report(before: Pod, now: Pod) -> bool:
    """Whether a bound pod that lives changed in nothing but its status, and names the same claims as before.

    Such are the reports of kubelets. They may change what the pod takes from its node, and nothing else.
    """
    return (
        bool(now.spec.node_name)
        and not now.gated
        and (now.spec is before.spec or now.spec == before.spec)
        and now.status.resource_claim_statuses == before.status.resource_claim_statuses
        and now.special_claim == before.special_claim
        and is_live(now)
        and is_live(before)
        and is_same_version_aside(before.metadata, now.metadata)
    )


def controller_of(pod: Pod) -> OwnerReference | None:
    """Who replaces a pod when it is gone; None if nobody does."""
    return next((one for one in pod.metadata.owner_references if one.controller), None)


def claims_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """The claims a pod names, in its order; one that is named twice is one claim."""
    return pod.claim_keys if pod.spec.resource_claims or pod.special_claim else ()


class PodDisruptionBudgetSpec(Model):
    """Which pods of its namespace a budget covers."""

    selector: LabelSelector | None = None
    """None selects no pod; one without conditions selects all"""
    unhealthy_pod_eviction_policy: Str = ""


class PodDisruptionBudgetStatus(Model):
    """What the disruption controller last counted."""

    disruptions_allowed: Int = 0
    disrupted_pods: Map[Any] = Field(default_factory=dict)
    """Pods whose eviction was granted and is counted already"""


class PodDisruptionBudget(ApiObject):
    """How many pods of a set may be evicted now. Without a status, none."""

    kind: Literal["PodDisruptionBudget"] = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = Field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = Field(default_factory=PodDisruptionBudgetStatus)

    def ignores(self, pod: Pod) -> bool:
        """Whether a pod that it covers may always go: one that is not ready, if the policy says so."""
        return self.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and not pod.status.conditions
