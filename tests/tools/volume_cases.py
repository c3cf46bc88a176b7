"""Random pods with volumes, with all storage objects, in the form of `podfit` cases."""

from random import Random
from typing import Any

Object = dict[str, Any]

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
DRIVERS = ("csi.example.com", "other.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io")
PLUGINS = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/cinder",
    "kubernetes.io/azure-disk",
    "kubernetes.io/portworx-volume",
)
TOPOLOGY = ("topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.cinder.csi.openstack.org/zone")
CLASSES = ("wait", "wait-local", "wait-narrow", "wait-cloud", "now", "odd")
COUNT = "count"


class Drawn:
    """One case, drawn part by part."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._zones = ["z1", "z2", "z3"]
        self._handles = 0
        self.nodes = [self._node(f"node-{number}") for number in range(random.randint(1, 5))]
        self.names = [node["metadata"]["name"] for node in self.nodes]
        self.classes = self._classes()
        self.volumes: list[Object] = []
        self.claims: list[Object] = []
        for number in range(random.randint(1, 5)):
            self._claim(f"pvc-{number}")
        self._sizes = random.sample(range(1, 60), 8)
        for number in range(random.randint(0, 6)):
            self.volumes.append(self._free_volume(f"pv-{number}", self._sizes[number]))
        self.pods = [self._pod(f"run-{n}", random.choice(self.names)) for n in range(random.randint(0, 6))]
        self.pod = self._pod("pod", "")
        self._ephemeral_claims()

    def maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def case(self, name: str) -> Object:
        return {
            "name": name,
            "pod": self.pod,
            "nodes": self.nodes,
            "pods": self.pods,
            "namespaces": [{"metadata": {"name": "default"}}],
            "pvs": self.volumes,
            "pvcs": self.claims,
            "classes": self.classes,
            "csinodes": self._csi_nodes(),
            "csidrivers": self._drivers(),
            "capacities": self._capacities(),
            "attachments": self._attachments(),
        }

    # -- nodes

    def _node(self, name: str) -> Object:
        labels = {HOST: name}
        for key in (ZONE, BETA, REGION, *TOPOLOGY):
            if self.maybe(0.5 if key in (ZONE, BETA) else 0.3):
                labels[key] = self._random.choice(self._zones)
        metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
        return {"metadata": metadata, "spec": {}, "status": {"allocatable": {"cpu": "16", "pods": "110"}}}

    def _csi_nodes(self) -> list[Object]:
        found = []
        for name in self.names:
            if self.maybe(0.8):
                drivers: list[Object] = [
                    {
                        "name": driver,
                        "nodeID": name,
                        **({"allocatable": {COUNT: self._random.randint(0, 4)}} if self.maybe(0.8) else {}),
                    }
                    for driver in DRIVERS
                    if self.maybe(0.7)
                ]
                metadata: Object = {"name": name}
                if self.maybe(0.5):
                    plugins = [plugin for plugin in PLUGINS if self.maybe(0.7)]
                    metadata["annotations"] = {
                        "storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)
                    }
                found.append({"metadata": metadata, "spec": {"drivers": drivers}})
        return found

    # -- classes

    def _classes(self) -> list[Object]:
        wait = {"volumeBindingMode": "WaitForFirstConsumer"}
        found: list[Object] = [
            {"metadata": {"name": "wait"}, "provisioner": "csi.example.com", **wait},
            {"metadata": {"name": "wait-local"}, "provisioner": "kubernetes.io/no-provisioner", **wait},
            {
                "metadata": {"name": "wait-narrow"},
                "provisioner": "other.example.com",
                "allowedTopologies": [
                    {
                        "matchLabelExpressions": [
                            {"key": key, "values": self._random.sample(self._zones, 2)}
                            for key in self._random.sample((ZONE, BETA), self._random.randint(0, 2))
                        ]
                    }
                    for _ in range(self._random.randint(0, 2))
                ],
                **wait,
            },
            {"metadata": {"name": "wait-cloud"}, "provisioner": self._random.choice(PLUGINS), **wait},
            {"metadata": {"name": "now"}, "provisioner": "csi.example.com", "volumeBindingMode": "Immediate"},
            {"metadata": {"name": "odd"}, "provisioner": "csi.example.com"},
        ]
        return [one for one in found if self.maybe(0.95)]

    def _class(self) -> str:
        weights = (5, 5, 5, 3, 0.3, 0.3)
        return self._random.choices(CLASSES, weights)[0]

    # -- volumes

    def _affinity(self) -> Object:
        if self.maybe(0.3):
            return {}

        def expression() -> Object:
            key = self._random.choice((ZONE, ZONE, BETA, HOST, REGION))
            values = self.names if key == HOST else self._zones
            operator = self._random.choices(("In", "NotIn", "Exists"), (6, 1, 1))[0]
            some = self._random.sample(values, self._random.randint(1, len(values)))
            return {"key": key, "operator": operator, **({} if operator == "Exists" else {"values": some})}

        terms = []
        for _ in range(self._random.choice((1, 1, 1, 2))):
            term: Object = {}
            if self.maybe(0.9):
                term["matchExpressions"] = [expression() for _ in range(self._random.choice((1, 1, 2)))]
            if self.maybe(0.1):
                operator = self._random.choice(("In", "NotIn"))
                field = {"key": "metadata.name", "operator": operator}
                term["matchFields"] = [{**field, "values": [self._random.choice(self.names)]}]
            terms.append(term)
        return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}

    def _source(self) -> Object:
        self._handles += 1
        name = f"disk-{self._random.randint(1, 3) if self.maybe(0.15) else self._handles + 3}"
        return self._random.choices(
            (
                {"csi": {"driver": self._random.choice(DRIVERS), "volumeHandle": name}},
                {"nfs": {"server": "s", "path": f"/{name}"}},
                self._disk(name),
            ),
            (8, 1, 4),
        )[0]

    def _disk(self, name: str) -> Object:
        found: list[Object] = [
            {"gcePersistentDisk": {"pdName": name}},
            {"awsElasticBlockStore": {"volumeID": name}},
            {"cinder": {"volumeID": name}},
            {"azureDisk": {"diskName": name, "diskURI": f"uri-{name}", "kind": "Managed"}},
            {"portworxVolume": {"volumeID": name}},
        ]
        return self._random.choice(found)

    def _volume(self, name: str, class_: str, size: int, **spec: Any) -> Object:
        labels = {}
        for key in (ZONE, BETA, REGION):
            if self.maybe(0.15):
                some = self._random.sample(self._zones, self._random.choice((1, 1, 2)))
                labels[key] = self._random.choice(("__", "__", "__ ")).join(some)
        if self.maybe(0.3):
            labels["tier"] = self._random.choice(("a", "b"))
        return {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": {
                "storageClassName": class_,
                "capacity": {"storage": f"{size}Gi"},
                "accessModes": self._random.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
                "volumeMode": "Block" if self.maybe(0.05) else "Filesystem",
                **self._source(),
                **self._affinity(),
                **spec,
            },
            "status": {"phase": "Available"},
        }

    def _free_volume(self, name: str, size: int) -> Object:
        found = self._volume(name, self._random.choice(("wait", "wait-local", "wait-local")), size)
        if self.maybe(0.15):
            claim = self._random.choice(self.claims)["metadata"]
            uid = self._random.choice((claim["uid"], "", "other"))
            taken = {one["spec"]["claimRef"]["name"] for one in self.volumes if "claimRef" in one["spec"]}
            if claim["name"] not in taken:
                ref = {"namespace": "default", "name": claim["name"], **({"uid": uid} if uid else {})}
                found["spec"]["claimRef"] = ref
        if self.maybe(0.05):
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self.maybe(0.1):
            found["status"]["phase"] = self._random.choice(("Released", "Pending"))
        if self.maybe(0.05):
            found["spec"]["volumeAttributesClassName"] = "fast"
        return found

    # -- claims

    def _claim(self, name: str) -> None:
        mode = self._random.choices(("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"), (8, 1, 1))[0]
        requests = {} if self.maybe(0.05) else {"storage": f"{self._random.randint(1, 50)}Gi"}
        metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}}
        spec: Object = {"accessModes": [mode], "resources": {"requests": requests}}
        if self.maybe(0.97):
            spec["storageClassName"] = self._class()
        if self.maybe(0.1):
            metadata["annotations"]["volume.beta.kubernetes.io/storage-class"] = self._class()
        if self.maybe(0.05):
            spec["volumeMode"] = "Block"
        if self.maybe(0.15):
            spec["selector"] = {"matchLabels": {"tier": "a"}}
        if self.maybe(0.03):
            spec["volumeAttributesClassName"] = "fast"
        status = {"phase": "Pending"}
        if self.maybe(0.5):
            volume = f"bound-{name}"
            spec["volumeName"] = volume
            status["phase"] = "Bound"
            if self.maybe(0.95):
                metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            if self.maybe(0.95):
                ref = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
                self.volumes.append(self._volume(volume, spec.get("storageClassName", ""), 50, claimRef=ref))
        elif self.maybe(0.1):
            node = self._random.choice([*self.names, "gone"])
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = node
        if self.maybe(0.01):
            status["phase"] = "Lost"
        if self.maybe(0.01):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.claims.append({"metadata": metadata, "spec": spec, "status": status})

    def _ephemeral_claims(self) -> None:
        """Claims of the ephemeral volumes, most of them with their owner."""
        for pod in (*self.pods, self.pod):
            for volume in pod["spec"]["volumes"]:
                if "ephemeral" in volume and self.maybe(0.95):
                    name = f"{pod['metadata']['name']}-{volume['name']}"
                    self._claim(name)
                    uid = pod["metadata"]["uid"] if self.maybe(0.95) or pod is not self.pod else "other"
                    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
                    self.claims[-1]["metadata"]["ownerReferences"] = [
                        {**owner, "uid": uid, "controller": True}
                    ]

    # -- pods

    def _pod(self, name: str, node: str) -> Object:
        count = self._random.choice((0, 1, 1, 2) if node else (1, 1, 2, 3))
        volumes = [{"name": f"v{number}", **self._pod_source()} for number in range(count)]
        spec: Object = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
        if node:
            spec["nodeName"] = node
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}

    def _pod_source(self) -> Object:
        kind = self._random.choices(("claim", "ephemeral", "disk", "other"), (10, 2, 3, 0.5))[0]
        if kind == "claim":
            missing = self.maybe(0.02)
            name = "missing" if missing else self._random.choice(self.claims)["metadata"]["name"]
            return {"persistentVolumeClaim": {"claimName": name}}
        if kind == "ephemeral":
            return {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}
        if kind == "other":
            return {"emptyDir": {}}
        name, read_only = f"disk-{self._random.randint(1, 3)}", {"readOnly": self.maybe(0.5)}
        found: list[Object] = [
            {"gcePersistentDisk": {"pdName": name, **read_only}},
            {"awsElasticBlockStore": {"volumeID": name, **read_only}},
            {"iscsi": {"targetPortal": "p", "lun": 0, "iqn": name, **read_only}},
            {
                "rbd": {
                    "monitors": self._random.sample(["m1", "m2", "m3"], self._random.randint(1, 2)),
                    "image": name,
                    "pool": self._random.choice(("rbd", "other")),
                    **read_only,
                }
            },
            self._disk(name),
        ]
        return self._random.choice(found)

    # -- the rest

    def _drivers(self) -> list[Object]:
        return [
            {"metadata": {"name": driver}, "spec": {"storageCapacity": self.maybe(0.7)}}
            for driver in DRIVERS
            if self.maybe(0.6)
        ]

    def _capacities(self) -> list[Object]:
        found = []
        for number in range(self._random.randint(0, 6)):
            one: Object = {
                "metadata": {"name": f"capacity-{number}", "namespace": "default"},
                "storageClassName": self._random.choice(CLASSES[:3]),
            }
            if self.maybe(0.9):
                topologies: list[Object] = [
                    {"matchLabels": {HOST: self._random.choice(self.names)}},
                    {"matchLabels": {ZONE: self._random.choice(self._zones)}},
                    {"matchExpressions": [{"key": BETA, "operator": "Exists"}]},
                    {},
                ]
                one["nodeTopology"] = self._random.choice(topologies)
            if self.maybe(0.9):
                one["capacity"] = f"{self._random.randint(1, 80)}Gi"
            if self.maybe(0.3):
                one["maximumVolumeSize"] = f"{self._random.randint(1, 80)}Gi"
            found.append(one)
        return found

    def _attachments(self) -> list[Object]:
        names = [one["metadata"]["name"] for one in self.volumes] or ["none"]
        return [
            {
                "metadata": {"name": f"attachment-{number}"},
                "spec": {
                    "attacher": self._random.choice(DRIVERS),
                    "nodeName": self._random.choice(self.names),
                    "source": {"persistentVolumeName": self._random.choice(names)},
                },
                "status": {"attached": True},
            }
            for number in range(self._random.randint(0, 4))
        ]


def volume_case(seed: int) -> Object:
    """The case of a seed."""
    return Drawn(Random(seed)).case(f"volumes-{seed}")
