"""The kinds that are read or served and their versions: one table for reading, discovery and conversion;
and since which release of Kubernetes a field exists.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.api.objects import claims, core, gangs, semantics, slices, storage
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import ConfigMap, Namespace, Node, Pod, PodDisruptionBudget
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import kept
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.api.versions.ignored import parts_of

RESOURCE = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"
STORAGE = "storage.k8s.io"


class Kind(Struct, frozen=True, dict=True):
    """A kind of objects."""

    group: str
    """Empty for core"""
    versions: tuple[str, ...]
    """Those that are used of a server, the best first: `v1beta1, v1alpha3`. The model has its shape, and the
    embedded server stores it"""
    model: type[ApiObject] = ApiObject
    """That of a kind that is only served has no fields beyond metadata"""
    name: str = ""
    """As objects write their kind"""
    plural: str = ""
    namespaced: bool = True
    other_shapes: tuple[str, ...] = ()
    """Versions that are converted when they are read"""
    only_in_files: tuple[str, ...] = ()
    """Versions that are read from manifests, and used of no server"""
    in_files: bool = True
    """Whether manifests have it for decisions"""
    since: Mapping[str, int] = {}
    """Version -> the first minor release of Kubernetes 1 that has it; others are older than 1.32"""
    until: Mapping[str, int] = {}
    """Version -> the last one; others are in the newest"""

    def version_of(self, minor: int) -> str | None:
        """The best version that a release of Kubernetes 1 has; None if it has none that is used."""
        return next(
            (
                one
                for one in self.versions
                if self.since.get(one, 0) <= minor <= self.until.get(one, semantics.NEWEST_MINOR)
            ),
            None,
        )

    def api_version(self, version: str) -> str:
        """As objects write it."""
        return f"{self.group}/{version}" if self.group else version

    @kept
    def api_versions(self) -> list[str]:
        """All that are read, as objects write them, the best first."""
        return [self.api_version(version) for version in (*self.versions, *self.only_in_files)]

    @kept
    def in_shape(self) -> list[str]:
        """Those with the shape of the model, as objects write them."""
        return [self.api_version(version) for version in self.versions if version not in self.other_shapes]

    @kept
    def converted(self) -> list[str]:
        """Those that are converted when they are read, as objects write them."""
        return [self.api_version(version) for version in self.other_shapes]


KINDS: dict[str, Kind] = {}
"""By the name of the model: two API groups have a kind PodGroup, and each has its own. What has no model is
`Lease.coordination.k8s.io`"""
NAMES: dict[tuple[str, str], str] = {}
"""(group, kind as objects write it) -> its name in KINDS"""


_HARMLESS = frozenset({"ResourcePoolStatusRequest", "PriorityClass"})
"""Kinds of RESOURCE and SCHEDULING that no answer depends on"""


NOT_FOLLOWED = frozenset({("scheduling.koordinator.sh", "Reservation")})
"""Kinds of other projects that keep devices for pods, which is not considered here"""


def is_newer(group: str, kind: str) -> bool:
    """Whether objects of a kind could change answers about devices or gangs, and are in no table here."""
    if (group, kind) in NOT_FOLLOWED:
        return True
    return group in (RESOURCE, SCHEDULING) and (group, kind) not in NAMES and kind not in _HARMLESS


def register(model: type[ApiObject], group: str, versions: Sequence[str], *, in_files: bool = True) -> None:
    """Have a kind of a plugin read, all versions in the shape of its model."""
    _add(Kind(group, tuple(versions), model, in_files=in_files))


def _add(kind: Kind) -> None:
    written = kind.name or kind.model.model_fields["kind"].default
    key = kind.model.__name__
    if kind.model is ApiObject:
        key = f"{written}.{kind.group}" if kind.group else written
    KINDS[key] = replace(kind, name=written, plural=kind.plural or f"{written.lower()}s")
    NAMES[kind.group, written] = key


_OF_CLAIMS = {"v1": 34, "v1beta2": 33, "v1beta1": 32}
_INLINE = ("v1beta1", "v1alpha3")
"""Versions with devices under `basic`, and requests without `exactly`"""
_FILES = ("v1alpha3",)
"""Kubernetes 1.31 does not accept our writes, so claims of it are read from files only"""
_OF_RULES = {"v1": 37, "v1beta2": 36, "v1alpha3": 33}
_OF_GROUPS = {"v1beta1": 37, "v1alpha3": 37, "v1alpha2": 36}
_GROUPS_UNTIL = {"v1alpha2": 36}
_V1 = ("v1",)

_CLAIM = Kind(
    *(RESOURCE, tuple(_OF_CLAIMS), ResourceClaim),
    other_shapes=_INLINE,
    only_in_files=_FILES,
    since=_OF_CLAIMS,
)
_GROUP = Kind(
    *(SCHEDULING, tuple(_OF_GROUPS), gangs.PodGroup),
    other_shapes=("v1alpha2",),
    since=_OF_GROUPS,
    until=_GROUPS_UNTIL,
)
for _kind in (
    _CLAIM,
    replace(_CLAIM, model=ResourceClaimTemplate),
    replace(_CLAIM, model=ResourceSlice, namespaced=False),
    replace(_CLAIM, model=DeviceClass, plural="deviceclasses", namespaced=False, other_shapes=()),
    Kind(RESOURCE, tuple(_OF_RULES), DeviceTaintRule, namespaced=False, since=_OF_RULES),
    Kind("", _V1, Node, namespaced=False),
    Kind("", _V1, Pod),
    Kind("", _V1, Namespace, namespaced=False),
    Kind("", _V1, ConfigMap, in_files=False),
    Kind("policy", _V1, PodDisruptionBudget),
    _GROUP,
    replace(_GROUP, model=gangs.SchedulingWorkload),
    Kind(SCHEDULING, ("v1alpha3",), gangs.CompositePodGroup, since={"v1alpha3": 37}),
    Kind("scheduling.x-k8s.io", ("v1alpha1",), gangs.CoschedulingPodGroup),
    Kind("", _V1, storage.PersistentVolume, namespaced=False),
    Kind("", _V1, storage.PersistentVolumeClaim),
    Kind(STORAGE, _V1, storage.StorageClass, plural="storageclasses", namespaced=False),
    Kind(STORAGE, _V1, storage.CSINode, namespaced=False),
    Kind(STORAGE, _V1, storage.CSIDriver, namespaced=False),
    Kind(STORAGE, _V1, storage.CSIStorageCapacity, plural="csistoragecapacities"),
    Kind(STORAGE, _V1, storage.VolumeAttachment, namespaced=False),
    # Those that only the embedded server has
    Kind("", _V1, name="Service", in_files=False),
    Kind("", _V1, name="Event", in_files=False),
    Kind("", _V1, name="PodTemplate", in_files=False),
    Kind("coordination.k8s.io", _V1, name="Lease", in_files=False),
    Kind("lifecycle.k8s.io", ("v1alpha1",), name="EvictionRequest", in_files=False, since={"v1alpha1": 37}),
):
    _add(_kind)


OLDEST_MINOR = 32
"""The oldest release of Kubernetes 1 that objects are written for"""


class Since(NamedTuple):
    """When a field appeared."""

    minor: int
    gate: str = ""
    """The gate that it needs"""
    is_harmless: bool = False
    """Whether no answer changes if a server drops it"""


_PARTITIONS = Since(33, semantics.PARTITIONABLE_DEVICES)
_TAINTS = Since(33, semantics.TAINTS)
_SHARES = Since(34, semantics.CONSUMABLE_CAPACITY)
_BINDING = Since(34, semantics.BINDING_CONDITIONS)
_LISTS = Since(36, semantics.LIST_ATTRIBUTES)
_OPERATIONS = Since(37, semantics.OPTIONAL_NODE_OPERATIONS, is_harmless=True)
_DERIVED = Since(37, semantics.DERIVED_ATTRIBUTES)
_REQUESTED = Since(semantics.NEWEST_MINOR + 1, semantics.SHARED_CAPACITY)

SINCE: Mapping[type, Mapping[str, Since]] = {
    slices.Device: {
        **dict.fromkeys(("allNodes", "consumesCounters", "nodeName", "nodeSelector"), _PARTITIONS),
        "taints": _TAINTS,
        "allowMultipleAllocations": _SHARES,
        **dict.fromkeys(("bindingConditions", "bindingFailureConditions", "bindsToNode"), _BINDING),
        "nodeAllocatableResources": Since(37, semantics.NODE_ALLOCATABLE),
    },
    slices.ResourceSliceSpec: {
        **dict.fromkeys(("perDeviceNodeSelection", "sharedCounters"), _PARTITIONS),
        "partitionTypeAttribute": Since(37, is_harmless=True),
        "skipNodeOperations": _OPERATIONS,
        "sharingAffinity": Since(semantics.NEWEST_MINOR + 1, semantics.SHARING_AFFINITY),
    },
    slices.Counter: dict.fromkeys(("requestPolicy", "valueFrom"), _REQUESTED),
    slices.CounterConsumption: {
        "compatibilityGroups": Since(37, semantics.COMPATIBILITY_GROUPS, is_harmless=True)
    },
    slices.DeviceAttribute: dict.fromkeys(("bools", "ints", "strings", "versions"), _LISTS),
    slices.DeviceCapacity: {"requestPolicy": _SHARES},
    claims.DeviceRequest: {"firstAvailable": Since(33, semantics.PRIORITIZED_LIST)},
    claims.ExactDeviceRequest: {"tolerations": _TAINTS, "capacity": _SHARES, "derivedAttributes": _DERIVED},
    claims.DeviceSubRequest: {"capacity": _SHARES, "derivedAttributes": _DERIVED},
    claims.DeviceConstraint: {"distinctAttribute": _SHARES},
    claims.DeviceClassSpec: {"extendedResourceName": Since(34, semantics.EXTENDED_RESOURCES)},
    claims.Allocation: {"allocationTimestamp": Since(34, is_harmless=True)},
    claims.AllocatedDevice: {
        "tolerations": _TAINTS,
        **dict.fromkeys(("bindingConditions", "bindingFailureConditions"), _BINDING),
        **dict.fromkeys(("consumedCapacity", "shareID"), _SHARES),
        "consumedCounters": _REQUESTED,
        "skipNodeOperations": _OPERATIONS,
    },
    core.PodSpec: {"schedulingGroup": Since(36, semantics.GENERIC_WORKLOAD)},
    gangs.PodGroupSpec: {
        "parentCompositePodGroupName": Since(37, semantics.COMPOSITE_GROUPS),
        "preemptionPolicy": Since(37, semantics.GROUP_PREEMPTION),
    },
}
"""Model -> its field as the API spells it"""


def dated_fields(model: type, raw: Mapping[str, Any]) -> Iterator[tuple[str, Since]]:
    """The fields of an object in today's shape that are not in all releases, by their paths."""
    for kind, path, part in parts_of(model, raw):
        for field, since in SINCE.get(kind, {}).items():
            if part.get(field) is not None:
                yield f"{path}.{field}", since


def off_in(model: type, raw: Mapping[str, Any], minor: int) -> Iterator[str]:
    """The gates that an object needs and that a release has, but off by default."""
    for _, since in dated_fields(model, raw):
        gate = semantics.GATES.get(since.gate)
        if gate is not None and since.minor <= minor and (gate.on_since or minor + 1) > minor:
            yield since.gate
