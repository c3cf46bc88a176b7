"""Namespaces, nodes, Services, ConfigMaps, Events, Leases, storage objects and PodDisruptionBudgets."""

from datetime import datetime

from reconciler.api.validation import fields
from reconciler.api.validation.devices import check_node_selector
from reconciler.api.validation.kinds import Object, Review

MAX_CONFIG_BYTES = 1024 * 1024
MAX_NOTE = 1024


def default_event(obj: Object, _now: datetime) -> None:
    """Set fields that both shapes of an event always have, empty by default."""
    obj.setdefault("involvedObject", {})
    obj.setdefault("source", {})
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")
    for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(key, None)


def check_event(root: fields.Field, review: Review) -> None:
    """Check an event: strict for events.k8s.io, lenient for the core version, as upstream."""
    involved = root["involvedObject"]
    for key in ("kind", "namespace", "name", "uid"):
        involved[key].text()
    for key in ("reason", "message", "type", "action", "reportingComponent", "reportingInstance"):
        root[key].text()
    for moment in (root["eventTime"], root["series"]["lastObservedTime"]):
        fields.time_in_micros(moment)
    for key in ("firstTimestamp", "lastTimestamp"):
        fields.time(root[key])
    if (involved["namespace"].text() or "default") != review.new["metadata"].get("namespace"):
        involved["namespace"].invalid("does not match event.namespace")
    if review.served.group == "events.k8s.io" and review.old is None:
        for key in ("eventTime", "reportingComponent", "reportingInstance", "action", "reason"):
            if not root[key].value:
                root[key.replace("Component", "Controller")].required()
        root["type"].one_of(("Normal", "Warning"))
        if fields.size_of(root["message"].text()) > MAX_NOTE:
            fields.Field(None, "note", root.causes).too_long(MAX_NOTE)


def check_config_map(root: fields.Field, review: Review) -> None:
    """Check text values, total size, and `immutable`."""
    size = 0
    for key in ("data", "binaryData"):
        size += sum(len(name) + len(value.text()) for name, value in root[key].entries())
    if size > MAX_CONFIG_BYTES:
        root["data"].too_long(MAX_CONFIG_BYTES)
    if review.old is not None and review.old.get("immutable"):
        for key in ("data", "binaryData", "immutable"):
            if root[key].value != review.old.get(key):
                root[key].forbidden("field is immutable when `immutable` is set")


def check_lease(root: fields.Field, _review: Review) -> None:
    """Check that durations are positive and transitions are not negative."""
    spec = root["spec"]
    spec["holderIdentity"].text()
    if spec["leaseDurationSeconds"].present and spec["leaseDurationSeconds"].integer() <= 0:
        spec["leaseDurationSeconds"].invalid("must be greater than 0")
    spec["leaseTransitions"].not_negative()
    for key in ("acquireTime", "renewTime"):
        fields.time_in_micros(spec[key])


def check_eviction_request(root: fields.Field, review: Review) -> None:
    """EVR-4: the pod by name and uid, who asks, and whether they still do."""
    spec = root["spec"]
    pod, requester = spec["target"]["pod"], spec["requester"]
    for part in (pod["name"], pod["uid"], requester):
        part.needed()
    if requester.text() and not ("/" in requester.text() and fields.is_label_name(requester.text())):
        requester.invalid("must be a domain-prefixed key, such as acme.io/foo")
    spec["intent"].one_of(("Eviction", "Withdrawn"))
    before = fields.Field(review.old)["spec"] if review.old is not None else spec
    for key in ("target", "requester"):
        if before[key].value != spec[key].value:
            spec[key].invalid("field is immutable")


def default_namespace(obj: Object, _now: datetime) -> None:
    """Set the label, finalizer and phase of every namespace."""
    metadata = obj["metadata"]
    if "name" in metadata:  # a namespace without a name is refused later
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    obj.setdefault("spec", {"finalizers": ["kubernetes"]})
    obj.setdefault("status", {"phase": "Active"})


def check_node(root: fields.Field, _review: Review) -> None:
    """Check the fields of a node that are used here."""
    root["spec"]["unschedulable"].flag()
    for condition in root["status"]["conditions"].items():
        condition["type"].text()
    seen: set[tuple[str, str]] = set()
    for taint in root["spec"]["taints"].items():
        fields.label_name(taint["key"])
        fields.label_value(taint["value"])
        if taint["effect"].needed():
            taint["effect"].one_of(_NODE_EFFECTS)
        taint.unique(seen, (taint["key"].text(), taint["effect"].text()))


_NODE_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def default_service(obj: Object, _now: datetime) -> None:
    """Set the type of a Service and the protocol of its ports."""
    spec = fields.Field(obj)["spec"]
    if spec.present:
        spec.object().setdefault("type", "ClusterIP")
    for port in spec["ports"].items():
        port.object().setdefault("protocol", "TCP")


def check_service(root: fields.Field, _review: Review) -> None:
    """Check the fields of a Service that are shown here. Addresses are not checked."""
    spec = root["spec"]
    spec["type"].one_of(("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"))
    for port in spec["ports"].items():
        if not 0 < port["port"].integer() < 65536:
            port["port"].invalid("must be between 1 and 65535, inclusive")
        port["protocol"].one_of(("TCP", "UDP", "SCTP"))
    if spec["type"].text() != "ExternalName" and not spec["ports"].items() and not _is_headless(spec):
        spec["ports"].required()


def _is_headless(spec: fields.Field) -> bool:
    return spec["clusterIP"].text() == "None"


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


def check_volume(root: fields.Field, _review: Review) -> None:
    """Check capacity, access modes and node affinity."""
    spec = root["spec"]
    if not spec["capacity"].entries():
        spec["capacity"].required()
    _access_modes(spec["accessModes"])
    required = spec["nodeAffinity"]["required"]
    if required.present:
        check_node_selector(required)


def check_claim(root: fields.Field, review: Review) -> None:
    """Check access modes and size. The spec of a claim hardly changes."""
    spec = root["spec"]
    _access_modes(spec["accessModes"])
    if not spec["resources"]["requests"]["storage"].present:
        spec["resources"]["requests"]["storage"].required()
    before = (review.old or {}).get("spec") or {}
    if before.get("volumeName") and spec["volumeName"].value != before["volumeName"]:
        spec["volumeName"].forbidden("spec is immutable after creation except resources.requests")


def check_class(root: fields.Field, review: Review) -> None:
    """Check the provisioner and when claims are bound; neither changes."""
    root["provisioner"].needed()
    root["volumeBindingMode"].one_of(_MODES)
    for key in ("provisioner", "volumeBindingMode", "parameters", "reclaimPolicy"):
        if review.old is not None and root[key].value != review.old.get(key):
            root[key].forbidden("updates to this field are forbidden")


def check_csi_node(root: fields.Field, _review: Review) -> None:
    """Check the names of drivers and their limits."""
    for driver in root["spec"]["drivers"].items():
        for key in ("name", "nodeID"):
            driver[key].needed()
        driver["allocatable"]["count"].not_negative()


def check_capacity(root: fields.Field, review: Review) -> None:
    """Check the class; it does not change."""
    root["storageClassName"].needed()
    if review.old is not None and root["storageClassName"].value != review.old.get("storageClassName"):
        root["storageClassName"].invalid("field is immutable")


def check_attachment(root: fields.Field, review: Review) -> None:
    """Check driver, node and volume; they do not change."""
    spec = root["spec"]
    for key in ("attacher", "nodeName"):
        spec[key].needed()
    if review.old is not None and review.new.get("spec") != review.old.get("spec"):
        spec.invalid("field is immutable")


def _access_modes(modes: fields.Field) -> None:
    found = modes.items()
    if not found:
        modes.required("at least 1 access mode is required")
    for mode in found:
        mode.one_of(_ACCESS)


def _defaults(obj: Object, part: str, **values: object) -> None:
    obj[part] = {**values, **(obj.get(part) or {})}


_POLICIES = ("IfHealthyBudget", "AlwaysAllow")


def check_budget(root: fields.Field, _review: Review) -> None:
    """Check that a budget has one kind of limit, and that its counts are not negative."""
    spec, status = root["spec"], root["status"]
    limits = [spec[key] for key in ("minAvailable", "maxUnavailable") if spec[key].present]
    if len(limits) > 1:
        spec.invalid("minAvailable and maxUnavailable cannot be both set")
    for limit in limits:
        if isinstance(limit.value, str):
            number = limit.value.removesuffix("%")
            if number == limit.value or not (number.isdecimal() and int(number) <= 100):
                limit.invalid("must be an integer or a percentage from 0% to 100%")
        elif limit.integer() < 0:
            limit.invalid("must be greater than or equal to 0")
    if spec["unhealthyPodEvictionPolicy"].present:
        spec["unhealthyPodEvictionPolicy"].one_of(_POLICIES)
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status[key].not_negative()
