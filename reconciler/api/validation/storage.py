"""PersistentVolumes, claims, StorageClasses and the objects of CSI drivers: the rules that clients depend on.

No controller here binds claims or makes volumes: their status is as it is written.
"""

from datetime import datetime

from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.nodes import check_node_selector

_ACCESS = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_MODES = ("Immediate", "WaitForFirstConsumer")


def default_volume(obj: Object, _now: datetime) -> None:
    """Set mode, reclaim policy and phase of a volume."""
    _defaults(obj, "spec", volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    _defaults(obj, "status", phase="Pending")


def default_claim(obj: Object, _now: datetime) -> None:
    """Set mode and phase of a claim."""
    _defaults(obj, "spec", volumeMode="Filesystem")
    _defaults(obj, "status", phase="Pending")


def default_class(obj: Object, _now: datetime) -> None:
    """Set when claims are bound, and what happens to their volumes."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_driver(obj: Object, _now: datetime) -> None:
    """Set whether volumes are attached, and whether kube-scheduler looks at capacities."""
    _defaults(obj, "spec", attachRequired=True, podInfoOnMount=False, storageCapacity=False)


def check_volume(review: Review) -> list[Cause]:
    """Check capacity, access modes and node affinity."""
    root = Field(review.new)
    spec = root["spec"]
    if not spec["capacity"].entries():
        spec["capacity"].required()
    _access_modes(spec["accessModes"])
    required = spec["nodeAffinity"]["required"]
    if required.present:
        check_node_selector(required)
    return root.causes


def check_claim(review: Review) -> list[Cause]:
    """Check access modes and size. The spec of a claim hardly changes."""
    root = Field(review.new)
    spec = root["spec"]
    _access_modes(spec["accessModes"])
    if not spec["resources"]["requests"]["storage"].present:
        spec["resources"]["requests"]["storage"].required()
    before = (review.old or {}).get("spec") or {}
    if before.get("volumeName") and spec["volumeName"].value != before["volumeName"]:
        spec["volumeName"].forbidden("spec is immutable after creation except resources.requests")
    return root.causes


def check_class(review: Review) -> list[Cause]:
    """Check the provisioner and when claims are bound; neither changes."""
    root = Field(review.new)
    if not root["provisioner"].text():
        root["provisioner"].required()
    if root["volumeBindingMode"].text() not in _MODES:
        root["volumeBindingMode"].unsupported(_MODES)
    for key in ("provisioner", "volumeBindingMode", "parameters", "reclaimPolicy"):
        if review.old is not None and root[key].value != review.old.get(key):
            root[key].forbidden("updates to this field are forbidden")
    return root.causes


def check_csi_node(review: Review) -> list[Cause]:
    """Check the names of drivers and their limits."""
    root = Field(review.new)
    for driver in root["spec"]["drivers"].items():
        for key in ("name", "nodeID"):
            if not driver[key].text():
                driver[key].required()
        count = driver["allocatable"]["count"]
        if count.present and count.integer() < 0:
            count.invalid("must be greater than or equal to 0")
    return root.causes


def check_capacity(review: Review) -> list[Cause]:
    """Check the class; it does not change."""
    root = Field(review.new)
    if not root["storageClassName"].text():
        root["storageClassName"].required()
    if review.old is not None and root["storageClassName"].value != review.old.get("storageClassName"):
        root["storageClassName"].invalid("field is immutable")
    return root.causes


def check_attachment(review: Review) -> list[Cause]:
    """Check driver, node and volume; they do not change."""
    root = Field(review.new)
    spec = root["spec"]
    for key in ("attacher", "nodeName"):
        if not spec[key].text():
            spec[key].required()
    if review.old is not None and review.new.get("spec") != review.old.get("spec"):
        spec.invalid("field is immutable")
    return root.causes


def _access_modes(modes: Field) -> None:
    found = modes.items()
    if not found:
        modes.required("at least 1 access mode is required")
    for mode in found:
        mode.one_of(_ACCESS)


def _defaults(obj: Object, part: str, **values: object) -> None:
    obj[part] = {**values, **(obj.get(part) or {})}
