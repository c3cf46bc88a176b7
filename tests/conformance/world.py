"""One allocator case as the objects of a cluster, applied one by one as a watch would tell them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Release, Semantics
from reconciler.api.versions.reading import read
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import load

Case = Mapping[str, Any]

DRA = "resource.k8s.io/v1"


def snapshot(case: Case, release: Release) -> Snapshot:
    """The cluster of a case under the rules of a release, with the feature gates that the case names."""
    store = Store(Semantics(release, gates(case)))
    load(store, _objects(case))
    return store.snapshot()


def gates(case: Case) -> frozenset[str]:
    """The feature gates that are on; `A+B` names two that only work together."""
    return frozenset(gate for feature in case.get("features") or () for gate in feature.split("+"))


def nodes(case: Case) -> list[dict[str, Any]]:
    """The nodes for which the claims are to be allocated, one by one."""
    return list(case["nodes"]) if case.get("nodes") else [case["node"]]


def claims(case: Case) -> list[ResourceClaim]:
    """The claims that are to be allocated jointly."""
    return [ResourceClaim.model_validate(claim) for claim in case.get("claims") or ()]


def _objects(case: Case) -> Iterator[ApiObject]:
    for node in nodes(case):
        yield read({**node, "kind": "Node", "apiVersion": "v1"})
    for device_class in case.get("deviceClasses") or ():
        yield read({**device_class, "kind": "DeviceClass", "apiVersion": DRA})
    for rule in case.get("deviceTaintRules") or ():
        yield read({**rule, "kind": "DeviceTaintRule", "apiVersion": DRA})
    for published in _told_apart(case.get("resourceSlices") or ()):
        yield read({**published, "kind": "ResourceSlice", "apiVersion": DRA})
    for number, result in enumerate(_held(case)):
        yield read(
            {
                "kind": "ResourceClaim",
                "apiVersion": DRA,
                "metadata": {"name": f"holder-{number}", "namespace": "held", "uid": f"holder-{number}"},
                "spec": {},
                "status": {"allocation": {"devices": {"results": [{"request": "r", **result}]}}},
            }
        )


def _told_apart(slices: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Slices under names of their own, in the same order: some cases give one name to several."""
    seen: Counter[str] = Counter()
    for published in slices:
        name = published["metadata"]["name"]
        yield {**published, "metadata": {**published["metadata"], "name": name + "\0" * seen[name]}}
        seen[name] += 1


def _held(case: Case) -> Iterator[dict[str, Any]]:
    """The results of other claims' allocations. A device's consumption is charged to its first share."""
    for device in case.get("allocatedDevices") or ():
        yield dict(device)
    consumed = {_id(entry): entry["consumed"] for entry in case.get("consumedCapacity") or ()}
    for share in case.get("allocatedSharedDevices") or ():
        yield {**share, "consumedCapacity": consumed.pop(_id(share), {})}
    numbers = count()
    for (driver, pool, device), amounts in consumed.items():
        yield {
            "driver": driver,
            "pool": pool,
            "device": device,
            "shareID": f"of-nobody-{next(numbers)}",
            "consumedCapacity": amounts,
        }


def _id(entry: Mapping[str, str]) -> tuple[str, str, str]:
    return entry["driver"], entry["pool"], entry["device"]
