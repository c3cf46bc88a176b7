"""Families of valid objects with newer fields: what `mutations` breaks one part of at a time."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from reconciler.cluster.pod_writer import EVICTION_REQUEST, REQUESTER
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    held,
    hold,
    match,
    request,
    resource_slice,
)

Path = tuple[str | int, ...]


class Family(NamedTuple):
    """The objects of a family of fields, and the paths of those fields in them."""

    objects: tuple[Object, ...]
    """With them a claim, or the pods, get devices"""
    fields: tuple[tuple[int, Path], ...]
    """Number of an object, and a path in its spec; in a pod, and in a status, in all of it"""


def _counters() -> Family:
    sets = resource_slice("t", slices=2, nodeName="n")
    del sets["spec"]["devices"]
    policy = {"default": "1G", "validRange": {"min": "1G", "max": "60G", "step": "1G"}}
    sets["spec"]["sharedCounters"] = [
        {"name": "port", "counters": {"bandwidth": {"value": "100G", "requestPolicy": policy}}}
    ]
    draws = {"counterSet": "port", "counters": {"bandwidth": {"valueFrom": {"capacityName": "d/bandwidth"}}}}
    devices = [device("a", consumesCounters=[draws]), device("b", consumesCounters=[copy.deepcopy(draws)])]
    wanted = claim("c", request(capacity={"d/bandwidth": "2G"}))
    drawn = [{"counterSet": "port", "counters": {"bandwidth": "60G"}}]
    holder = held("h", hold("b", consumedCounters=drawn))
    counters: Path = ("sharedCounters", 0, "counters")
    return Family(
        (resource_slice("s", devices, slices=2, nodeName="n"), sets, wanted, holder),
        (
            (0, ("devices", 0, "consumesCounters")),
            (1, counters),
            (2, ("devices", "requests", 0, "exactly", "capacity")),
            (3, ("status", "allocation", "devices", "results", 0, "consumedCounters")),
        ),
    )


def _affinity() -> Family:
    meta = resource_slice("m", slices=2, nodeName="n")
    del meta["spec"]["devices"]
    meta["spec"]["sharingAffinity"] = [
        {"cel": {"subnet": 'object.kind == "NIC" ? object.subnet : ""'}},
        {"selector": {"cel": {"expression": "device.driver == 'd'"}}, "cel": {"vlan": "string(object.vlan)"}},
    ]
    nic = device("a", allowMultipleAllocations=True)
    parameters = {"kind": "NIC", "subnet": "a", "vlan": 7, "more": [{"a": None}]}
    config = [{"opaque": {"driver": "d", "parameters": parameters}}]
    holder = held("h", hold("a", shareID="9c5b8a3e-6f0d-4e2b-8a55-1d2f3c4b5a69"))
    of_holder = {"source": "FromClaim", **copy.deepcopy(config[0])}
    holder["status"]["allocation"]["devices"]["config"] = [of_holder]
    wanted = claim("c", request(), config=config)
    return Family(
        (resource_slice("s", [nic], slices=2, nodeName="n"), meta, wanted, holder),
        (
            (1, ("sharingAffinity",)),
            (2, ("devices", "config")),
            (3, ("status", "allocation", "devices", "config")),
        ),
    )


def _derived() -> Family:
    devices = [device(name, {"address": f"0000:{name}:00.0", "n": at}) for at, name in enumerate("AAB")]
    for at, one in enumerate(devices):
        one["name"] = f"x{at}"
    attribute = {"name": "d/bus", "expression": "device.attributes['d'].address.substring(5, 6)"}
    numbers = {"name": "d/n", "expression": "[device.attributes['d'].n, dyn(7)]"}
    constraints = [match("d/bus"), match("d/n")]
    wanted = claim("c", request(count=2, derivedAttributes=[attribute, numbers]), constraints=constraints)
    requests: Path = ("devices", "requests", 0, "exactly", "derivedAttributes")
    return Family(
        (resource_slice("s", devices, nodeName="n"), wanted), ((1, requests), (1, ("devices", "constraints")))
    )


def _node_resources() -> Family:
    memory = {"mapping": {"deviceMultiplier": "1Gi"}, "overhead": {"perPod": "1Mi", "perContainer": "1Ki"}}
    uses = {"cpu": {"mapping": {"capacityKey": "cpus", "capacityMultiplier": "1"}}, "memory": memory}
    made = device("a", capacity={"cpus": "8"}, allowMultipleAllocations=True, nodeAllocatableResources=uses)
    wanted = claim("c", request(capacity={"cpus": "2"}))
    return Family(
        (resource_slice("s", [made], nodeName="n"), wanted),
        ((0, ("devices", 0, "nodeAllocatableResources")),),
    )


def _pod(name: str, **spec: Any) -> Object:
    gates = [{"name": "dra-reconciler.io/allocation"}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulingGates": gates, "containers": [{"name": "main"}], **spec},
    }


def _groups() -> Family:
    """A group of two pods in a tree, each pod with a device."""
    named = {"workloadRef": {"workloadName": "w", "templateName": "t"}, "priority": 5}
    named |= {"preemptionPolicy": "Never", "disruptionMode": {"all": {}}, "priorityClassName": "high"}
    topology = {"topology": [{"key": "kubernetes.io/hostname"}]}
    tree = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}, "schedulingConstraints": topology, **named}
    group = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "tree", **named}
    shared = {"name": "shared", "resourceClaimName": "shared"}
    of = {"namespace": "default"}
    pods = [
        _pod(
            f"p{at}",
            schedulingGroup={"podGroupName": "group"},
            resourceClaims=[{"name": "r", "resourceClaimName": f"c{at}"}, dict(shared)],
        )
        for at in (0, 1)
    ]
    return Family(
        (
            {
                "apiVersion": "scheduling.k8s.io/v1alpha3",
                "kind": "CompositePodGroup",
                "metadata": {"name": "tree", **of},
                "spec": tree,
            },
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "group", **of},
                "spec": {
                    **group,
                    "schedulingConstraints": copy.deepcopy(topology),
                    "resourceClaims": [dict(shared)],
                },
            },
            resource_slice("s", [device("a"), device("b"), device("c")], nodeName="n"),
            *(claim(name, request()) for name in ("c0", "c1", "shared")),
            *pods,
        ),
        (
            *((at, (field,)) for at in (0, 1) for field in tree),
            *((1, (field,)) for field in ("parentCompositePodGroupName", "resourceClaims")),
            (6, ("spec", "schedulingGroup")),
            (6, ("spec", "resourceClaims")),
        ),
    )


def _taint_rules() -> Family:
    """An old rule that selects by class and by expression, and whose taint the claim tolerates."""
    selector = {"deviceClassName": "any", "selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    rule = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": {**selector, "driver": "d"}, "taint": taint},
    }
    tolerations = [{"key": "k", "operator": "Exists"}]
    slices = resource_slice("s", [device("a")], nodeName="n")
    return Family(
        (rule, slices, claim("c", request(tolerations=tolerations))),
        (
            (0, ("deviceSelector",)),
            (0, ("taint",)),
            (2, ("devices", "requests", 0, "exactly", "tolerations")),
        ),
    )


def _extended() -> Family:
    """A gated pod that asks for extended resources, and one that reports what its devices take."""
    named = device_class("named")
    named["spec"] |= {"extendedResourceName": "x.io/gpu"}
    asks = {"limits": {"x.io/gpu": "1", "deviceclass.resource.kubernetes.io/named": "1"}}
    pod = _pod("p", containers=[{"name": "main", "resources": asks}])
    runs = _pod("q", nodeName="n", schedulingGates=[])
    mapping = [{"name": "cpu", "quantity": "2"}]
    overhead = [{"name": "memory", "perPod": "1Mi", "perContainer": "1Ki"}]
    told = {"resourceClaimName": "c", "containers": ["main"], "mapping": mapping, "overhead": overhead}
    requests = [{"containerName": "main", "resourceName": "x.io/gpu", "requestName": "r"}]
    runs["status"] = {
        "nodeAllocatableResourceClaimStatuses": [told],
        "extendedResourceClaimStatus": {"resourceClaimName": "d", "requestMappings": requests},
    }
    return Family(
        (named, resource_slice("s", [device("a"), device("b")], nodeName="n"), pod, runs),
        (
            (0, ("extendedResourceName",)),
            (2, ("spec", "containers", 0, "resources")),
            *((3, ("status", field)) for field in runs["status"]),
        ),
    )


def _request() -> Family:
    """A request for the eviction of a pod that others answered."""
    conditions = [{"type": "Failed", "status": "True"}, {"type": "Evicted", "status": "False"}]
    made = {
        "apiVersion": EVICTION_REQUEST.api_version,
        "kind": EVICTION_REQUEST.kind,
        "metadata": {"name": "dra-reconciler-u", "namespace": "default"},
        "spec": {"target": {"pod": {"name": "p", "uid": "u"}}, "requester": REQUESTER, "intent": "Eviction"},
        "status": {"conditions": conditions},
    }
    return Family((made,), tuple((0, (key,)) for key in ("spec", "status")))


FAMILIES: Mapping[str, Family] = {
    "derivedAttributes": _derived(),
    "nodeAllocatableResources": _node_resources(),
    "valueFrom": _counters(),
    "sharingAffinity": _affinity(),
}
"""Decided by the allocator alone"""
OF_PODS: Mapping[str, Family] = {
    "groups": _groups(),
    "taintRules": _taint_rules(),
    "extendedResources": _extended(),
}
"""Decided as manifests: what they are about is not only the allocator's"""
REQUEST = _request()
