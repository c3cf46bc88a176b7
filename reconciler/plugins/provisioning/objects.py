"""ProvisioningRequests of cluster autoscalers, autoscaling.x-k8s.io/v1, and the PodTemplates they name."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from reconciler.api.objects.core import GATE, Condition
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.model import Model, Tuple
from reconciler.api.validation import structural
from reconciler.api.validation.columns import NAMED
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.structural import AnyObject, Fields, Integer, Items, Text
from reconciler.api.versions.kinds import register

GROUP = "autoscaling.x-k8s.io"
VERSION = "v1"
OURS = "dra-reconciler.io/provisioning"
"""Label of what this controller made, with the value `true`"""
CLAIMS = "dra-reconciler.io/claims"
"""Annotation: the claims that the pods of a request name"""
SHAPES = "dra-reconciler.io/shapes"
"""Annotation: nodes of the cluster of which an empty one would serve the pods"""
ENDED = ("Failed", "BookingExpired", "CapacityRevoked")
"""Conditions after which nothing more comes of a request"""

MOST_SETS = 32
"""Sets of pods in one request, by its schema"""

_OUR_NAMES = re.compile("dra-.+-[0-9a-f]{10}")
"""Names of requests and templates that this controller makes"""


class ProvisioningStatus(Model):
    """What the autoscaler says."""

    conditions: Tuple[Condition] = ()


class TemplateReference(Model):
    """The PodTemplate of a set of pods, in the namespace of the request."""

    name: str


class ProvisioningPodSet(Model):
    """Pods that are alike."""

    pod_template_ref: TemplateReference


class ProvisioningSpec(Model):
    """What is requested; immutable on the server."""

    pod_sets: Tuple[ProvisioningPodSet] = ()


class ProvisioningRequest(ApiObject):
    """Asks for nodes for pods."""

    kind: Literal["ProvisioningRequest"] = "ProvisioningRequest"
    spec: ProvisioningSpec = Field(default_factory=ProvisioningSpec)
    status: ProvisioningStatus = Field(default_factory=ProvisioningStatus)

    @property
    def ours(self) -> bool:
        """Whether this controller made it: a copy of one may have its label, but has another name."""
        return (
            self.metadata.labels.get(OURS) == "true" and _OUR_NAMES.fullmatch(self.metadata.name) is not None
        )

    @property
    def ended(self) -> str:
        """Why nothing more comes of it; empty while something may."""
        return next(
            (one.type for one in self.status.conditions if one.type in ENDED and one.status == "True"), ""
        )

    @property
    def templates(self) -> tuple[ObjectKey, ...]:
        """The PodTemplates that this controller made for it."""
        names = (one.pod_template_ref.name for one in self.spec.pod_sets)
        return tuple(ObjectKey(self.key.namespace, name) for name in names if _OUR_NAMES.fullmatch(name))

    @property
    def claims(self) -> tuple[ObjectKey, ...]:
        """The claims that its pods name. An autoscaler finds no place for them once one of these is gone."""
        names = self.metadata.annotations.get(CLAIMS, "")
        return tuple(ObjectKey(self.key.namespace, name) for name in names.split(",") if name)


def pod_template(name: str, pod: dict[str, Any], claims: Mapping[str, str | None]) -> dict[str, Any]:
    """A PodTemplate from a pod as the server has it: as the pod will be once our gate is gone.

    `claims` are the names of its claims, by the names of its entries. They are named instead of the templates
    that they were made from: autoscalers try to place pods for which nobody makes claims.
    """
    metadata, spec = pod["metadata"], dict(pod["spec"])
    spec.pop("nodeName", None)
    spec["resourceClaims"] = [
        {"name": entry["name"], "resourceClaimName": found} if (found := claims.get(entry["name"])) else entry
        for entry in spec.get("resourceClaims") or ()
    ]
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
    name: str,
    pod: dict[str, Any],
    *,
    class_name: str,
    counts: Mapping[str, int],
    claims: Iterable[str],
    shapes: tuple[str, ...],
) -> dict[str, Any]:
    """A request for so many pods of each of some PodTemplates, which name `claims`."""
    notes = {CLAIMS: ",".join(claims), SHAPES: ",".join(shapes)}
    sets = [{"podTemplateRef": {"name": template}, "count": count} for template, count in counts.items()]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ProvisioningRequest",
        "metadata": _metadata(name, pod) | {"annotations": notes},
        "spec": {"provisioningClassName": class_name, "podSets": sets},
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


_NAME: Final = Text(253, pattern=structural.DNS_SUBDOMAIN)
_POD_SET_FIELDS: Final = Fields(
    {"podTemplateRef": Fields({"name": _NAME}, required=("name",)), "count": Integer(1)},
    required=("podTemplateRef", "count"),
)
PROVISIONING_REQUEST_SCHEMA: Final = Fields(
    {
        "apiVersion": Text(),
        "kind": Text(),
        "metadata": AnyObject(),
        "spec": Fields(
            {"provisioningClassName": _NAME, "podSets": Items(_POD_SET_FIELDS, most=32, fewest=1)},
            required=("provisioningClassName", "podSets"),
            immutable=("provisioningClassName", "podSets"),
        ),
        "status": Fields({"conditions": Items(structural.CONDITION, key="type")}),
    },
    required=("spec",),
)

PROVISIONING_REQUEST: Final = ServedKind(
    "ProvisioningRequest", "provisioningrequests", "provisioningrequest",
    (GroupVersion("autoscaling.x-k8s.io", "v1"),),
    short_names=("provreq", "provreqs"), has_status=True, counts_generations=True, unconditional=False,
    columns=NAMED, rules=structural.checked(PROVISIONING_REQUEST_SCHEMA),
)  # fmt: skip
"""Served on real servers once the resource definition of a cluster autoscaler is installed."""

register(ProvisioningRequest, GROUP, (VERSION,), in_files=False)
