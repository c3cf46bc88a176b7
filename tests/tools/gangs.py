"""Gangs as JSON: pods with our annotations, PodGroups of Kubernetes and of coscheduling."""

from typing import Any

from reconciler.api.objects.gangs import COSCHEDULING_LABEL, GANG, SIZE, TOPOLOGY
from tests.tools.small_fleet import Object, pod


def annotated(name: str, *claims: str, size: int, gang: str = "g", topology: str = "", **spec: Any) -> Object:
    """A gated pod of a gang that annotations declare."""
    made = pod(name, *claims, **spec)
    notes = {GANG: gang, SIZE: str(size)} | ({TOPOLOGY: topology} if topology else {})
    made["metadata"]["annotations"] = notes
    return made


def grouped(name: str, *claims: str, group: str = "g", **spec: Any) -> Object:
    """A gated pod of a PodGroup."""
    return pod(name, *claims, schedulingGroup={"podGroupName": group}, **spec)


def labelled(name: str, *claims: str, group: str = "g", **spec: Any) -> Object:
    """A gated pod of a coscheduling PodGroup."""
    made = pod(name, *claims, **spec)
    made["metadata"]["labels"] = {COSCHEDULING_LABEL: group}
    return made


def pod_group(name: str = "g", least: int | None = 2, *, topology: str = "", claim: str = "") -> Object:
    """A PodGroup; no gang without a minimum. `claim` names the template of its claim `t0`."""
    spec: Object = {"schedulingPolicy": {"basic": {}} if least is None else {"gang": {"minCount": least}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if claim:
        spec["resourceClaims"] = [{"name": "t0", "resourceClaimTemplateName": claim}]
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def child_of(parent: str, group: Object) -> Object:
    """A group that is in a group of groups."""
    reference = {"workloadName": "w", "templateName": "t"}
    return {
        **group,
        "spec": {**group["spec"], "parentCompositePodGroupName": parent, "workloadRef": reference},
    }


def composite_group(name: str = "tree", least: int | None = 2, *, topology: str = "") -> Object:
    """A group of groups; without a minimum, one of them is enough."""
    made = pod_group(name, topology=topology)
    policy: Object = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    spec = {"schedulingPolicy": policy, "workloadRef": {"workloadName": "w", "templateName": "t"}}
    return {
        **made,
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "spec": {**made["spec"], **spec},
    }


def coscheduling_group(name: str = "g", least: int = 2) -> Object:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least},
    }
