"""Pods that run on one node of eight devices, for tests of who has to leave."""

from typing import Any

from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import world_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import gpu_slice
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, held, node, pod


def holding(name: str, device: str, *users: str) -> Object:
    made = claim(name)
    made["metadata"]["uid"] = name
    reserved = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users]
    return {**made, "status": {**held(DRIVER, "n", device, on="n"), "reservedFor": reserved}}


def running(name: str, *claims: str, annotations: Object | None = None, **spec: Any) -> Object:
    made = pod(name, *claims, gates=(), nodeName="n", **spec)
    made["metadata"] |= {"uid": f"uid-{name}", "annotations": annotations or {}, "labels": {"app": name}}
    return made


def occupants(*objects: Object) -> Occupants:
    raws = [node("n"), device_class(), gpu_slice("n", 8, driver=DRIVER), *objects]
    world = world_of(map(read, raws), Semantics())
    return Occupants(world)


def keys(*names: str) -> frozenset[ObjectKey]:
    return frozenset(ObjectKey("default", name) for name in names)
