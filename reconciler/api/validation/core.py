"""Events, ConfigMaps, nodes, namespaces, Services and Leases: the rules that clients depend on."""

from datetime import datetime

from reconciler.api.validation.fields import Cause, Field
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


def check_event(review: Review) -> list[Cause]:
    """Check an event: strict for events.k8s.io, lenient for the core version, as upstream."""
    root = Field(review.new)
    involved = root["involvedObject"]
    for key in ("kind", "namespace", "name", "uid"):
        involved[key].text()
    for key in ("reason", "message", "type", "action", "reportingComponent", "reportingInstance"):
        root[key].text()
    if (involved["namespace"].text() or "default") != review.new["metadata"].get("namespace"):
        involved["namespace"].invalid("does not match event.namespace")
    if review.served.group == "events.k8s.io" and review.old is None:
        for key, shown in (
            ("eventTime", "eventTime"),
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
            ("action", "action"),
            ("reason", "reason"),
        ):
            if not root[key].value:
                root[shown].required()
        root["type"].one_of(("Normal", "Warning"))
        if len(root["message"].text().encode()) > MAX_NOTE:
            Field(None, "note", root.causes).too_long(MAX_NOTE)
    return root.causes


def check_config_map(review: Review) -> list[Cause]:
    """Check text values, total size, and `immutable`."""
    root = Field(review.new)
    size = 0
    for key in ("data", "binaryData"):
        size += sum(len(name) + len(value.text()) for name, value in root[key].entries())
    if size > MAX_CONFIG_BYTES:
        root["data"].too_long(MAX_CONFIG_BYTES)
    if review.old is not None and review.old.get("immutable"):
        for key in ("data", "binaryData", "immutable"):
            if root[key].value != review.old.get(key):
                root[key].forbidden("field is immutable when `immutable` is set")
    return root.causes


def check_lease(review: Review) -> list[Cause]:
    """Check that durations are positive and transitions are not negative."""
    root = Field(review.new)
    spec = root["spec"]
    spec["holderIdentity"].text()
    if spec["leaseDurationSeconds"].present and spec["leaseDurationSeconds"].integer() <= 0:
        spec["leaseDurationSeconds"].invalid("must be greater than 0")
    if spec["leaseTransitions"].integer() < 0:
        spec["leaseTransitions"].invalid("must be greater than or equal to 0")
    for key in ("acquireTime", "renewTime"):
        spec[key].text()
    return root.causes


def default_namespace(obj: Object, _now: datetime) -> None:
    """Set the label, finalizer and phase of every namespace."""
    metadata = obj["metadata"]
    if "name" in metadata:  # a namespace without a name is refused later
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    obj.setdefault("spec", {"finalizers": ["kubernetes"]})
    obj.setdefault("status", {"phase": "Active"})


def check_node(review: Review) -> list[Cause]:
    """Check the fields of a node that are used here."""
    root = Field(review.new)
    root["spec"]["unschedulable"].flag()
    for condition in root["status"]["conditions"].items():
        condition["type"].text()
    return root.causes


def default_service(obj: Object, _now: datetime) -> None:
    """Set the type of a Service and the protocol of its ports."""
    spec = Field(obj)["spec"]
    if spec.present:
        spec.object().setdefault("type", "ClusterIP")
    for port in spec["ports"].items():
        port.object().setdefault("protocol", "TCP")


def check_service(review: Review) -> list[Cause]:
    """Check the fields of a Service that are shown here. Addresses are not checked."""
    root = Field(review.new)
    spec = root["spec"]
    spec["type"].one_of(("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"))
    for port in spec["ports"].items():
        if not 0 < port["port"].integer() < 65536:
            port["port"].invalid("must be between 1 and 65535, inclusive")
        port["protocol"].one_of(("TCP", "UDP", "SCTP"))
    if spec["type"].text() != "ExternalName" and not spec["ports"].items() and not _is_headless(spec):
        spec["ports"].required()
    return root.causes


def _is_headless(spec: Field) -> bool:
    return spec["clusterIP"].text() == "None"
