"""ProvisioningRequests of cluster autoscalers, autoscaling.x-k8s.io/v1, and the PodTemplates they name."""

import re
from typing import Any, Literal

from reconciler.api.objects.core import GATE, Condition
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Model, Tuple

GROUP = "autoscaling.x-k8s.io"
VERSION = "v1"
OURS = "dra-reconciler.io/provisioning"
"""Label of what this controller made, with the value `true`"""
SHAPES = "dra-reconciler.io/shapes"
"""Annotation: nodes of the cluster of which an empty one would serve the pods"""
ENDED = ("Failed", "BookingExpired", "CapacityRevoked")
"""Conditions after which nothing more comes of a request"""

_NAME = re.compile("dra-.+-[0-9a-f]{10}")
"""Names of requests and templates that this controller makes"""


class ProvisioningStatus(Model):
    """What the autoscaler says."""

    conditions: Tuple[Condition] = ()


class ProvisioningRequest(ApiObject):
    """Asks for nodes for pods."""

    kind: Literal["ProvisioningRequest"] = "ProvisioningRequest"
    status: ProvisioningStatus = ProvisioningStatus()

    @property
    def ours(self) -> bool:
        """Whether this controller made it: a copy of one may have its label, but has another name."""
        return self.metadata.labels.get(OURS) == "true" and _NAME.fullmatch(self.metadata.name) is not None

    @property
    def ended(self) -> str:
        """Why nothing more comes of it; empty while something may."""
        return next(
            (one.type for one in self.status.conditions if one.type in ENDED and one.status == "True"), ""
        )


def pod_template(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A PodTemplate from a pod as the server has it: as the pod will be once our gate is gone."""
    metadata, spec = pod["metadata"], dict(pod["spec"])
    spec.pop("nodeName", None)
    gates = [gate for gate in spec.pop("schedulingGates", None) or () if gate.get("name") != GATE]
    if gates:
        spec["schedulingGates"] = gates
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(name, pod),
        "template": {"metadata": kept, "spec": spec},
    }


def provisioning_request(
    name: str, pod: dict[str, Any], *, class_name: str, count: int, shapes: tuple[str, ...]
) -> dict[str, Any]:
    """A request for so many pods of the PodTemplate with its name."""
    metadata = _metadata(name, pod) | {"annotations": {SHAPES: ",".join(shapes)}}
    pods = {"podTemplateRef": {"name": name}, "count": count}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ProvisioningRequest",
        "metadata": metadata,
        "spec": {"provisioningClassName": class_name, "podSets": [pods]},
    }


def _metadata(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    """With what made the pod, or else the pod, as the owner: it goes when that is deleted."""
    of_pod = pod["metadata"]
    maker = next((one for one in of_pod.get("ownerReferences") or () if one.get("controller")), None)
    owner = maker or {"apiVersion": "v1", "kind": "Pod", "name": of_pod["name"], "uid": of_pod["uid"]}
    plain = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
    return {
        "name": name,
        "namespace": of_pod["namespace"],
        "labels": {OURS: "true"},
        "ownerReferences": [plain],
    }
