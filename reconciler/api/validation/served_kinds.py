"""The kinds that every server has, and those of plugins."""

from collections.abc import Iterable
from typing import Any, Final

from reconciler.api.plugins import PLUGINS
from reconciler.api.validation import claims, columns, core, devices, kinds, pod_groups, pods, slices
from reconciler.api.validation.pods import prepare_pod
from reconciler.api.versions import pod_groups as shapes
from reconciler.api.versions.kinds import KINDS, RESOURCE, SCHEDULING

EVENTS: Final = kinds.GroupVersion("events.k8s.io", "v1")
V1BETA1: Final = kinds.GroupVersion(RESOURCE, "v1beta1")
V1ALPHA2: Final = kinds.GroupVersion(SCHEDULING, "v1alpha2")


def _kind(name: str, *, also: Iterable[kinds.GroupVersion] = (), **rules: Any) -> kinds.ServedKind:
    """A kind of the table in its versions there. `also`: versions of another group with the same objects."""
    kind = KINDS[name]
    served = (*(kinds.GroupVersion(kind.group, version) for version in kind.versions), *also)
    return kinds.ServedKind(
        *(kind.name, kind.plural, kind.name.lower(), served),
        namespaced=kind.namespaced, since=kind.since, until=kind.until, **rules,
    )  # fmt: skip


_CONDITIONED: Final = {"metadata": kinds.METADATA, "status": {"conditions": kinds.CONDITIONS}}

_CONTAINER: Final = {
    "env": kinds.Merge("name"),
    "ports": kinds.Merge("containerPort"),
    "volumeMounts": kinds.Merge("mountPath"),
    "volumeDevices": kinds.Merge("devicePath"),
}
_POD: Final = {
    "metadata": kinds.METADATA,
    "spec": {
        "containers": kinds.Merge("name", _CONTAINER),
        "initContainers": kinds.Merge("name", _CONTAINER),
        "ephemeralContainers": kinds.Merge("name", _CONTAINER),
        "volumes": kinds.Merge("name"),
        "imagePullSecrets": kinds.Merge("name"),
        "hostAliases": kinds.Merge("ip"),
        "topologySpreadConstraints": kinds.Merge("topologyKey"),
        "schedulingGates": kinds.Merge("name"),
        "resourceClaims": kinds.Merge("name"),
    },
    "status": {
        "conditions": kinds.CONDITIONS,
        "podIPs": kinds.Merge("ip"),
        "hostIPs": kinds.Merge("ip"),
        "resourceClaimStatuses": kinds.Merge("name"),
    },
}

NAMESPACE: Final = _kind(
    "Namespace",
    description="A scope for names: namespaced objects of different namespaces may have one name.",
    short_names=("ns",), has_status=True, label_names=True, returns_deleted=True,
    strategic=_CONDITIONED, selectable={"status.phase": ("status", "phase")}, columns=columns.NAMESPACE,
    defaults=core.default_namespace,
)  # fmt: skip
NODE: Final = _kind(
    "Node",
    description="A machine that runs pods.",
    short_names=("no",), has_status=True,
    strategic={
        "metadata": kinds.METADATA,
        "spec": {"podCIDRs": kinds.Merge()},
        "status": {"conditions": kinds.CONDITIONS, "addresses": kinds.Merge("type")},
    },
    selectable={"spec.unschedulable": ("spec", "unschedulable")},
    columns=columns.NODE, rules=core.check_node,
)  # fmt: skip
POD: Final = _kind(
    "Pod",
    description="Containers that run together on one node, with the claims that they use.",
    categories=("all",), short_names=("po",), has_status=True, counts_generations=True, returns_deleted=True,
    strategic=_POD,
    selectable={
        "spec.nodeName": ("spec", "nodeName"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    columns=columns.POD, on_create=prepare_pod, defaults=pods.default_pod, rules=pods.check_pod,
)  # fmt: skip
SERVICE: Final = _kind(
    "Service",
    description="A name and an address for pods. Addresses are not assigned here.",
    categories=("all",), short_names=("svc",), has_status=True, label_names=True, returns_deleted=True,
    strategic={
        "metadata": kinds.METADATA,
        "spec": {"ports": kinds.Merge("port")},
        "status": {"conditions": kinds.CONDITIONS},
    },
    columns=columns.SERVICE, defaults=core.default_service, rules=core.check_service,
)  # fmt: skip
CONFIG_MAP: Final = _kind(
    "ConfigMap",
    description="Configuration data for pods.",
    short_names=("cm",), columns=columns.CONFIG_MAP, rules=core.check_config_map,
)  # fmt: skip
EVENT_KIND: Final = _kind(
    "Event",
    description="A report about something that happened to another object.",
    short_names=("ev",),
    selectable={
        **{
            f"{holder}.{key}": ("involvedObject", key)
            for holder in ("involvedObject", "regarding")
            for key in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": ("reason",),
        "type": ("type",),
        "source": ("source", "component"),
        "reportingComponent": ("reportingComponent",),
        "reportingController": ("reportingComponent",),
    },
    also=(EVENTS,), columns=columns.EVENT, defaults=core.default_event, rules=core.check_event,
    conversions={EVENTS: kinds.EVENT},
)  # fmt: skip
LEASE: Final = _kind(
    "Lease.coordination.k8s.io",
    description="Who holds a role, such as leader, and until when.",
    unconditional=False, columns=columns.LEASE, rules=core.check_lease,
)  # fmt: skip
EVICTION_REQUEST: Final = _kind(
    "EvictionRequest.lifecycle.k8s.io",
    description="Somebody wants a pod to be evicted, and asks those who can end it gracefully.",
    has_status=True, counts_generations=True, strategic=_CONDITIONED, columns=columns.NAMED,
    rules=core.check_eviction_request,
)  # fmt: skip
CLAIM: Final = _kind(
    "ResourceClaim",
    description="A request for devices, and in its status the devices that are allocated.",
    has_status=True, returns_deleted=True,
    strategic={"metadata": kinds.METADATA, "status": {"reservedFor": kinds.Merge("uid")}},
    columns=columns.CLAIM, defaults=claims.default_claim, rules=claims.check_claim,
    conversions={V1BETA1: kinds.CLAIM_V1BETA1},
)  # fmt: skip
TEMPLATE: Final = _kind(
    "ResourceClaimTemplate",
    description="The ResourceClaim that each pod that names it gets.",
    returns_deleted=True, columns=columns.NAMED, defaults=claims.default_template,
    rules=claims.check_template, conversions={V1BETA1: kinds.TEMPLATE_V1BETA1},
)  # fmt: skip
DEVICE_CLASS: Final = _kind(
    "DeviceClass",
    description="Criteria and configuration for devices, which claims refer to by name.",
    counts_generations=True, returns_deleted=True, columns=columns.NAMED,
    rules=claims.check_class,
)  # fmt: skip
SLICE: Final = _kind(
    "ResourceSlice",
    description="Devices of one pool, as their driver publishes them.",
    counts_generations=True, returns_deleted=True,
    selectable={
        "spec.nodeName": ("spec", "nodeName"),
        "spec.driver": ("spec", "driver"),
        "spec.pool.name": ("spec", "pool", "name"),
    },
    columns=columns.SLICE, defaults=slices.default_slice, rules=slices.check_slice,
    conversions={V1BETA1: kinds.SLICE_V1BETA1},
)  # fmt: skip
TAINT_RULE: Final = _kind(
    "DeviceTaintRule",
    description="A taint for all devices that match.",
    has_status=True, counts_generations=True, returns_deleted=True, strategic=_CONDITIONED,
    columns=columns.NAMED, defaults=devices.default_rule, rules=devices.check_rule,
)  # fmt: skip


COSCHEDULING_GROUP: Final = _kind(
    "CoschedulingPodGroup",
    short_names=("pg", "pgs"), has_status=True, counts_generations=True, unconditional=False,
    columns=columns.NAMED, rules=pod_groups.check_coscheduling_group,
)  # fmt: skip
"""Served on real servers once the coscheduling plugin's resource definition is installed."""
POD_GROUP: Final = _kind(
    "PodGroup",
    description="Pods that are scheduled together.",
    has_status=True, counts_generations=True, strategic=_CONDITIONED, columns=columns.NAMED,
    rules=pod_groups.check_pod_group,
    conversions={V1ALPHA2: kinds.Conversion(shapes.to_current, shapes.to_v1alpha2)},
)  # fmt: skip
"""Served on real servers with the feature gate GenericWorkload, as are Workloads."""
COMPOSITE_GROUP: Final = _kind(
    "CompositePodGroup",
    description="Groups of pods, or of such groups, that are scheduled together.",
    has_status=True, counts_generations=True, strategic=_CONDITIONED, columns=columns.NAMED,
    rules=pod_groups.check_composite_group,
)  # fmt: skip
"""Served on real servers with the feature gate CompositePodGroup"""
WORKLOAD: Final = _kind(
    "SchedulingWorkload",
    description="Templates of the PodGroups of a workload, as its controller makes them.",
    counts_generations=True, columns=columns.NAMED, rules=pod_groups.check_workload,
    conversions={V1ALPHA2: kinds.Conversion(shapes.workload_to_current, shapes.workload_to_v1alpha2)},
)  # fmt: skip


POD_TEMPLATE: Final = _kind(
    "PodTemplate",
    description="A pod as others may be created from it.",
    counts_generations=True, returns_deleted=True, columns=columns.NAMED,
)  # fmt: skip

BUDGET: Final = _kind(
    "PodDisruptionBudget",
    description="How many of some pods must stay available. Its status is not computed here.",
    short_names=("pdb",), has_status=True, counts_generations=True, strategic=_CONDITIONED,
    columns=columns.BUDGET, rules=core.check_budget,
)  # fmt: skip

PERSISTENT_VOLUME: Final = _kind(
    "PersistentVolume",
    description="A volume.",
    short_names=("pv",), has_status=True, returns_deleted=True,
    strategic={"metadata": kinds.METADATA}, columns=columns.NAMED, defaults=core.default_volume,
    rules=core.check_volume,
)  # fmt: skip
VOLUME_CLAIM: Final = _kind(
    "PersistentVolumeClaim",
    description="A claim of a volume.",
    short_names=("pvc",), has_status=True, returns_deleted=True,
    strategic=_CONDITIONED, columns=columns.NAMED, defaults=core.default_claim,
    rules=core.check_claim,
)  # fmt: skip
STORAGE_CLASS: Final = _kind(
    "StorageClass",
    description="How volumes are made, and when claims are bound.",
    short_names=("sc",), returns_deleted=True, columns=columns.NAMED,
    defaults=core.default_class, rules=core.check_class,
)  # fmt: skip
CSI_NODE: Final = _kind(
    "CSINode",
    description="The CSI drivers on a node, and how many volumes it can attach.",
    returns_deleted=True,
    strategic={"metadata": kinds.METADATA, "spec": {"drivers": kinds.Merge("name")}},
    columns=columns.NAMED, rules=core.check_csi_node,
)  # fmt: skip
CSI_DRIVER: Final = _kind(
    "CSIDriver",
    description="A CSI driver, and what it asks of kube-scheduler.",
    returns_deleted=True, columns=columns.NAMED, defaults=core.default_driver,
)  # fmt: skip
STORAGE_CAPACITY: Final = _kind(
    "CSIStorageCapacity",
    description="The room for volumes of a class in a part of the cluster.",
    returns_deleted=True, columns=columns.NAMED, rules=core.check_capacity,
)  # fmt: skip
VOLUME_ATTACHMENT: Final = _kind(
    "VolumeAttachment",
    description="A volume that is attached to a node, or is to be.",
    has_status=True, returns_deleted=True, columns=columns.NAMED,
    rules=core.check_attachment,
)  # fmt: skip

BUILTIN: Final = (
    NAMESPACE, NODE, POD, SERVICE, CONFIG_MAP, EVENT_KIND, LEASE, EVICTION_REQUEST,
    CLAIM, TEMPLATE, DEVICE_CLASS, SLICE, TAINT_RULE, COSCHEDULING_GROUP, POD_GROUP, COMPOSITE_GROUP,
    WORKLOAD, BUDGET, POD_TEMPLATE,
    PERSISTENT_VOLUME, VOLUME_CLAIM, STORAGE_CLASS, CSI_NODE, CSI_DRIVER, STORAGE_CAPACITY, VOLUME_ATTACHMENT,
)  # fmt: skip


def every_kind() -> tuple[kinds.ServedKind, ...]:
    """The kinds above, and those of plugins."""
    return (*BUILTIN, *(kind for plugin in PLUGINS for kind in plugin.served_kinds()))


START_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that exist from the start."""
