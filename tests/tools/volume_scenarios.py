"""Scenarios in which volumes decide where a pod may run."""

from typing import Any

from tests.tools.pod_scenarios import A, B
from tests.tools.scenario import Given, asking, fleet, running
from tests.tools.small_fleet import Object, claim, device_class, devices

STORAGE = "storage.k8s.io/v1"
DRIVER = "csi.example.com"


def mounting(*names: str, **more: Object) -> Object:
    """The spec of a pod with volumes of these claims, and with other volumes."""
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {"volumes": [*claims, *({"name": name, **source} for name, source in more.items())]}


def ephemeral(class_: str = "wait", size: str = "1Gi") -> Object:
    """The source of a volume with a claim of its own."""
    return {"ephemeral": {"volumeClaimTemplate": {"spec": volume_claim("x", class_, size)["spec"]}}}


def storage_class(name: str = "wait", provisioner: str = DRIVER, **more: Any) -> Object:
    """A class that waits for the first consumer."""
    found = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}
    return {"apiVersion": STORAGE, "kind": "StorageClass", "metadata": {"name": name}, **found}


def volume_claim(name: str, class_: str = "wait", size: str = "1Gi", volume: str = "", **spec: Any) -> Object:
    """A claim, bound to a volume if one is given."""
    metadata: Object = {"name": name, "namespace": "default"}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    found: Object = {**asked, "storageClassName": class_, **spec}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        found["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": found}


def volume(name: str, node: str = "", class_: str = "wait", of: str = "", **more: Any) -> Object:
    """A volume of a CSI driver, usable on one node or on all, bound to a claim if one is given."""
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "5Gi"},
        "storageClassName": class_,
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    if node:
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
    if of:
        spec["claimRef"] = {"namespace": "default", "name": of}
    metadata = {"name": name, **more}
    status = {"phase": "Bound" if of else "Available"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def csi_node(name: str, limit: int) -> Object:
    """What the driver says about a node."""
    drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": limit}}]
    spec = {"drivers": drivers}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": name}, "spec": spec}


def csi_driver(*, capacity: bool) -> Object:
    """The driver."""
    spec = {"storageCapacity": capacity}
    return {"apiVersion": STORAGE, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}


def capacity(name: str, node: str, size: str, class_: str = "wait") -> Object:
    """The room of a class on a node."""
    return {
        "apiVersion": STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class_,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
        "capacity": size,
    }


def attachment(node: str, of: str) -> Object:
    """A volume that is attached to a node."""
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": of}}
    metadata = {"name": f"{of}-at-{node}"}
    return {"apiVersion": STORAGE, "kind": "VolumeAttachment", "metadata": metadata, "spec": spec}


NO_PROVISIONER = "kubernetes.io/no-provisioner"

VOLUME_SCENARIOS = {
    "bound volumes and volumes that exist pin their pods to a node": Given(
        *fleet(A, B),
        storage_class("local", NO_PROVISIONER),
        volume("v", "b", "local", of="bound"),
        volume("free", "b", "local"),
        volume_claim("bound", "local", volume="v"),
        volume_claim("unbound", "local"),
        volume_claim("large", "local", size="9Gi"),
        *(claim(name) for name in "xyz"),
        asking("p", "x", **mounting("bound")),
        asking("q", "y", **mounting("unbound")),
        asking("r", "z", **mounting("large")),
    ).then({"pod p": "b: d0", "pod q": "b: d1", "pod r": "NoNode"}, live_order=False),
    "claims that do not exist, or are not bound at once, keep their pods waiting": Given(
        *fleet(A, B),
        storage_class("now", volumeBindingMode="Immediate"),
        volume_claim("unbound", "now"),
        *map(claim, "xy"),
        asking("p", "x", **mounting("missing")),
        asking("q", "y", **mounting("unbound")),
    ).then({"pod p": "NoNode", "pod q": "NoNode"}, live_order=False),
    "zones of volumes, and topologies of classes": Given(
        *fleet(
            {**A, "metadata": {**A["metadata"], "labels": {"topology.kubernetes.io/zone": "z1"}}},
            {**B, "metadata": {**B["metadata"], "labels": {"topology.kubernetes.io/zone": "z2"}}},
        ),
        storage_class(
            allowedTopologies=[
                {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z2"]}]}
            ]
        ),
        volume("v", of="zoned", labels={"topology.kubernetes.io/zone": "z2"}),
        volume_claim("zoned", volume="v"),
        volume_claim("new"),
        *map(claim, "xy"),
        asking("p", "x", **mounting("zoned")),
        asking("q", "y", **mounting("new")),
    ).then({"pod p": "b: d0", "pod q": "b: d1"}, live_order=False),
    "limits of attached volumes count from the decision on": Given(
        *fleet(A, B),
        storage_class(),
        csi_node("a", 2),
        csi_node("b", 1),
        volume("old", of="old"),
        attachment("a", "old"),
        *(volume_claim(name) for name in ("one", "two", "three")),
        *(claim(name) for name in "xyz"),
        asking("p", "x", **mounting("one")),
        asking("q", "y", **mounting("two")),
        asking("r", "z", **mounting("three")),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "NoNode"}, live_order=False),
    "a claim for one pod has one pod, from the decision on": Given(
        *fleet(A, B),
        volume("v", of="alone"),
        volume_claim("alone", volume="v", accessModes=["ReadWriteOncePod"]),
        *map(claim, "xy"),
        asking("p", "x", **mounting("alone")),
        asking("q", "y", **mounting("alone")),
    ).then({"pod p": "a: d0", "pod q": "NoNode"}, live_order=False),
    "a disk that a running pod writes": Given(
        *fleet(A, B),
        running("there", "a", "1", **mounting(d={"gcePersistentDisk": {"pdName": "disk"}})),
        claim("x"),
        asking("p", "x", **mounting(d={"gcePersistentDisk": {"pdName": "disk", "readOnly": True}})),
    ).then({"pod p": "b: d0"}, live_order=False),
    "pods that share a claim of devices have their volumes on one node": Given(
        device_class(),
        A,
        B,
        devices("a", "d0"),
        devices("b", "d1"),
        storage_class(),
        csi_node("a", 1),
        csi_node("b", 2),
        *(volume_claim(name) for name in ("one", "two")),
        claim("x"),
        asking("p", "x", **mounting("one")),
        asking("q", "x", **mounting("two")),
    ).then({"pod p": "b: d1"}, live_order=False, apart=frozenset({"pod p"})),
    "volumes that exist are promised to pods that have a node": Given(
        *fleet(A, B),
        storage_class("local", NO_PROVISIONER),
        volume("v", "a", "local"),
        volume("w", "b", "local"),
        *(volume_claim(name, "local") for name in ("one", "two", "three")),
        *(claim(name) for name in "xyz"),
        asking("p", "x", **mounting("one")),
        asking("q", "y", **mounting("two")),
        asking("r", "z", **mounting("three")),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "NoNode"}, live_order=False),
    "a claim that is not bound yet follows the pod that uses it": Given(
        *fleet(A, B, count=1),
        storage_class(),
        volume_claim("shared"),
        *(claim(name) for name in "xy"),
        asking("p", "x", **mounting("shared")),
        asking("q", "y", **mounting("shared")),
    ).then({"pod p": "a: d0", "pod q": "DevicesInUse"}, live_order=False),
    "room for new volumes where the driver reports it": Given(
        *fleet(A, B),
        storage_class(),
        csi_driver(capacity=True),
        capacity("on-a", "a", "2Gi"),
        capacity("on-b", "b", "4Gi"),
        volume_claim("data", size="3Gi"),
        claim("x"),
        asking("p", "x", **mounting("data")),
    ).then({"pod p": "b: d0"}, live_order=False),
}
