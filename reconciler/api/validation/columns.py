"""The columns that kubectl shows for each kind."""

from datetime import datetime
from typing import Any

from reconciler.api.validation.fields import age
from reconciler.api.validation.kinds import Column, Object


def _at(*path: str, missing: str | int = "") -> Any:
    """A cell that shows the value at `path`."""

    def cell(obj: Object, _now: datetime) -> Any:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return missing if value is None or value == "" else value

    return cell


def _name(obj: Object, _now: datetime) -> str:
    return obj["metadata"]["name"]


def _age(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp", ""), now)


def _claim_state(obj: Object, _now: datetime) -> str:
    status, states = obj.get("status", {}), []
    deleted = "deletionTimestamp" in obj["metadata"]
    if deleted:
        states.append("deleted")
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _pod_ready(obj: Object, _now: datetime) -> str:
    ready = sum(bool(c.get("ready")) for c in obj.get("status", {}).get("containerStatuses", ()))
    return f"{ready}/{len(obj['spec'].get('containers', ()))}"


def _pod_status(obj: Object, _now: datetime) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    if obj["spec"].get("schedulingGates"):
        return "SchedulingGated"
    status = obj.get("status", {})
    return status.get("reason") or (
        "Completed" if status.get("phase") == "Succeeded" else status.get("phase", "")
    )


def _node_status(obj: Object, _now: datetime) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = next((c.get("status") for c in conditions if c and c.get("type") == "Ready"), None)
    state = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{state},SchedulingDisabled" if obj.get("spec", {}).get("unschedulable") else state


def _node_roles(obj: Object, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels", {})
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or "<none>"


def _service_ports(obj: Object, _now: datetime) -> str:
    ports = obj.get("spec", {}).get("ports", ())
    return ",".join(f"{port['port']}/{port['protocol']}" for port in ports) or "<none>"


def _data_size(obj: Object, _now: datetime) -> int:
    return len(obj.get("data", ())) + len(obj.get("binaryData", ()))


def _first_time(obj: Object) -> str:
    return obj.get("firstTimestamp") or obj.get("eventTime") or ""


def _first_seen(obj: Object, now: datetime) -> str:
    return age(_first_time(obj), now)


def _last_seen(obj: Object, now: datetime) -> str:
    series = (obj.get("series") or {}).get("lastObservedTime")
    return age(series or obj.get("lastTimestamp") or _first_time(obj), now)


def _event_count(obj: Object, _now: datetime) -> int:
    return (obj.get("series") or obj).get("count") or 1


def _event_source(obj: Object, _now: datetime) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _involved(obj: Object, _now: datetime) -> str:
    involved = obj.get("involvedObject", {})
    return "/".join(filter(None, (involved.get("kind", "").lower(), involved.get("name", ""))))


def _readiness_gates(obj: Object, _now: datetime) -> str:
    gates = obj["spec"].get("readinessGates", ())
    conditions = {one.get("type"): one for one in obj.get("status", {}).get("conditions", ())}
    met = [conditions.get(gate.get("conditionType"), {}).get("status") == "True" for gate in gates]
    return f"{sum(met)}/{len(met)}" if met else "<none>"


def _address(kind: str) -> Any:
    """A cell that shows the first address of a kind."""

    def cell(obj: Object, _now: datetime) -> str:
        addresses = obj.get("status", {}).get("addresses", ())
        return next((one.get("address", "") for one in addresses if one.get("type") == kind), "<none>")

    return cell


def _selector(obj: Object, _now: datetime) -> str:
    selector = obj.get("spec", {}).get("selector", {})
    return ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or "<none>"


NAME = Column("Name", _name, format="name")
AGE = Column("Age", _age)
NAMED = (NAME, AGE)
CLAIM = (NAME, Column("State", _claim_state), AGE)
SLICE = (
    NAME,
    Column("Node", _at("spec", "nodeName", missing="<unset>")),
    Column("Driver", _at("spec", "driver")),
    Column("Pool", _at("spec", "pool", "name")),
    AGE,
)
NAMESPACE = (NAME, Column("Status", _at("status", "phase")), AGE)
NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
    Column("Internal-IP", _address("InternalIP"), priority=1),
    Column("External-IP", _address("ExternalIP"), priority=1),
    Column("OS-Image", _at("status", "nodeInfo", "osImage", missing="<unknown>"), priority=1),
    Column("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", missing="<unknown>"), priority=1),
    Column(
        "Container-Runtime",
        _at("status", "nodeInfo", "containerRuntimeVersion", missing="<unknown>"),
        priority=1,
    ),
)
POD = (
    NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", lambda _obj, _now: "0"),
    AGE,
    Column("IP", _at("status", "podIP", missing="<none>"), priority=1),
    Column("Node", _at("spec", "nodeName", missing="<none>"), priority=1),
    Column("Nominated Node", _at("status", "nominatedNodeName", missing="<none>"), priority=1),
    Column("Readiness Gates", _readiness_gates, priority=1),
)
SERVICE = (
    NAME,
    Column("Type", _at("spec", "type")),
    Column("Cluster-IP", _at("spec", "clusterIP", missing="<none>")),
    Column("External-IP", _at("spec", "externalName", missing="<none>")),
    Column("Port(s)", _service_ports),
    AGE,
    Column("Selector", _selector, priority=1),
)
CONFIG_MAP = (NAME, Column("Data", _data_size, type="integer"), AGE)
BUDGET = (
    NAME,
    Column("Min Available", _at("spec", "minAvailable", missing="N/A")),
    Column("Max Unavailable", _at("spec", "maxUnavailable", missing="N/A")),
    Column("Allowed Disruptions", _at("status", "disruptionsAllowed", missing=0), type="integer"),
    AGE,
)
LEASE = (NAME, Column("Holder", _at("spec", "holderIdentity")), AGE)
EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _involved),
    Column("Subobject", _at("involvedObject", "fieldPath"), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", _at("message")),
    Column("First Seen", _first_seen, priority=1),
    Column("Count", _event_count, type="integer", priority=1),
    Column("Name", _name, format="name", priority=1),
)
