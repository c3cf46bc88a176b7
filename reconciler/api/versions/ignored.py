"""Fields of the API that the models do not have, by the model: those that no answer depends on, and those
that could change one. A test compares models and both tables with the schemas of Kubernetes 1.32 to 1.37;
doctor reports fields of the second table, and all that are in none.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from reconciler.api.objects import claims, core, gangs, meta, slices, storage
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.semantics import (
    CONSUMABLE_CAPACITY,
    GROUP_PREEMPTION,
    NODE_ALLOCATABLE,
    SHARED_CAPACITY,
    SHARING_AFFINITY,
    TAINT_RULES,
    TAINTS,
)

_OF_OBJECTS = "apiVersion"
_SOURCES = (
    "azureFile cephfs fc flexVolume flocker glusterfs hostPath nfs photonPersistentDisk quobyte scaleIO "
    "storageos vsphereVolume"
)
"""Kinds of volumes that can be used on every node, or whose nodes are in the node affinity of the volume"""

HARMLESS: Mapping[type, str] = {
    claims.TemplateMetadata: (
        "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation "
        "managedFields name namespace ownerReferences resourceVersion selfLink uid"
    ),
    core.Condition: "lastHeartbeatTime lastProbeTime lastTransitionTime message observedGeneration reason",
    core.ConfigMap: "binaryData immutable",
    core.ContainerClaim: "request",
    core.Container: (
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy "
        "securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty "
        "volumeDevices volumeMounts workingDir"
    ),
    core.ContainerPort: "name",
    core.ContainerStatus: (
        "allocatedResourcesStatus containerID image imageID lastState ready restartCount started state "
        "stopSignal user volumeMounts"
    ),
    core.ExtendedResourceClaimStatus: "requestMappings",
    core.Namespace: "spec status",
    core.NodeSpec: "configSource externalID podCIDR podCIDRs podPreemptionPolicy providerID",
    core.NodeStatus: (
        "addresses capacity config daemonEndpoints features images nodeInfo phase runtimeHandlers "
        "volumesAttached volumesInUse"
    ),
    core.PodDisruptionBudgetSpec: "maxUnavailable minAvailable",
    core.PodDisruptionBudgetStatus: (
        "conditions currentHealthy desiredHealthy expectedPods observedGeneration"
    ),
    core.PodSpec: (
        "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks "
        "ephemeralContainers evictionResponders hostAliases hostIPC hostPID hostname hostnameOverride "
        "imagePullSecrets os readinessGates restartPolicy runtimeClassName schedulerName securityContext "
        "serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
        "terminationGracePeriodSeconds"
    ),
    core.PodStatus: (
        "ephemeralContainerStatuses hostIP hostIPs message observedGeneration podIP podIPs "
        "qosClass reason resize volumeHealth"
    ),
    core.RestartRule: "exitCodes",
    core.Taint: "timeAdded",
    core.Toleration: "tolerationSeconds",
    gangs.CompositePodGroup: "status",
    gangs.CompositePodGroupSpec: "workloadRef",
    gangs.CompositeSchedulingPolicy: "basic",
    gangs.CoschedulingPodGroup: "status",
    gangs.CoschedulingPodGroupSpec: "minResources scheduleTimeoutSeconds",
    gangs.PodGroupSpec: "workloadRef",
    gangs.PodGroupStatus: "conditions",
    gangs.SchedulingPolicy: "basic",
    meta.ObjectMeta: "deletionGracePeriodSeconds generateName managedFields selfLink",
    meta.OwnerReference: "blockOwnerDeletion",
    slices.DeviceTaintRule: "status",
    slices.ResourceSliceSpec: "partitionTypeAttribute",
    storage.AttachmentSource: "inlineVolumeSpec",
    storage.AwsElasticBlockStore: "fsType partition readOnly",
    storage.AzureDisk: "cachingMode diskName fsType readOnly",
    storage.CSIDriverSpec: (
        "attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount requiresRepublish "
        "seLinuxMount serviceAccountTokenInSecrets tokenRequests volumeLifecycleModes"
    ),
    storage.CSINode: "status",
    storage.CSINodeDriver: "nodeID topologyKeys",
    storage.CSIVolumeSource: (
        "controllerExpandSecretRef controllerPublishSecretRef fsType nodeExpandSecretRef "
        "nodePublishSecretRef nodeStageSecretRef readOnly volumeAttributes"
    ),
    storage.ClaimReference: "apiVersion fieldPath kind resourceVersion",
    storage.ClaimVolumeSource: "readOnly",
    storage.GcePersistentDisk: "fsType partition",
    storage.Iscsi: (
        "chapAuthDiscovery chapAuthSession fsType initiatorName iscsiInterface lun portals secretRef "
        "targetPortal"
    ),
    storage.PersistentVolumeClaimSpec: "dataSource dataSourceRef",
    storage.PersistentVolumeClaimStatus: (
        "accessModes allocatedResourceStatuses allocatedResources capacity conditions "
        "currentVolumeAttributesClassName healthStatus modifyVolumeStatus"
    ),
    storage.PersistentVolumeSpec: (f"{_SOURCES} iscsi local mountOptions persistentVolumeReclaimPolicy rbd"),
    storage.PersistentVolumeStatus: "lastPhaseTransitionTime message reason",
    storage.Rbd: "fsType keyring secretRef user",
    storage.StorageClass: "allowVolumeExpansion mountOptions parameters reclaimPolicy",
    storage.Volume: f"{_SOURCES} configMap csi downwardAPI emptyDir gitRepo image projected secret",
    storage.VolumeAttachment: "status",
    storage.VolumeByID: "fsType readOnly secretRef",
    storage.VolumeResources: "limits",
}
UNUSED: Mapping[type, Mapping[str, str]] = {
    slices.Device: {
        "nodeAllocatableResourceMappings": "1.36, off; another shape of `nodeAllocatableResources`",
    },
    core.PodSpec: {"workloadRef": "1.35, off: a gang, before there were PodGroups"},
    core.NodeAllocatableClaimStatus: {"resources": "1.36, off; another shape of `mapping`"},
}
"""Field -> since when, and what is known about it. docs/versions.md shows them."""


GATED: Mapping[type, Mapping[str, str]] = {
    slices.Device: {
        "allowMultipleAllocations": CONSUMABLE_CAPACITY,
        "nodeAllocatableResources": NODE_ALLOCATABLE,
        "taints": TAINTS,
    },
    slices.ResourceSliceSpec: {"sharingAffinity": SHARING_AFFINITY},
    slices.Counter: {"requestPolicy": SHARED_CAPACITY, "valueFrom": SHARED_CAPACITY},
    claims.AllocatedDevice: {"consumedCounters": SHARED_CAPACITY},
    core.PodStatus: {"nodeAllocatableResourceClaimStatuses": NODE_ALLOCATABLE},
    slices.DeviceTaintRule: {"spec": TAINTS},
    slices.DeviceTaintRuleSpec: {"taint": TAINT_RULES},
    gangs.PodGroupSpec: {"preemptionPolicy": GROUP_PREEMPTION},
    gangs.CompositePodGroupSpec: {"preemptionPolicy": GROUP_PREEMPTION},
}
"""Field -> the feature gate without which it is ignored"""


def ignored(model: type) -> frozenset[str]:
    """The fields of a model that are known, and that no answer depends on; of plugins, those of `UNREAD`."""
    of_objects = _OF_OBJECTS if issubclass(model, meta.ApiObject) else ""
    mine: frozenset[str] = getattr(model, "UNREAD", frozenset())
    return frozenset(f"{HARMLESS.get(model, '')} {of_objects}".split()) | mine


@cache
def used(model: type) -> dict[str, Any]:
    """The fields that a model has, by their names in the API, with their types."""
    return {field.alias or name: field.annotation for name, field in fields_of(model).items()}


Part = tuple[type, str, Mapping[str, Any]]
"""The model of a part of an object, its path, and the part itself"""


def parts_of(model: type, raw: Mapping[str, Any], path: str = "") -> Iterator[Part]:
    """An object and all parts of it that have a model."""
    yield model, path, raw
    fields = used(model)
    for key, value in raw.items():
        if key in fields:
            yield from _below(fields[key], value, f"{path}.{key}" if path else key)


def _below(annotation: Any, value: Any, path: str) -> Iterator[Part]:
    model = model_in(annotation)
    if model is None:
        return
    inside: Iterable[tuple[str, Any]] = [(path, value)]
    if isinstance(value, list):
        inside = ((f"{path}[{number}]", one) for number, one in enumerate(value))
    elif isinstance(value, Mapping) and get_origin(annotation) is dict:
        inside = ((f"{path}[{key}]", one) for key, one in value.items())
    for there, one in inside:
        if isinstance(one, Mapping):
            yield from parts_of(model, one, there)


def unknown_in(
    model: type, raw: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Path and name of each unknown field of an object of `model`, and the known names there."""
    for kind, there, part in parts_of(model, raw, path):
        known = _known(kind)
        if not known.issuperset(part):
            for key in part:
                if key not in known:
                    yield f"{there}.{key}" if there else key, key, known


@cache
def _known(model: type) -> frozenset[str]:
    return frozenset(used(model)) | ignored(model) | frozenset(UNUSED.get(model, ()))


@cache
def model_in(annotation: Any) -> type | None:
    """The model in `Model`, `Model | None`, or a tuple or map of models."""
    if isinstance(annotation, type) and fields_of(annotation):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)
