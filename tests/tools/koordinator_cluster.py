"""A reconciler that serves Koordinator's devices on the embedded server, over real HTTP."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.pinning import pinned
from reconciler.api.validation.served_kinds import NODE, POD
from reconciler.embedded import ApiServer
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.vocabulary import DEVICE
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import node

Object = dict[str, Any]
__all__ = ["DEVICE", "NODE", "POD", "KoordinatorCluster", "Plain", "machine", "node", "running", "wants"]


def machine(name: str, *devices: Mapping[str, Any], **metadata: Any) -> Object:
    """A Device object."""
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": list(devices)},
    }


def wants(
    name: str,
    requests: Mapping[str, int | str],
    *,
    gates: Sequence[str] = (GATE,),
    annotations: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A pod that requests devices; annotations that are not text are written as JSON."""
    full = {key if "/" in key else f"koordinator.sh/{key}": str(n) for key, n in requests.items()}
    said = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (annotations or {}).items()}
    container = {"name": "main", "image": "example.com/main", "resources": {"requests": full, "limits": full}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": said},
        "spec": {"containers": [container], "schedulingGates": [{"name": gate} for gate in gates], **spec},
    }


class KoordinatorCluster(Cluster):
    """The server, with what tests ask about pods and their devices."""

    def pods(self) -> list[Object]:
        return [record.object for record in self.api.store[POD].scan("")]

    def given(self, name: str) -> dict[str, list[int]]:
        """The minors that a pod's annotation records, by type."""
        text = self.pod(name)["metadata"].get("annotations", {}).get(vocabulary.ALLOCATED, "{}")
        return {kind: [entry["minor"] for entry in entries] for kind, entries in json.loads(text).items()}

    def on(self, name: str) -> str:
        """The node that a pod is tied to."""
        return pinned(Pod.model_validate(self.pod(name)))

    def served(self, name: str) -> bool:
        return not self.gated(name)

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod be done."""

        def ended(shown: Object) -> Object:
            return {**shown, "status": {**shown.get("status", {}), "phase": phase}}

        self.api.update(POD, "default", name, ended, subresource="status")

    def remove(self, name: str) -> None:
        self.api.delete(POD, "default", name)

    def change(self, kind: Any, name: str, **parts: Any) -> None:
        """Replace top-level parts of an object without namespace."""
        self.api.update(kind, "", name, lambda shown: {**shown, **parts})


def running(cluster: Cluster, **flags: Any) -> AbstractAsyncContextManager[Running]:
    """A reconciler with short pauses beside the block."""
    return reconciling(cluster, **{"koordinator": True, "backoff_base_seconds": 0.01, **flags})


GROUP = "resource.k8s.io"


class Plain(KoordinatorCluster):
    """A cluster without claims, or with those of versions that we do not read."""

    def __init__(self, objects: Iterable[Any], *, versions: frozenset[str] = frozenset()) -> None:
        self.api = ApiServer(serves=lambda _, at: at.group != GROUP or at.version in versions)
        self.api.load(objects)
