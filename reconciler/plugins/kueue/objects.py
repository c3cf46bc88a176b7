"""The objects of Kueue that an admission check reads, and what is watched and written of them."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaimTemplate
from reconciler.api.objects.meta import ApiObject, ObjectKey, time_of
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.validation.columns import NAMED
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.structural import (
    CONDITION,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    MAX_MESSAGE,
    AnyObject,
    Fields,
    Flag,
    Integer,
    Items,
    Schema,
    Text,
    Texts,
    Time,
    checked,
)
from reconciler.api.versions.kinds import register
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import Gone, Rejected

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""That are read, the preferred one first"""
CONTROLLER = "dra-reconciler.io/room"
"""`spec.controllerName` of AdmissionChecks that are ours"""


class Condition(Model):
    """A condition of a Workload."""

    type: Str
    status: Str
    last_transition_time: Str = ""


class TopologyRequest(Model):
    """A level of a topology that all pods of a set share."""

    required: Str | None = None
    preferred: Str | None = None


class WorkloadPodSet(Model):
    """A number of equal pods."""

    name: Str = "main"
    count: Int = 1
    template: dict[str, Any] = Field(default_factory=dict)
    topology_request: TopologyRequest | None = None


class WorkloadSpec(Model):
    """What is to be admitted."""

    pod_sets: Tuple[WorkloadPodSet] = ()
    priority: Int | None = None
    active: Bool | None = None


class PodSetAssignment(Model):
    """What quota was reserved for a set."""

    name: Str = "main"
    flavors: Map[Str] = Field(default_factory=dict)
    """Resource -> name of a ResourceFlavor"""
    count: Int | None = None


class Admission(Model):
    """The quota that is reserved."""

    pod_set_assignments: Tuple[PodSetAssignment] = ()


class WorkloadStatus(Model):
    """How far its admission is."""

    conditions: Tuple[Condition] = ()
    admission: Admission | None = None
    admission_checks: Tuple[dict[str, Any]] = ()
    """With fields that we do not know: Kueue has some that a write must keep"""


class Workload(ApiObject):
    """Pods that Kueue admits together."""

    kind: Literal["Workload"] = "Workload"
    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)

    def condition(self, name: str) -> Condition | None:
        """A condition that is true."""
        return next((one for one in self.status.conditions if (one.type, one.status) == (name, "True")), None)

    @property
    def quota_since(self) -> datetime | None:
        """When quota was reserved. None if it is not, or the time cannot be read."""
        reserved = self.condition("QuotaReserved")
        return None if reserved is None else time_of(reserved.last_transition_time)

    def check(self, name: str) -> tuple[int, dict[str, Any]] | None:
        """The position of an admission check, and its state."""
        states = enumerate(self.status.admission_checks)
        return next(((at, one) for at, one in states if one.get("name") == name), None)


class AdmissionCheckSpec(Model):
    """Who serves the check."""

    controller_name: Str = ""


class AdmissionCheckStatus(Model):
    """Whether it is served."""

    conditions: Tuple[dict[str, Any]] = ()


class AdmissionCheck(ApiObject):
    """A condition for the admission of Workloads, besides quota."""

    kind: Literal["AdmissionCheck"] = "AdmissionCheck"
    spec: AdmissionCheckSpec = Field(default_factory=AdmissionCheckSpec)
    status: AdmissionCheckStatus = Field(default_factory=AdmissionCheckStatus)


class FlavorSpec(Model):
    """What Kueue adds to the pods that use a flavor."""

    node_labels: Map[Str] = Field(default_factory=dict)
    tolerations: Tuple[dict[str, Any]] = ()


class ResourceFlavor(ApiObject):
    """A kind of resources, such as nodes of one type."""

    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    spec: FlavorSpec = Field(default_factory=FlavorSpec)


_MOST_SETS: Final = 18
_CONDITIONS: Final = Items(CONDITION, most=16, key="type")
_NAME: Final = Text(63, pattern=DNS_LABEL)
_OBJECT: Final[dict[str, Schema]] = {"apiVersion": Text(), "kind": Text(), "metadata": AnyObject()}
_TOLERATION: Final = Fields(
    {
        "key": Text(),
        "operator": Text(),
        "value": Text(),
        "effect": Text(),
        "tolerationSeconds": Integer(),
    }
)
_LEVEL: Final = Text(63)
_POD_SET: Final = Fields(
    {
        "name": _NAME,
        "count": Integer(0),
        "template": AnyObject(),
        "topologyRequest": Fields({"required": _LEVEL, "preferred": _LEVEL}),
    },
    required=("template",),
)
_ASSIGNMENT: Final = Fields(
    {"name": _NAME, "flavors": Texts(Text(253, pattern=DNS_SUBDOMAIN)), "count": Integer(0)}
)
_UPDATE: Final = Fields(
    {"name": _NAME, "labels": Texts(), "annotations": Texts(), "nodeSelector": Texts()}, required=("name",)
)
CHECK_STATE: Final = Fields(
    {
        "name": Text(316, 1),
        "state": Text(words=("Pending", "Ready", "Retry", "Rejected")),
        "lastTransitionTime": Time(),
        "message": Text(MAX_MESSAGE),
        "requeueAfterSeconds": Integer(0),
        "retryCount": Integer(0),
        "podSetUpdates": Items(_UPDATE, most=_MOST_SETS),
    },
    required=("name", "state", "lastTransitionTime", "message"),
)
"""The state of one admission check of a Workload"""

WORKLOAD_SCHEMA: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields(
            {
                "podSets": Items(_POD_SET, most=_MOST_SETS, fewest=1, key="name"),
                "queueName": Text(253, pattern=DNS_SUBDOMAIN),
                "priority": Integer(),
                "active": Flag(),
            }
        ),
        "status": Fields(
            {
                "conditions": _CONDITIONS,
                "admission": Fields(
                    {
                        "clusterQueue": Text(253, pattern=DNS_SUBDOMAIN),
                        "podSetAssignments": Items(_ASSIGNMENT, most=_MOST_SETS, key="name"),
                    }
                ),
                "admissionChecks": Items(CHECK_STATE, most=8, key="name"),
            }
        ),
    }
)
ADMISSION_CHECK_SCHEMA: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields(
            {"controllerName": Text(253, 1)}, required=("controllerName",), immutable=("controllerName",)
        ),
        "status": Fields({"conditions": _CONDITIONS}),
    }
)
RESOURCE_FLAVOR_SCHEMA: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields({"nodeLabels": Texts(most=8), "tolerations": Items(_TOLERATION, most=8)}),
    }
)

_KUEUE: Final = (GroupVersion("kueue.x-k8s.io", "v1beta2"), GroupVersion("kueue.x-k8s.io", "v1beta1"))

WORKLOAD: Final = ServedKind(
    "Workload", "workloads", "workload", _KUEUE,
    short_names=("kwl", "kueueworkload", "kueueworkloads"), has_status=True, counts_generations=True,
    unconditional=False, columns=NAMED, validate=checked(WORKLOAD_SCHEMA),
)  # fmt: skip
"""Served on real servers once Kueue is installed, as are the next two."""
ADMISSION_CHECK: Final = ServedKind(
    "AdmissionCheck", "admissionchecks", "admissioncheck", _KUEUE,
    namespaced=False, short_names=("ac",), has_status=True, counts_generations=True, unconditional=False,
    columns=NAMED, validate=checked(ADMISSION_CHECK_SCHEMA),
)  # fmt: skip
RESOURCE_FLAVOR: Final = ServedKind(
    "ResourceFlavor", "resourceflavors", "resourceflavor", _KUEUE,
    namespaced=False, short_names=("flavor", "flavors", "rf"), counts_generations=True, unconditional=False,
    columns=NAMED, validate=checked(RESOURCE_FLAVOR_SCHEMA),
)  # fmt: skip

for _model in (Workload, AdmissionCheck, ResourceFlavor):
    register(_model, GROUP, VERSIONS, in_files=False)


class KueueKinds(NamedTuple):
    """Each in the version to use."""

    workload: Resource
    check: Resource
    """Only the check of the settings"""
    flavor: Resource


async def kueue_kinds(client: Client, check: str) -> KueueKinds:
    """The kinds of a server. Raises Rejected if it does not serve them."""
    try:
        found = await client.fetch(f"/apis/{GROUP}")
    except Gone:
        found = {}
    served = [one.get("version") for one in found.get("versions", ())]
    version = next((one for one in VERSIONS if one in served), None)
    if version is None:
        raise Rejected(
            f"setting kueue_check: the server does not serve {GROUP} in {' or '.join(VERSIONS)}: install "
            "Kueue, or unset kueue_check"
        )
    return KueueKinds(
        Resource("Workload", GROUP, version, "workloads", namespaced=True, page=100),
        Resource(
            "AdmissionCheck", GROUP, version, "admissionchecks", namespaced=False, only=ObjectKey("", check)
        ),
        Resource("ResourceFlavor", GROUP, version, "resourceflavors", namespaced=False),
    )


class KueueWriter:
    """Writes states of our check, and whether it is served. Raises the errors of `Client`."""

    def __init__(self, client: Client, kinds: KueueKinds) -> None:
        self._client, self._kinds = client, kinds

    async def write_state(self, workload: Workload, at: int, state: Raw) -> None:
        """Replace the state of our check, which is at this position. Raises Conflict if the Workload has
        changed since.
        """
        version = workload.metadata.resource_version
        steps: list[Raw] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": f"/status/admissionChecks/{at}", "value": state},
        ]
        await self._client.patch(
            self._kinds.workload, workload.key, steps, content_type=JSON, subresource="status"
        )

    async def activate(self, check: AdmissionCheck, condition: Raw) -> None:
        """Say that the check is served. Other conditions stay."""
        others = [one for one in check.status.conditions if one.get("type") != condition["type"]]
        metadata = {"resourceVersion": check.metadata.resource_version}
        patch = {"metadata": metadata, "status": {"conditions": [*others, condition]}}
        await self._client.patch(self._kinds.check, check.key, patch, subresource="status")


KINDS = ("Workload", "AdmissionCheck", "ResourceFlavor", "ResourceClaimTemplate")


class KueueObjects:
    """Nothing here awaits."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change."""
        self.workloads: dict[ObjectKey, Workload] = {}
        self.checks: dict[ObjectKey, AdmissionCheck] = {}
        self.flavors: dict[ObjectKey, ResourceFlavor] = {}
        self.templates: dict[ObjectKey, ResourceClaimTemplate] = {}
        self.serial = 0
        """Number of changes of objects that Workloads refer to"""
        self.listed = asyncio.Event()
        """Set when each kind was listed once"""
        self._unlisted = set(KINDS)
        self._changed = changed

    def take(self, change: Notice) -> None:
        """The sink of the watches of `KINDS`."""
        shelf = self._shelf(change.kind)
        match change:
            case Changed(object=thing):
                shelf[thing.key] = thing
            case Removed(key=key) | Refused(key=key):
                shelf.pop(key, None)
            case Replaced(objects=objects):
                shelf.clear()
                shelf |= {thing.key: thing for thing in objects}
                self._unlisted.discard(change.kind)
                if not self._unlisted:
                    self.listed.set()
        if change.kind != "Workload":
            self.serial += 1
        self._changed()

    def _shelf(self, kind: str) -> dict[ObjectKey, Any]:
        shelves: dict[str, dict[ObjectKey, Any]] = {
            "Workload": self.workloads,
            "AdmissionCheck": self.checks,
            "ResourceFlavor": self.flavors,
            "ResourceClaimTemplate": self.templates,
        }
        return shelves[kind]
