"""A small fleet and its claims as JSON: the device class `gpu`, a driver, nodes with whole devices."""

from typing import Any

from reconciler.api.objects.core import GATE
from reconciler.control.ownership import MANAGED

Object = dict[str, Any]
DRA = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", driver: str = DRIVER) -> Object:
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    spec = {"selectors": [selector]}
    return {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def devices(on: str, *names: str, driver: str = DRIVER) -> Object:
    """The slice of a node's pool."""
    return {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name} for name in names],
        },
    }


def claim_spec(count: int = 1, device_class: str = "gpu") -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    return {"devices": {"requests": [request]}}


def claim(name: str, count: int = 1, *, device_class: str = "gpu", managed: bool = True) -> Object:
    labels = {MANAGED: "true"} if managed else {}
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": claim_spec(count, device_class),
    }


def template(name: str, count: int = 1) -> Object:
    metadata = {"name": name, "namespace": "default"}
    spec = {"spec": claim_spec(count)}
    return {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def pod(
    name: str, *claims: str, templates: tuple[str, ...] = (), gates: tuple[str, ...] = (GATE,), **spec: Any
) -> Object:
    """A pod that names claims, and has others made from templates."""
    entries = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    entries += [{"name": f"t{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/main"}],
            "schedulingGates": [{"name": gate} for gate in gates],
            "resourceClaims": entries,
            **spec,
        },
    }


def budget(name: str = "b", allowed: int | None = None, **spec: Any) -> Object:
    """A PodDisruptionBudget for all pods, or for those of a `selector`."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {}, **spec},
        **({} if allowed is None else {"status": {"disruptionsAllowed": allowed}}),
    }


def held(driver: str, pool: str, *names: str, on: str | None = None) -> Object:
    """The status of a claim that somebody allocated before."""
    allocation: Object = {
        "devices": {
            "results": [{"request": "r", "driver": driver, "pool": pool, "device": name} for name in names]
        },
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    if on is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"allocation": allocation}
