"""What the volumes of a pod are, as far as they decide where it can run.

Problems that concern all nodes are found here; `volume_filters.py` tests the nodes.
Source: rules VOL-1 to VOL-9.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from reconciler.api.objects.core import Pod, Volume
from reconciler.api.objects.storage import (
    FIRST_CONSUMER,
    READ_WRITE_ONCE_POD,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.volumes.migration import plugin_of
from reconciler.state.volumes.objects import StorageObjects, claims_named

RESTRICTIONS, LIMITS = "VolumeRestrictions", "NodeVolumeLimits"
BINDING, ZONES = "VolumeBinding", "VolumeZone"
_LOST = "Lost"
_NAMED = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "VolumeAttachment")
"""Kinds that every pod with a claim of a volume needs"""
_UNBOUND = ("CSIDriver", "CSIStorageCapacity")
"""Kinds that a pod needs whose volume is not made yet"""


class Problem(Struct, frozen=True):
    """Why a pod cannot run anywhere, in the words of a test."""

    reason: str
    remedy: str
    plugins: tuple[str, ...]
    """The filters of kube-scheduler that refuse it"""


class PodVolumes(Struct):
    """The volumes of one pod, sorted by what must be tested."""

    problems: list[Problem] = field(default_factory=list)
    bound: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    """Claims that have their volume"""
    delayed: list[tuple[PersistentVolumeClaim, StorageClass]] = field(default_factory=list)
    """Claims that get a volume once the pod has a node, smallest first"""
    zoned: list[PersistentVolume] = field(default_factory=list)
    """Volumes whose labels may name zones"""
    exclusive: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims that one pod at a time may use"""


def require_storage(pod: Pod, on_demand: KindsOnDemand, objects: StorageObjects) -> None:
    """Raise Unlisted if storage objects that the volumes of a pod need are not listed."""
    if any(True for _ in claims_named(pod)):
        on_demand.require_all(_NAMED, "a volume of the pod")
        if _volumes_to_make(pod, objects):
            on_demand.require_all(_UNBOUND, "a volume of the pod that is not made yet")
    elif any(plugin_of(volume) is not None for volume in pod.spec.volumes):
        on_demand.require_all(_NAMED, "a disk of the pod")


def volumes_of(pod: Pod, objects: StorageObjects) -> PodVolumes:
    """Look up the volumes of a pod."""
    found = PodVolumes()
    for volume, key in claims_named(pod):
        ephemeral = volume.ephemeral is not None
        claim = objects.claim_of(pod, volume)
        if claim is None:
            found.problems.append(_missing(str(key), ephemeral=ephemeral))
        else:
            found.problems += _problems(pod, volume, claim)
            if not ephemeral:
                found.problems += _zones(claim, objects, found)
                if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                    found.exclusive.append(claim)
            found.problems += _binding(claim, objects, found)
    found.delayed.sort(key=lambda one: one[0].requested.nanos if one[0].requested is not None else 0)
    return found


def _volumes_to_make(pod: Pod, objects: StorageObjects) -> bool:
    claims = [objects.claim_of(pod, volume) for volume, _ in claims_named(pod)]
    return any(claim is not None and not claim.spec.volume_name for claim in claims)


def _missing(key: str, *, ephemeral: bool) -> Problem:
    reason = f"while PersistentVolumeClaim {key} does not exist"
    if ephemeral:
        return Problem(reason, f"wait until the control plane creates claim {key}", (LIMITS, BINDING))
    return Problem(reason, f"create claim {key}", (RESTRICTIONS, LIMITS, BINDING, ZONES))


def _problems(pod: Pod, volume: Volume, claim: PersistentVolumeClaim) -> Iterator[Problem]:
    """What is wrong with a claim itself."""
    what = f"PersistentVolumeClaim {claim.key}"
    if claim.status.phase == _LOST:
        yield Problem(f"while {what} has lost its volume", f"recreate claim {claim.key}", (BINDING,))
    if claim.metadata.deletion_timestamp is not None:
        yield Problem(f"while {what} is being deleted", f"recreate claim {claim.key}", (BINDING,))
    if volume.ephemeral is not None and not _owned(claim, pod):
        remedy = f"delete claim {claim.key}, or rename volume {volume.name}"
        yield Problem(f"while {what} belongs to no volume of the pod", remedy, (LIMITS, BINDING))


def _owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
    )


def _zones(claim: PersistentVolumeClaim, objects: StorageObjects, found: PodVolumes) -> Iterator[Problem]:
    """What VolumeZone looks at; claims that wait for a pod have no zone yet."""
    if claim.spec.volume_name:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield _no_volume(claim, (ZONES,))
        else:
            found.zoned.append(volume)
        return
    class_ = objects.classes.get(claim.storage_class)
    if class_ is None or class_.volume_binding_mode != FIRST_CONSUMER:
        yield _unbound(claim, class_, (ZONES,))


def _binding(claim: PersistentVolumeClaim, objects: StorageObjects, found: PodVolumes) -> Iterator[Problem]:
    """What VolumeBinding looks at."""
    if claim.bound:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield _no_volume(claim, (BINDING,))
        else:
            found.bound.append((claim, volume))
        return
    class_ = objects.classes.get(claim.storage_class)
    waits = class_ is not None and class_.volume_binding_mode == FIRST_CONSUMER
    if class_ is None or not waits or claim.spec.volume_name:
        yield _unbound(claim, class_, (BINDING,))
    else:
        found.delayed.append((claim, class_))


def _no_volume(claim: PersistentVolumeClaim, plugins: tuple[str, ...]) -> Problem:
    name = claim.spec.volume_name
    reason = f"while PersistentVolume {name} of claim {claim.key} does not exist"
    return Problem(reason, f"restore PersistentVolume {name}, or recreate claim {claim.key}", plugins)


def _unbound(claim: PersistentVolumeClaim, class_: StorageClass | None, plugins: tuple[str, ...]) -> Problem:
    reason = f"while PersistentVolumeClaim {claim.key} is not bound"
    if claim.spec.volume_name:
        remedy = f"wait until claim {claim.key} is bound to {claim.spec.volume_name}"
    elif class_ is None and claim.storage_class:
        remedy = f"create StorageClass {claim.storage_class}"
    elif class_ is None:
        remedy = f"set storageClassName of claim {claim.key}, or create a volume for it"
    else:
        remedy = f"wait until StorageClass {claim.storage_class}, which binds immediately, provides a volume"
    return Problem(reason, remedy, plugins)
