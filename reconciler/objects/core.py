"""Node, Pod and ConfigMap, core/v1: the few fields an allocation depends on."""

from typing import Literal

from pydantic import Field

from reconciler.objects.meta import ApiObject
from reconciler.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.objects.nodeselector import NodeSelector
from reconciler.objects.quantity import Quantity

Resources = Map[Quantity]
"""Amounts by resource: `cpu`, `memory`, `example.com/nic`"""

GATE = "dra-reconciler.io/allocation"
"""The scheduling gate of pods whose claims we allocate before kube-scheduler sees them."""


class Taint(Model):
    """Something about a node that pods have to tolerate."""

    key: Str = ""
    value: Str = ""
    effect: Str = ""


class NodeSpec(Model):
    """Whether pods may come."""

    unschedulable: Bool | None = None
    taints: Tuple[Taint] = ()


class Condition(Model):
    """One thing that is so, or not, or unknown."""

    type: Str
    status: Str = "Unknown"


class NodeStatus(Model):
    """What a node says it has, and how it is."""

    declared_features: Tuple[Str] = ()
    allocatable: Resources = Field(default_factory=dict)
    conditions: Tuple[Condition] = ()


class Node(ApiObject):
    """A machine: where pods run, as far as it has room for them."""

    kind: Literal["Node"] = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodSchedulingGate(Model):
    """A reason why the scheduler does not look at a pod yet."""

    name: Str


class PodResourceClaim(Model):
    """A claim that a pod uses, by name or made from a template."""

    name: Str
    resource_claim_name: Str | None = None
    resource_claim_template_name: Str | None = None


class NodeAffinity(Model):
    """Which nodes a pod must run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Model):
    """The part of a pod's affinity that restricts nodes."""

    node_affinity: NodeAffinity | None = None


class Toleration(Model):
    """Which taints of nodes a pod puts up with."""

    key: Str = ""
    operator: Str = "Equal"
    value: Str = ""
    effect: Str = ""


class ResourceRequirements(Model):
    """What is set aside for a container. Without a request its limit counts."""

    requests: Resources = Field(default_factory=dict)
    limits: Resources = Field(default_factory=dict)


class Container(Model):
    """One container of a pod."""

    name: Str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: Str | None = None
    """`Always` for an init container that goes on running beside the others"""


class PodSpec(Model):
    """What of a pod decides where it can run, and so where its claims can be allocated."""

    node_name: Str = ""
    node_selector: Map[Str] = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: Tuple[Toleration] = ()
    priority: Int | None = None
    scheduling_gates: Tuple[PodSchedulingGate] = ()
    resource_claims: Tuple[PodResourceClaim] = ()
    containers: Tuple[Container] = ()
    init_containers: Tuple[Container] = ()
    overhead: Resources = Field(default_factory=dict)
    resources: ResourceRequirements | None = None
    """Of the pod as a whole; wins over what its containers ask for"""


class PodResourceClaimStatus(Model):
    """The claim made from a template for one entry of a pod."""

    name: Str
    resource_claim_name: Str | None = None


class ContainerStatus(Model):
    """What a container has now, which may still be more than its spec says after a resize."""

    name: Str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources = Field(default_factory=dict)


class PodStatus(Model):
    """How far a pod is."""

    phase: Str = ""
    resource_claim_statuses: Tuple[PodResourceClaimStatus] = ()
    container_statuses: Tuple[ContainerStatus] = ()
    init_container_statuses: Tuple[ContainerStatus] = ()


class Pod(ApiObject):
    """A consumer of claims."""

    kind: Literal["Pod"] = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def gated(self) -> bool:
        """Whether the pod waits for us."""
        return any(gate.name == GATE for gate in self.spec.scheduling_gates)

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    def claim_names(self) -> dict[str, str | None]:
        """Entry of `resourceClaims` -> name of its claim, or None while a template's claim is not made yet.

        An entry whose template needed no claim is left out (SCHED-2).
        """
        made = {status.name: status for status in self.status.resource_claim_statuses}
        names: dict[str, str | None] = {}
        for entry in self.spec.resource_claims:
            if entry.resource_claim_name is not None:
                names[entry.name] = entry.resource_claim_name
            elif entry.name not in made:
                names[entry.name] = None
            elif made[entry.name].resource_claim_name is not None:
                names[entry.name] = made[entry.name].resource_claim_name
        return names


class ConfigMap(ApiObject):
    """Settings that can be changed while we run."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    data: Map[Str] = Field(default_factory=dict)
