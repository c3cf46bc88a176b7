"""The filters of volumes, node by node and volume by volume, over objects as they are written."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.api.objects.quantity import Quantity

Object = Mapping[str, Any]

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA = {_BETA_ZONE: _ZONE, "failure-domain.beta.kubernetes.io/region": _REGION}
_TOPOLOGY = (*_BETA, _ZONE, _REGION)
_DISKS = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", ""),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", ""),
}
_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"


class Twin:
    """One case."""

    def __init__(self, case: Object) -> None:
        self.case = case
        self.claims = {one["metadata"]["name"]: one for one in case["pvcs"]}
        self.volumes = {one["metadata"]["name"]: one for one in case["pvs"]}
        self.classes = {one["metadata"]["name"]: one for one in case["classes"]}
        self.csi_nodes = {one["metadata"]["name"]: one for one in case["csinodes"]}
        self.pod = case["pod"]

    def refused(self) -> dict[str, list[str]]:
        """Node -> the filters that refuse it."""
        filters = {
            "NodeVolumeLimits": self.limited,
            "VolumeBinding": self.unbound,
            "VolumeRestrictions": self.restricted,
            "VolumeZone": self.misplaced,
        }
        return {
            node["metadata"]["name"]: [name for name, refuses in filters.items() if refuses(node)]
            for node in self.case["nodes"]
        }

    def claims_of(self, pod: Object, *, ephemeral: bool = True) -> Iterator[Object | None]:
        """The claims of a pod; None for one that does not exist or is not the pod's."""
        for volume in pod["spec"]["volumes"]:
            if "persistentVolumeClaim" in volume:
                yield self.claims.get(volume["persistentVolumeClaim"]["claimName"])
            elif "ephemeral" in volume and ephemeral:
                found = self.claims.get(f"{pod['metadata']['name']}-{volume['name']}")
                owners = found["metadata"].get("ownerReferences", []) if found else []
                own = any(one["uid"] == pod["metadata"]["uid"] for one in owners)
                yield found if own else None

    # -- VolumeRestrictions

    def restricted(self, node: Object) -> bool:
        for claim in self.claims_of(self.pod, ephemeral=False):
            if claim is None:
                return True
            if "ReadWriteOncePod" in claim["spec"]["accessModes"]:
                for pod in self.case["pods"]:
                    if any(one is claim for one in self.claims_of(pod, ephemeral=False)):
                        return True
        return any(
            _conflict(own, other)
            for own in self.pod["spec"]["volumes"]
            for pod in self.on(node)
            for other in pod["spec"]["volumes"]
        )

    def on(self, node: Object) -> list[Object]:
        return [pod for pod in self.case["pods"] if pod["spec"]["nodeName"] == node["metadata"]["name"]]

    # -- NodeVolumeLimits

    def limited(self, node: Object) -> bool:
        if None in list(self.claims_of(self.pod)):
            return True
        csi_node = self.csi_nodes.get(node["metadata"]["name"])
        if csi_node is None:
            return False
        new = set(self.attaching(self.pod))
        there = {volume for pod in self.on(node) for volume in self.attaching(pod)}
        attached = set(there)
        for one in self.case["attachments"]:
            volume = self.volumes.get(one["spec"]["source"]["persistentVolumeName"])
            if one["spec"]["nodeName"] == node["metadata"]["name"] and volume and "csi" in volume["spec"]:
                attached.add((one["spec"]["attacher"], volume["spec"]["csi"]["volumeHandle"]))
        counts = Counter(driver for driver, _ in attached)
        for driver, number in Counter(driver for driver, _ in new - there).items():
            for one in csi_node["spec"]["drivers"]:
                limit = (one.get("allocatable") or {}).get("count")
                if one["name"] == driver and limit is not None and counts[driver] + number > limit:
                    return True
        return False

    def attaching(self, pod: Object) -> Iterator[tuple[str, str]]:
        """Driver and handle of each volume that counts."""
        for volume in pod["spec"]["volumes"]:
            if "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
                yield from _disk(volume, {})
        for claim in self.claims_of(pod):
            if claim is None:
                continue
            found = self.volumes.get(claim["spec"].get("volumeName", ""))
            if found is not None and "csi" in found["spec"]:
                yield found["spec"]["csi"]["driver"], found["spec"]["csi"]["volumeHandle"]
            elif found is not None:
                yield from _disk(found["spec"], found["metadata"]["labels"])
            elif (class_ := self.classes.get(_class_of(claim))) is not None:
                drivers = {plugin: driver for plugin, driver, _ in _DISKS.values()}
                yield drivers.get(class_["provisioner"], class_["provisioner"]), claim["metadata"]["name"]

    # -- VolumeBinding

    def unbound(self, node: Object) -> bool:
        claims = list(self.claims_of(self.pod))
        for claim in claims:
            if claim is None or claim["status"]["phase"] == "Lost":
                return True
            if "deletionTimestamp" in claim["metadata"]:
                return True
        new = []
        for claim in claims:
            assert claim is not None
            named = claim["spec"].get("volumeName")
            if named and "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]:
                if named not in self.volumes or not self.reaches(self.volumes[named], node):
                    return True
                continue
            class_ = self.classes.get(_class_of(claim), {})
            if named or class_.get("volumeBindingMode") != "WaitForFirstConsumer":
                return True
            new.append(claim)
        return not self.served(sorted(new, key=_size), node)

    def reaches(self, volume: Object, node: Object) -> bool:
        """Whether a bound volume can be used on a node."""
        spec = volume["spec"]
        csi_node = self.csi_nodes.get(node["metadata"]["name"], {"metadata": {}})
        migrated = csi_node["metadata"].get("annotations", {}).get(_ANNOTATION, "").split(",")
        for key, (plugin, _, topology) in _DISKS.items():
            if key in spec and plugin in migrated:
                if not list(_disk(spec, volume["metadata"]["labels"])):
                    return False
                return _selects(_translated(volume, topology), node)
        return _selects(_terms(volume), node)

    def served(self, claims: list[Object], node: Object) -> bool:
        """Whether every claim gets a volume on a node."""
        chosen: list[str] = []
        for claim in claims:
            selected = claim["metadata"]["annotations"].get("volume.kubernetes.io/selected-node")
            if selected is None:
                found = self.match(claim, node, chosen)
                if found is not None:
                    chosen.append(found)
                    continue
            elif selected != node["metadata"]["name"]:
                return False
            if not self.provisioned(claim, node):
                return False
        return True

    def match(self, claim: Object, node: Object, chosen: list[str]) -> str | None:
        fitting = []
        for name, volume in self.volumes.items():
            spec, asked = volume["spec"], claim["spec"]
            same = all(
                spec.get(key) == asked.get(key, default)
                for key, default in (("volumeMode", "Filesystem"), ("volumeAttributesClassName", None))
            )
            if name in chosen or spec["storageClassName"] != _class_of(claim) or not same:
                continue
            if _capacity(volume) < _size(claim) or "deletionTimestamp" in volume["metadata"]:
                continue
            here = _selects(_terms(volume), node)
            if (ref := spec.get("claimRef")) is not None:
                if ref["name"] == claim["metadata"]["name"] and ref.get("uid", "") in (
                    "",
                    claim["metadata"]["uid"],
                ):
                    return name if here else None
                continue
            labels = asked.get("selector", {}).get("matchLabels", {})
            if not labels.items() <= volume["metadata"]["labels"].items():
                continue
            accessible = set(asked["accessModes"]) <= set(spec["accessModes"])
            if volume["status"]["phase"] == "Available" and here and accessible:
                fitting.append((_capacity(volume), name))
        return min(fitting)[1] if fitting else None

    def provisioned(self, claim: Object, node: Object) -> bool:
        class_ = self.classes[_class_of(claim)]
        labels = node["metadata"]["labels"]
        if class_["provisioner"] == "kubernetes.io/no-provisioner":
            return False
        if terms := class_.get("allowedTopologies"):
            inside = [
                term["matchLabelExpressions"]
                and all(labels.get(one["key"]) in one["values"] for one in term["matchLabelExpressions"])
                for term in terms
            ]
            if not any(inside):
                return False
        drivers = {one["metadata"]["name"]: one["spec"]["storageCapacity"] for one in self.case["csidrivers"]}
        if not drivers.get(class_["provisioner"]) or not claim["spec"]["resources"]["requests"]:
            return True
        for one in self.case["capacities"]:
            limit = one.get("maximumVolumeSize", one.get("capacity"))
            topology = one.get("nodeTopology")
            if one["storageClassName"] != _class_of(claim) or limit is None or topology is None:
                continue
            there = topology.get("matchLabels", {}).items() <= labels.items() and all(
                expression["key"] in labels for expression in topology.get("matchExpressions", [])
            )
            if there and Quantity.parse(limit) >= _size(claim):
                return True
        return False

    # -- VolumeZone

    def misplaced(self, node: Object) -> bool:
        labels = node["metadata"]["labels"]
        for claim in self.claims_of(self.pod, ephemeral=False):
            if claim is None:
                return True
            named = claim["spec"].get("volumeName")
            if not named:
                class_ = self.classes.get(_class_of(claim), {})
                if class_.get("volumeBindingMode") != "WaitForFirstConsumer":
                    return True
                continue
            if named not in self.volumes:
                return True
            if any(key in labels for key in _TOPOLOGY):
                for key in _TOPOLOGY:
                    text = self.volumes[named]["metadata"]["labels"].get(key)
                    value = labels.get(key, labels.get(_BETA.get(key, key)))
                    if text is not None and value not in [one.strip() for one in text.split("__")]:
                        return True
        return False


def _class_of(claim: Object) -> str:
    old = claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class")
    found: str = old or claim["spec"].get("storageClassName", "")
    return found


def _size(claim: Object) -> Quantity:
    return Quantity.parse(claim["spec"]["resources"]["requests"].get("storage", "0"))


def _capacity(volume: Object) -> Quantity:
    return Quantity.parse(volume["spec"]["capacity"]["storage"])


def _disk(source: Object, labels: Object) -> Iterator[tuple[str, str]]:
    for key, (_, driver, _) in _DISKS.items():
        if key in source:
            disk = source[key]
            handle = disk.get("volumeID") or disk.get("diskURI") or ""
            if key == "gcePersistentDisk":
                zones = (labels.get(_BETA_ZONE) or labels.get(_ZONE) or "").split("__")
                if len(zones) > 1:  # no zone of these cases is of a region
                    return
                handle = f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{disk['pdName']}"
            yield driver, handle


def _conflict(own: Object, other: Object) -> bool:
    for key, name in (
        ("gcePersistentDisk", "pdName"),
        ("awsElasticBlockStore", "volumeID"),
        ("iscsi", "iqn"),
    ):
        if key in own and key in other and own[key][name] == other[key][name]:
            read = own[key].get("readOnly") and other[key].get("readOnly")
            return key == "awsElasticBlockStore" or not read
    if "rbd" in own and "rbd" in other:
        one, two = own["rbd"], other["rbd"]
        same = (one["pool"], one["image"]) == (two["pool"], two["image"])
        shared = set(one["monitors"]) & set(two["monitors"])
        return same and bool(shared) and not (one["readOnly"] and two["readOnly"])
    return False


def _terms(volume: Object) -> list[Object] | None:
    affinity = volume["spec"].get("nodeAffinity")
    return None if affinity is None else affinity["required"]["nodeSelectorTerms"]


def _selects(terms: list[Object] | None, node: Object) -> bool:
    if terms is None:
        return True
    labels = node["metadata"]["labels"]
    for term in terms:
        expressions = term.get("matchExpressions", [])
        if not expressions and not term.get("matchFields"):
            continue
        held = []
        for one in expressions:
            value = labels.get(one["key"])
            inside = value is not None and value in one.get("values", [])
            held.append({"In": inside, "NotIn": not inside, "Exists": value is not None}[one["operator"]])
        if all(held):
            return True
    return False


def _translated(volume: Object, topology: str) -> list[Object] | None:
    terms, labels = _terms(volume), volume["metadata"]["labels"]
    if not topology:
        return terms
    keys = [one["key"] for term in terms or () for one in term.get("matchExpressions", [])]
    zone = next(
        (
            key
            for key, inside in ((_ZONE, keys), (_BETA_ZONE, keys), (_ZONE, labels), (_BETA_ZONE, labels))
            if key in inside
        ),
        _ZONE,
    )
    values = [
        value
        for term in terms or ()
        for one in term.get("matchExpressions", [])
        if one["key"] == zone
        for value in one.get("values", [])
    ]
    renamed = {zone: topology} if values else {}
    if zone == _BETA_ZONE:
        renamed["failure-domain.beta.kubernetes.io/region"] = _REGION
    found: list[Object] = [
        {
            **term,
            "matchExpressions": [
                {**one, "key": renamed.get(one["key"], one["key"])}
                for one in term.get("matchExpressions", [])
            ],
        }
        for term in terms or ()
    ]
    if not values and zone in labels:
        zones = [one.strip() for one in labels[zone].split("__")]
        added = {"key": topology, "operator": "In", "values": zones}
        return [{**term, "matchExpressions": [*term["matchExpressions"], added]} for term in found] or [
            {"matchExpressions": [added]}
        ]
    return found if terms is not None else None
