"""API objects as JSON, from literals. Only names and counts are set without being asked for."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import store_of

Object = dict[str, Any]

DRA = "resource.k8s.io/v1"
DRIVER = "d"
_MODELS: dict[str, type[ApiObject]] = {
    "ResourceSlice": ResourceSlice,
    "DeviceClass": DeviceClass,
    "ResourceClaim": ResourceClaim,
    "DeviceTaintRule": DeviceTaintRule,
    "Node": Node,
}


def typed(raw: Object) -> ApiObject:
    """The model of an object in JSON."""
    return _MODELS[raw["kind"]].model_validate(raw)


def store(*objects: Object, rules: Semantics | None = None) -> Store:
    """A picture of these objects, applied in the order given."""
    return store_of(map(typed, objects), rules or Semantics())


def snapshot(*objects: Object, rules: Semantics | None = None) -> Snapshot:
    """What a decision would see of these objects."""
    return store(*objects, rules=rules).snapshot()


# -- supply


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def attribute(value: Any) -> Object:
    """A bool, int, string or list of one of them as the API types it; a mapping is typed already."""
    match value:
        case Mapping():
            return dict(value)
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
    ((kind, _),) = attribute(value[0]).items()
    return {f"{kind}s": list(value)}


def version(text: str) -> Object:
    return {"version": text}


def amount(value: str, **policy: Any) -> Object:
    """A capacity; `default`, `validValues` and `validRange` make its request policy."""
    return {"value": value, "requestPolicy": policy} if policy else {"value": value}


def device(
    name: str,
    attributes: Mapping[str, Any] | None = None,
    capacity: Mapping[str, str | Object] | None = None,
    draws: Mapping[str, Mapping[str, str | int]] | None = None,
    **fields: Any,
) -> Object:
    """A device: {"model": "a"}, {"mem": "10Gi"}, draws {"set": {"counter": 40}}; fields as in the API."""
    made: Object = {"name": name}
    if attributes:
        made["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        made["capacity"] = {key: amount(v) if isinstance(v, str) else v for key, v in capacity.items()}
    if draws:
        made["consumesCounters"] = [
            {"counterSet": name, "counters": _counters(counters)} for name, counters in draws.items()
        ]
    return {**made, **fields}


def devices(*names: str, **fields: Any) -> list[Object]:
    """Devices that differ by their name, and by an attribute `id` that selectors can see."""
    return [device(name, {"id": name}, **fields) for name in names]


def resource_slice(
    name: str,
    content: Iterable[Object] = (),
    *,
    driver: str = DRIVER,
    pool: str = "p",
    generation: int = 1,
    slices: int = 1,
    **fields: Any,
) -> Object:
    """A slice of a pool with so many slices; `fields` say which nodes it is for."""
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
        "devices": list(content),
        **fields,
    }
    return {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def counter_slice(name: str, sets: Mapping[str, Mapping[str, str | int]], **fields: Any) -> Object:
    """A slice that publishes counter sets: {"set": {"counter": 40}}."""
    made = resource_slice(name, **fields)
    del made["spec"]["devices"]
    made["spec"]["sharedCounters"] = [
        {"name": set_, "counters": _counters(counters)} for set_, counters in sets.items()
    ]
    return made


def gpu_slice(on: str, count: int = 8, *, driver: str = DRIVER, **fields: Any) -> Object:
    """The only slice of a node's pool: `gpu-0` and so on."""
    names = [f"gpu-{number}" for number in range(count)]
    return resource_slice(f"{on}-{driver}", devices(*names, **fields), driver=driver, pool=on, nodeName=on)


def _counters(counters: Mapping[str, str | int]) -> Object:
    return {name: {"value": str(value)} for name, value in counters.items()}


def node_selector(*terms: Object) -> Object:
    return {"nodeSelectorTerms": list(terms)}


def labelled(key: str, *values: str) -> Object:
    """A term of a node selector."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "value": value, "effect": effect}


def taint_rule(name: str, selector: Object | None, what: Object) -> Object:
    spec = {"taint": what} if selector is None else {"deviceSelector": selector, "taint": what}
    return {"apiVersion": DRA, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


# -- demand


def selectors(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def only(*names: str) -> list[Object]:
    """Selectors for some of `devices(...)`."""
    return selectors(" || ".join(f'device.attributes["{DRIVER}"].id == "{name}"' for name in names))


def opaque(driver: str = DRIVER, **parameters: Any) -> Object:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def device_class(name: str = "any", *expressions: str, config: Iterable[Object] = ()) -> Object:
    spec: Object = {"selectors": selectors(*expressions)}
    if config:
        spec["config"] = list(config)
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def wants(
    count: int | None = 1, *, device_class: str = "any", capacity: Object | None = None, **fields: Any
) -> Object:
    """What `exactly` and the entries of `firstAvailable` have in common; without a count, all devices."""
    made: Object = {"deviceClassName": device_class}
    made |= {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    if capacity is not None:
        made["capacity"] = {"requests": capacity}
    return {**made, **fields}


def request(name: str = "r", count: int | None = 1, **fields: Any) -> Object:
    return {"name": name, "exactly": wants(count, **fields)}


def first_of(name: str, **alternatives: Object) -> Object:
    """A request with alternatives in order of preference, each made by `wants`."""
    return {"name": name, "firstAvailable": [{"name": sub, **what} for sub, what in alternatives.items()]}


def claim(
    name: str = "c", *requests: Object, constraints: Iterable[Object] = (), config: Iterable[Object] = ()
) -> Object:
    wanted: Object = {"requests": list(requests)}
    if constraints:
        wanted["constraints"] = list(constraints)
    if config:
        wanted["config"] = list(config)
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": wanted}}


def match(name: str, *requests: str) -> Object:
    return {"matchAttribute": name, "requests": list(requests)}


def distinct(name: str, *requests: str) -> Object:
    return {"distinctAttribute": name, "requests": list(requests)}


def held(name: str, *results: Object) -> Object:
    """A claim of somebody else that holds what `hold` says."""
    made = claim(name)
    made["status"] = {"allocation": {"devices": {"results": list(results)}}}
    return made


def hold(device: str, *, driver: str = DRIVER, pool: str = "p", **fields: Any) -> Object:
    """One device held; `shareID`, `consumedCapacity` and `adminAccess` as the API spells them."""
    return {"request": "r", "driver": driver, "pool": pool, "device": device, **fields}


# -- A node whose GPU is published whole and in parts.


def half(name: str, at: int) -> Object:
    return device(name, {"profile": "half"}, draws={"gpu": {"mem": 4, f"slice-{at}": 1}})


def partitioned(node: str = "n1") -> list[Object]:
    """A GPU as one whole device and two halves, and a half that shares its place with the second."""
    whole = device("whole", {"profile": "whole"}, draws={"gpu": {"mem": 10, "slice-0": 1, "slice-1": 1}})
    parts = [whole, half("left", 0), half("right", 1), half("right-too", 1)]
    here: Object = {"nodeName": node, "pool": node, "slices": 2}
    sets = {"gpu": {"mem": 10, "slice-0": 1, "slice-1": 1}}
    return [counter_slice(f"{node}-c", sets, **here), resource_slice(f"{node}-d", parts, **here)]
