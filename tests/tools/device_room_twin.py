"""What pods and the devices of their claims take of nodes (NAR-1 to NAR-6), on JSON with plain loops."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import Any

from tests.tools import builders
from tests.tools.naive_rules import exact

Object = dict[str, Any]
Amounts = dict[str, Fraction]
RESOURCES = ("cpu", "memory")


def _sum(*parts: Amounts) -> Amounts:
    return {name: sum((part.get(name, Fraction(0)) for part in parts), Fraction(0)) for name in RESOURCES}


def _most(*parts: Amounts) -> Amounts:
    return {name: max(part.get(name, Fraction(0)) for part in parts) for name in RESOURCES}


def _requested(holder: Object) -> Amounts:
    return {name: exact(value) for name, value in holder.get("resources", {}).get("requests", {}).items()}


def device_of(slices: list[Object], result: Mapping[str, Any]) -> Object:
    """The published device of an allocation's result."""
    return next(
        device
        for one in slices
        if (one["spec"]["driver"], one["spec"]["pool"]["name"]) == (result["driver"], result["pool"])
        for device in one["spec"]["devices"]
        if device["name"] == result["device"]
    )


def taken(pod: Object, allocated: Mapping[str, list[Object]], slices: list[Object]) -> Amounts:
    """What a pod takes of its node. `allocated` are the results of its claims by name."""
    fixed: Amounts = {}
    of_container: dict[str, Amounts] = {}
    entries = {one["name"]: one["resourceClaimName"] for one in pod["spec"].get("resourceClaims", ())}
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    for claim in dict.fromkeys(entries.values()):
        for result in allocated.get(claim, ()):
            uses = device_of(slices, result).get("nodeAllocatableResources", {})
            for resource, use in uses.items():
                mapping, overhead = use.get("mapping", {}), use.get("overhead", {})
                amount = exact(mapping.get("deviceMultiplier", "0")) + exact(overhead.get("perPod", "0"))
                if "capacityKey" in mapping:
                    consumed = exact(result.get("consumedCapacity", {}).get(mapping["capacityKey"], "0"))
                    amount += consumed * exact(mapping["capacityMultiplier"])
                fixed = _sum(fixed, {resource: amount})
                for container in containers:
                    for entry in container.get("resources", {}).get("claims", ()):
                        if entries[entry["name"]] == claim:
                            more = {resource: exact(overhead.get("perContainer", "0"))}
                            of_container[container["name"]] = _sum(
                                of_container.get(container["name"], {}), more
                            )

    def asked(container: Object) -> Amounts:
        return _sum(_requested(container), of_container.get(container["name"], {}))

    running = _sum(*map(asked, pod["spec"]["containers"]))
    started: Amounts = {}
    peak: Amounts = {}
    for container in pod["spec"].get("initContainers", ()):
        peak = _most(peak, _sum(started, asked(container)))
        if container.get("restartPolicy") == "Always":
            started = _sum(started, asked(container))
    total = _sum(_most(_sum(running, started), peak), fixed)
    for name, amount in _requested(pod["spec"]).items():
        total[name] = amount
    return total


def world(seed: int) -> tuple[list[Object], list[Object], list[Object], list[Object]]:
    """Nodes, slices, claims and pods: CPUs and memory are few, and devices take of them in every way."""
    random = Random(seed)
    nodes, slices = [], []
    for at in range(random.randint(1, 2)):
        allocatable = {"cpu": str(random.randint(4, 10)), "memory": f"{random.randint(2, 8)}Gi", "pods": "50"}
        nodes.append(builders.node(f"n{at}") | {"status": {"allocatable": allocatable}})
        devices = [_device(random, number) for number in range(random.randint(1, 4))]
        here: Object = {"driver": "d.example", "pool": f"n{at}", "nodeName": f"n{at}"}
        slices.append(builders.resource_slice(f"s{at}", devices, **here))
    claims, pods = [], []
    for at in range(random.randint(1, 5)):
        own = [f"c{at}{number}" for number in range(random.randint(0, 2))]
        claims += [_claim(random, name) for name in own]
        pods.append(_pod(random, f"p{at}", own, nodes))
    return nodes, slices, claims, pods


def _device(random: Random, number: int) -> Object:
    kind = random.choice(("pool", "cpus", "gpu", "plain", "both"))
    made: Object = {"name": f"d{number}", "attributes": {"kind": {"string": kind}}}
    uses: Object = {}
    if kind == "pool":
        made |= {
            "allowMultipleAllocations": True,
            "capacity": {"cpus": {"value": "8", "requestPolicy": {"default": "1"}}},
        }
        times = random.choice(("1", "2", "500m"))
        uses["cpu"] = {"mapping": {"capacityKey": "cpus", "capacityMultiplier": times}}
    if kind in ("cpus", "both"):
        uses["cpu"] = {"mapping": {"deviceMultiplier": random.choice(("1", "2", "1500m"))}}
    if kind in ("gpu", "both"):
        over = {"perPod": random.choice(("512Mi", "1Gi")), "perContainer": random.choice(("0", "256Mi"))}
        uses["memory"] = {"overhead": over}
    return made | ({"nodeAllocatableResources": uses} if uses else {})


def _claim(random: Random, name: str) -> Object:
    def wants() -> Object:
        kind = random.choice(("pool", "cpus", "gpu", "plain", "both"))
        selector = {"cel": {"expression": f"device.attributes['d.example'].kind == '{kind}'"}}
        made: Object = {"deviceClassName": "any", "selectors": [selector] if random.random() < 0.7 else []}
        if kind == "pool" and made["selectors"]:
            made["capacity"] = {"requests": {"cpus": str(random.randint(1, 6))}}
        elif random.random() < 0.3:
            made["count"] = 2
        return made

    request: Object = {"name": "r", "exactly": wants()}
    if random.random() < 0.3:
        request = {"name": "r", "firstAvailable": [{"name": "a", **wants()}, {"name": "b", **wants()}]}
    return builders.claim(name, request)


def _pod(random: Random, name: str, claims: list[str], nodes: list[Object]) -> Object:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]

    def container(number: int) -> Object:
        requests = {"cpu": random.choice(("0", "500m", "1", "2")), "memory": random.choice(("0", "1Gi"))}
        refers = [{"name": claim} for claim in claims if random.random() < 0.6]
        return {"name": f"k{number}", "image": "x", "resources": {"requests": requests, "claims": refers}}

    spec: Object = {"containers": [container(number) for number in range(random.randint(1, 2))]}
    if random.random() < 0.3:
        spec["initContainers"] = [{**container(9), **random.choice(({}, {"restartPolicy": "Always"}))}]
    if claims:
        spec |= {"resourceClaims": entries, "schedulingGates": [{"name": "dra-reconciler.io/allocation"}]}
    else:
        spec["nodeName"] = random.choice(nodes)["metadata"]["name"]
    metadata = {"name": name, "namespace": "default", "uid": name}
    status = {"phase": "Running" if not claims else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def by_node(
    pods: list[Object], allocated: Mapping[str, tuple[str, list[Object]]], slices: list[Object]
) -> Iterator[tuple[str, Amounts]]:
    """Node and what it takes, of every pod that has one. `allocated`: claim -> node and results."""
    for pod in pods:
        names = [one["resourceClaimName"] for one in pod["spec"].get("resourceClaims", ())]
        places = [allocated[name][0] for name in names if name in allocated]
        node = pod["spec"].get("nodeName") or next(iter(places), "")
        if node:
            results = {name: allocated[name][1] for name in names if name in allocated}
            yield node, taken(pod, results, slices)
