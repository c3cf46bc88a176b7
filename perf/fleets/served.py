"""What a real server writes on objects beside what their makers do: metadata, and the status of nodes."""

from uuid import UUID

from perf.fleets.objects import Json

CREATED = "2026-11-21T08:00:00Z"
IMAGES = 20


def served(thing: Json, number: int) -> Json:
    """An item of a listing: no kind and version, but uids, versions, owners and managers of fields."""
    uid = str(UUID(int=number))
    metadata: Json = {
        **thing["metadata"],
        "uid": uid,
        "resourceVersion": str(1000 + number),
        "generation": 1,
        "creationTimestamp": CREATED,
    }
    rest = {key: value for key, value in thing.items() if key not in ("kind", "apiVersion", "metadata")}
    match thing["kind"]:
        case "ResourceSlice":
            spec = thing["spec"]
            name = spec.get("nodeName", "")
            metadata["generateName"] = f"{name}-{spec['driver']}-"
            if name:
                owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}
                metadata["ownerReferences"] = [owner]
            metadata["managedFields"] = [_managed("kubelet-plugin", thing["apiVersion"], _SLICE_FIELDS)]
        case "Node":
            metadata["labels"] = {**_labels(), **metadata["labels"]}
            metadata["annotations"] = _ANNOTATIONS
            metadata["managedFields"] = [
                _managed("kubelet", "v1", _NODE_FIELDS),
                _managed("kube-controller-manager", "v1", _NODE_FIELDS),
            ]
            rest |= {
                "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
                "status": _status(number),
            }
    return {"metadata": metadata, **rest}


def _managed(manager: str, version: str, fields: Json) -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": version,
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


_SLICE_FIELDS: Json = {
    "f:metadata": {"f:generateName": {}, "f:ownerReferences": {".": {}, 'k:{"uid":"0"}': {}}},
    "f:spec": {
        "f:devices": {},
        "f:driver": {},
        "f:nodeName": {},
        "f:pool": {"f:generation": {}, "f:name": {}},
    },
}
_NODE_FIELDS: Json = {
    "f:metadata": {"f:labels": {f"f:example.com/label-{number}": {} for number in range(12)}},
    "f:status": {
        "f:conditions": {f'k:{{"type":"Condition{number}"}}': {"f:status": {}} for number in range(4)},
        "f:images": {},
    },
}
_ANNOTATIONS: Json = {
    "node.alpha.kubernetes.io/ttl": "0",
    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    "csi.volume.kubernetes.io/nodeid": '{"csi.example.com":"i-0123456789abcdef0"}',
}


def _labels() -> Json:
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu.8xlarge",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": "eu-1a",
        **{f"example.com/label-{number}": "true" for number in range(8)},
    }


def _status(number: int) -> Json:
    amounts = {"cpu": "192", "memory": "2113413904Ki", "ephemeral-storage": "1824504812Ki", "pods": "110"}
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "lastHeartbeatTime": CREATED,
                "lastTransitionTime": CREATED,
                "reason": f"Kubelet{kind}",
                "message": "kubelet is posting ready status",
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": f"{number:032x}",
            "systemUUID": str(UUID(int=number)),
            "bootID": str(UUID(int=number)),
            "kernelVersion": "6.8.0-generic",
            "osImage": "Ubuntu 24.04 LTS",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": "v1.36.2",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [
            {
                "names": [f"registry.example.com/team/image-{image}@sha256:{image:064x}"],
                "sizeBytes": 123456789 + image,
            }
            for image in range(IMAGES)
        ],
    }
