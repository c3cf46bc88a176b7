"""Helpers to call the server without HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from reconciler.embedded import ApiServer, Request, Response, Stream

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TEMPLATES = CLAIMS.replace("resourceclaims", "resourceclaimtemplates")
FINALIZER = "resource.kubernetes.io/delete-protection"
GATE: dict[str, Any] = {"name": "dra-reconciler.io/allocation"}
UNGATE: dict[str, Any] = {"spec": {"schedulingGates": [{"$patch": "delete", **GATE}]}}


def call(
    api: ApiServer,
    method: str,
    path: str,
    body: Any = None,
    *,
    media: str = "application/json",
    accept: str = "application/json",
    **query: str,
) -> tuple[int, Any]:
    """Status and decoded body of an answer."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer = api.handle(Request(method, path, query, {"Content-Type": media, "Accept": accept}, raw))
    assert isinstance(answer, Response)
    is_json = answer.content_type == "application/json"
    return answer.status, json.loads(answer.body) if is_json else answer.body.decode()


def ok(api: ApiServer, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The body of a response that must be a success."""
    status, found = call(api, method, path, body, **options)
    assert status in (200, 201), found
    return found


def refused(api: ApiServer, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, str]:
    """Code and reason of an answer that must be a Status."""
    status, found = call(api, method, path, body, **options)
    assert found["kind"] == "Status"
    assert found["code"] == status
    return status, found.get("reason", "")


def causes(api: ApiServer, method: str, path: str, body: Any = None, **options: Any) -> list[tuple[str, str]]:
    """Field and reason of every cause in a 422."""
    status, found = call(api, method, path, body, **options)
    assert status == 422, found
    return [(cause["field"], cause["reason"]) for cause in found["details"]["causes"]]


def problems(api: ApiServer, method: str, path: str, body: Any = None, **options: Any) -> list[str]:
    """The same in words, as `spec.driver: Required`."""
    found = causes(api, method, path, body, **options)
    return [f"{field}: {reason.removeprefix('FieldValue')}" for field, reason in found]


async def watch(
    api: ApiServer, path: str, *, accept: str = "application/json", **query: str
) -> AsyncGenerator[Any, None]:
    """The events of a watch, one by one."""
    answer = api.handle(Request("GET", path, {"watch": "1", **query}, {"Accept": accept}))
    assert isinstance(answer, Stream)
    try:
        async for chunk in answer.chunks:
            for line in chunk.splitlines():
                yield json.loads(line)
    finally:
        await answer.chunks.aclose()


async def take(api: ApiServer, count: int, path: str, **query: str) -> list[tuple[str, str]]:
    """Type and name of the first `count` events of a watch."""
    found: list[tuple[str, str]] = []
    events = watch(api, path, **query)
    try:
        async for event in events:
            found.append((event["type"], event["object"]["metadata"].get("name", "")))
            if len(found) == count:
                break
    finally:
        await events.aclose()
    return found


def claim(name: str = "c", **metadata: Any) -> dict[str, Any]:
    """A claim for one device."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": [request]}}}


def allocation(device: str = "d", **fields: Any) -> dict[str, Any]:
    """An allocation of one device on node-1."""
    node = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    return {
        "devices": {
            "results": [{"request": "r", "driver": "gpu.example.com", "pool": "p", "device": device}]
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [node]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
        **fields,
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def device_slice(name: str = "s", **spec: Any) -> dict[str, Any]:
    """A slice of one device on node-1."""
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    given = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-1", "devices": [{"name": "gpu-0"}]}
    return {
        "metadata": {"name": name},
        "spec": {key: value for key, value in {**given, **spec}.items() if value is not None},
    }


async def settle(api: ApiServer) -> None:
    """Run the controllers until nothing changes."""
    idle = 0
    while idle < 10:
        before = api.store.version
        await asyncio.sleep(0)
        idle = idle + 1 if api.store.version == before else 0


def node(name: str = "node-1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def wants(*names: str, **sources: Any) -> list[dict[str, Any]]:
    return [{"name": name, **sources} for name in names]
