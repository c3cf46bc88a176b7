"""What the cases of the doctor are made of: small manifests, and their parts."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reconciler.api.objects.semantics import ALL_GATES
from tests.tools import builders

Object = dict[str, Any]

GATES = "dra-reconciler.io/device-extensions"


@dataclass(frozen=True)
class Case:
    """Some manifests for a check. `at` says in which field, or fields, it finds what."""

    check: str
    name: str
    given: str | Object | Iterable[Object]
    """One object, several, or text"""
    gates: frozenset[str] = ALL_GATES
    fields: tuple[str, ...] = ()
    says: str = ""

    def at(self, field: str | tuple[str, ...], says: str = "") -> "Case":
        fields = (field,) if isinstance(field, str) else field
        return Case(self.check, self.name, self.given, self.gates, fields, says)

    @property
    def text(self) -> str:
        if isinstance(self.given, str):
            return self.given
        return yaml_of(self.given) if isinstance(self.given, dict) else yaml_of(*self.given)


def yaml_of(*objects: Object) -> str:
    """JSON is YAML."""
    return "".join(f"---\n{json.dumps(one)}\n" for one in objects)


def part(
    name: str, *devices: Object, pool: str = "p", generation: int = 1, count: int = 1, **spec: Any
) -> Object:
    """A slice, for all nodes unless it says otherwise."""
    given = {"allNodes": True} if not {"nodeName", "perDeviceNodeSelection", "nowhere"} & spec.keys() else {}
    spec.pop("nowhere", None)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **given,
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def device(name: str, /, **fields: Any) -> Object:
    attributes = {key: {"string": value} for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, **({"attributes": attributes} if attributes else {}), **fields}


def draw(counter_set: str, /, *groups: str, **counters: str) -> Object:
    amounts = {name: {"value": value} for name, value in counters.items()}
    return {
        "counterSet": counter_set,
        "counters": amounts,
        **({"compatibilityGroups": list(groups)} if groups else {}),
    }


def drawing(name: str, *draws: Object, **fields: Any) -> Object:
    return device(name, consumesCounters=list(draws), **fields)


def counters(
    name: str = "c", /, *, count: int = 2, generation: int = 1, sets: Object | None = None
) -> Object:
    shared = [
        {"name": one, "counters": {key: {"value": value} for key, value in amounts.items()}}
        for one, amounts in (sets or {"set": {"memory": "10"}}).items()
    ]
    return part(name, count=count, generation=generation, sharedCounters=shared)


def drawn(*draws: Object) -> tuple[Object, Object]:
    """A counter set of 10 of memory, and devices a, b, ... that each draw from it."""
    return counters(), part("s", *map(drawing, "abcdef", draws), count=2)


def by_device(*devices: Object) -> Object:
    """A slice whose devices say for which nodes they are."""
    return part("s", *devices, perDeviceNodeSelection=True)


def stating(name: str, expression: str, **attributes: str) -> Object:
    return device(name, attributes=attributes, compatibleOnlyWith={"expression": expression})


def kind_is(kind: str) -> str:
    return f'device.attributes["gpu.example.com"].kind == "{kind}"'


def device_class(*expressions: str, name: str = "gpu") -> Object:
    return builders.device_class(name, *expressions)


def claim(
    name: str, *expressions: str, held: tuple[str, ...] = (), wants: str = "gpu", **result: Any
) -> Object:
    exactly = {
        "deviceClassName": wants,
        **({"selectors": builders.selectors(*expressions)} if expressions else {}),
    }
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": one, **result} for one in held
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        **({"status": {"allocation": {"devices": {"results": results}}}} if held else {}),
    }


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def selecting(operator: str, *values: str) -> Object:
    """A device for the nodes with some label."""
    requirement = {"key": "gpu", "operator": operator, "values": list(values)}
    return device("a", nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})


def composed(*devices: Object, mixins: Any = ()) -> str:
    """A slice in the shape of KEP-4815's first revision."""
    made = part("s", *devices, deviceMixins=list(mixins))
    return yaml_of({**made, "apiVersion": "resource.k8s.io/v1alpha3"})


def numbered(count: int) -> Object:
    return {f"a{number}": {"int": number} for number in range(count)}


def amounts(count: int) -> Object:
    return {f"c{number}": {"quantity": "1"} for number in range(count)}


def either(**fields: Any) -> Object:
    """A device for the nodes with one label or another."""
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "xy"]
    return device("a", nodeSelector={"nodeSelectorTerms": terms}, **fields)


def extended(extension: str, *devices: Object) -> Object:
    made = part("s", *devices)
    made["metadata"]["annotations"] = {GATES: extension}
    return made


def named(made: Object, namespace: str) -> Object:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def job(entry: Object) -> Object:
    spec = {"template": {"spec": {"containers": [], "resourceClaims": [entry]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def using(*entries: Any, container: Any = "containers", **claims: Any) -> Object:
    """A pod with these entries of resourceClaims, and a container that uses claims."""
    spec: Object = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": list(entries)}
    if claims:
        spec[container] = [{"name": "d", "image": "i", "resources": {"claims": [claims]}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def from_claim(name: str, claim: str) -> Object:
    """An entry of a pod."""
    return {"name": name, "resourceClaimName": claim}


def koordinator(partitions: str, *, spec: Object | None = None) -> Object:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n", "annotations": {"scheduling.koordinator.sh/gpu-partitions": partitions}},
        "spec": {"devices": []} if spec is None else spec,
    }


def machine(*devices: Object, **metadata: Any) -> Object:
    """A Device object of Koordinator."""
    made = koordinator("{}", spec={"devices": list(devices)})
    made["metadata"] = {"name": "n", **metadata}
    return made


def gpu(minor: int, **fields: Any) -> Object:
    return {"type": "gpu", "minor": minor, "health": True, **fields}


def administrative(namespace: str) -> Object:
    made = named(claim("c"), namespace)
    made["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return made


A, B = device("a"), device("b")

GPU = device_class('device.driver == "gpu.example.com"')

ONE = part("s", A)

OLD = {**ONE, "apiVersion": "resource.k8s.io/v1beta2"}

BARE = part("s", {"name": "a", "attributes": {"kind": "x"}})

ALL, OVER_HALF, HALF = (draw("set", memory=amount) for amount in ("10", "6", "5"))

FITS = drawing("a", ALL)

SHARED = device("a", allowMultipleAllocations=True)

MIG = stating("a", kind_is("mig"), kind="foo")

D, E = "spec.devices[0]", "spec.devices[1]"

SELF = f"{D}.compatibleOnlyWith.expression"

IN_CLASS = "spec.selectors[0].cel.expression"

IN_CLAIM = "spec.devices.requests[0].exactly"

DRAW = f"{D}.consumesCounters[0]"

GROUPS = f"{DRAW}.compatibilityGroups"

AT_COUNT, RESULT = "spec.pool.resourceSliceCount", "status.allocation.devices.results[0]"


def deriving(expression: str, constraints: list[Object] | None = None) -> Object:
    """A claim with a derived attribute; by default a constraint uses it."""
    made = claim("c")
    devices = made["spec"]["devices"]
    devices["requests"][0]["exactly"]["derivedAttributes"] = [{"name": "v/x", "expression": expression}]
    devices["constraints"] = [{"matchAttribute": "v/x"}] if constraints is None else constraints
    return made


def grouped(*groups: str) -> str:
    """Devices a, b, ... of one counter set, each with a group."""
    return yaml_of(*drawn(*(draw("set", group, memory="1") for group in groups)))


def excluding(*draws: str) -> str:
    """Devices a and b of one counter set, each with a group of its own."""
    return yaml_of(*drawn(*(draw("set", name, memory=one) for name, one in zip("ab", draws, strict=True))))


def two_sets(*modes: str) -> str:
    """Devices a and b of two counter sets, each compatible only with its own mode."""
    parts = [
        {**stating(name, kind_is(mode), kind=mode), "consumesCounters": [draw(f"set-{name}", memory="1")]}
        for name, mode in zip("ab", modes, strict=True)
    ]
    sets = {f"set-{name}": {"memory": "1"} for name in "ab"}
    return yaml_of(counters(sets=sets), part("s", *parts, count=2))


def old_taint_rule(**selector: Any) -> Object:
    """A DeviceTaintRule as 1.33 and 1.34 have it."""
    spec = {"deviceSelector": selector, "taint": {"key": "example.org/bad", "effect": "NoSchedule"}}
    made = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    return {**made, "spec": spec}
