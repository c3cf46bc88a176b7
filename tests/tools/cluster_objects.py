"""API objects as JSON, with good defaults."""

from dataclasses import replace
from typing import Any

from reconciler.cluster.kinds import NODE, Resource

CLAIMS = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)
NODES = replace(NODE, page=500, singly=False)
"""Nodes as a kind like most: passed on together"""


def node(name: str, version: str = "1", **more: Any) -> dict[str, Any]:
    """A Node as a listing holds it: without kind and version."""
    return {"metadata": {"name": name, "resourceVersion": version, **more}}


def listing(*items: dict[str, Any], version: str = "10", token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version}
    if token:
        metadata["continue"] = token
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(what: str, raw: dict[str, Any]) -> dict[str, Any]:
    return {"type": what, "object": {"kind": "Node", "apiVersion": "v1", **raw}}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


def error_event(code: int, message: str = "no") -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": message}}


def claim(name: str = "c", version: str = "10", **more: Any) -> dict[str, Any]:
    """A ResourceClaim for one device; `more` replaces metadata fields, `status` the status."""
    status = more.pop("status", {})
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "namespace": "default", "uid": "u-1", "resourceVersion": version, **more},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": status,
    }
