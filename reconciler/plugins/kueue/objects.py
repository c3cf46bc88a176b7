"""The objects of Kueue that an admission check reads, and what is watched and written of them."""

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from reconciler.api.objects.meta import ApiObject, time_of
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.validation import structural
from reconciler.api.validation.columns import NAMED
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.structural import AnyObject, Fields, Flag, Integer, Items, Text, Texts, Time
from reconciler.api.versions.kinds import register

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
_CONDITIONS: Final = Items(structural.CONDITION, most=16, key="type")
_NAME: Final = Text(63, pattern=structural.DNS_LABEL)
_OBJECT: Final[dict[str, structural.Schema]] = {"apiVersion": Text(), "kind": Text(), "metadata": AnyObject()}
_TOLERATION: Final = Fields(
    {"key": Text(), "operator": Text(), "value": Text(), "effect": Text(), "tolerationSeconds": Integer()}
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
    {"name": _NAME, "flavors": Texts(Text(253, pattern=structural.DNS_SUBDOMAIN)), "count": Integer(0)}
)
_UPDATE: Final = Fields(
    {"name": _NAME, "labels": Texts(), "annotations": Texts(), "nodeSelector": Texts()}, required=("name",)
)
CHECK_STATE: Final = Fields(
    {
        "name": Text(316, 1),
        "state": Text(words=("Pending", "Ready", "Retry", "Rejected")),
        "lastTransitionTime": Time(),
        "message": Text(structural.MAX_MESSAGE),
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
                "queueName": Text(253, pattern=structural.DNS_SUBDOMAIN),
                "priority": Integer(),
                "active": Flag(),
            }
        ),
        "status": Fields(
            {
                "conditions": _CONDITIONS,
                "admission": Fields(
                    {
                        "clusterQueue": Text(253, pattern=structural.DNS_SUBDOMAIN),
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
    {**_OBJECT, "spec": Fields({"nodeLabels": Texts(most=8), "tolerations": Items(_TOLERATION, most=8)})}
)

_KUEUE: Final = (GroupVersion("kueue.x-k8s.io", "v1beta2"), GroupVersion("kueue.x-k8s.io", "v1beta1"))

WORKLOAD: Final = ServedKind(
    "Workload", "workloads", "workload", _KUEUE,
    short_names=("kwl", "kueueworkload", "kueueworkloads"), has_status=True, counts_generations=True,
    unconditional=False, columns=NAMED, rules=structural.checked(WORKLOAD_SCHEMA),
)  # fmt: skip
"""Served on real servers once Kueue is installed, as are the next two."""
ADMISSION_CHECK: Final = ServedKind(
    "AdmissionCheck", "admissionchecks", "admissioncheck", _KUEUE,
    namespaced=False, short_names=("ac",), has_status=True, counts_generations=True, unconditional=False,
    columns=NAMED, rules=structural.checked(ADMISSION_CHECK_SCHEMA),
)  # fmt: skip
RESOURCE_FLAVOR: Final = ServedKind(
    "ResourceFlavor", "resourceflavors", "resourceflavor", _KUEUE,
    namespaced=False, short_names=("flavor", "flavors", "rf"), counts_generations=True, unconditional=False,
    columns=NAMED, rules=structural.checked(RESOURCE_FLAVOR_SCHEMA),
)  # fmt: skip

for _model in (Workload, AdmissionCheck, ResourceFlavor):
    register(_model, GROUP, VERSIONS, in_files=False)
