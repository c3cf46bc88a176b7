"""Allocation on servers of each release: what they serve is used, and what they drop is not relied on.

The server is the embedded one, over HTTP, with the versions of a release and without the fields that the
release does not know or has switched off, as its published schemas say.
"""

from typing import Any

import kubernetes_validate
import pytest

from reconciler.api.validation.kinds import GroupVersion
from reconciler.api.validation.served_kinds import every_kind
from reconciler.control.decisions.allocating import Allocated, Waits
from tests.tools.release_schemas import GROUP, MINORS, served
from tests.tools.release_servers import Release, forgetful
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template

USED = {32: "v1beta1", 33: "v1beta2", 34: "v1", 35: "v1", 36: "v1", 37: "v1"}


class Old(Cluster):
    """A cluster of a release. What is loaded is spelled in the version that clients of it would use."""

    def __init__(self, minor: int, *objects: Any) -> None:
        self.api = Release(minor)
        self.minor = minor
        self.load(*objects)

    def load(self, *objects: Any) -> None:
        self.api.load([self.spelled(obj) for obj in objects])

    def spelled(self, obj: Any) -> Any:
        if not obj["apiVersion"].startswith(GROUP):
            return obj
        version = GroupVersion(GROUP, USED[self.minor])
        kind = next(kind for kind in every_kind() if kind.kind == obj["kind"])
        plain = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
        return {"kind": obj["kind"], "apiVersion": str(version), **kind.downgrade(plain, version)}


@pytest.fixture(params=MINORS, ids=lambda minor: f"1.{minor}")
def minor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    chosen: int = request.param
    for conversions, version, conversion in forgetful(chosen):
        monkeypatch.setitem(conversions, version, conversion)
    return chosen


async def test_claims_and_gated_pods_are_allocated(minor: int):
    cluster = Old(minor, node("n"), device_class(), devices("n", "d0", "d1", "d2", "d3"), template("t"))
    cluster.load(claim("a"), claim("two", 2), pod("p", templates=("t",)))
    async with reconciling(cluster, controllers=True) as running:
        await cluster.until(lambda: cluster.devices("a") and cluster.devices("two"))
        await cluster.until(lambda: not cluster.gated("p"))
        cluster.load(claim("none-left"))
        await running.heard(Waits)
        to_claims = [sent for sent in running.faulty.sent if GROUP in sent]
    assert {sent.split("/")[3] for sent in to_claims} == {USED[minor]}
    assert sum(len(r["status"]["allocation"]["devices"]["results"]) for r in _allocated(cluster)) == 4
    for raw in _allocated(cluster):
        kubernetes_validate.validate(cluster.spelled({**raw, **_KIND}), f"1.{minor}", strict=True)


async def test_a_slice_that_comes_later_is_used(minor: int):
    cluster = Old(minor, node("n"), device_class(), claim("a"))
    async with reconciling(cluster) as running:
        await running.heard(Waits)
        cluster.load(devices("n", "d0"))
        await running.heard(Allocated)
    assert cluster.devices("a") == ["n/d0"]


async def test_devices_of_pods_that_vanish_are_freed_after_a_restart_as_well(minor: int):
    """Ours are known again also where the server keeps no timestamp of an allocation."""
    cluster = Old(minor, node("n"), device_class(), devices("n", "d0"))
    cluster.load(
        claim("a", managed=False), pod("p", "a", gates=("dra-reconciler.io/allocation", "other/gate"))
    )
    async with reconciling(cluster, all_claims=False, own_drivers=["gpu.example.com"]):
        await cluster.until(lambda: cluster.devices("a"))
    shown = cluster.spelled({**cluster.claim("a"), **_KIND})
    assert ("allocationTimestamp" in shown["status"]["allocation"]) == (minor >= 36)
    async with reconciling(cluster, all_claims=False, own_drivers=["gpu.example.com"]):
        cluster.api.delete(_kind("Pod"), "default", "p")
        await cluster.until(lambda: not cluster.devices("a"))


def test_what_is_loaded_is_spelled_as_the_release_spells_it(minor: int):
    cluster = Old(minor)
    for thing in (claim("a"), device_class(), devices("n", "d0"), template("t")):
        spelled = cluster.spelled(thing)
        assert USED[minor] in served(minor, thing["kind"])
        kubernetes_validate.validate(spelled, f"1.{minor}", strict=True)


_KIND = {"kind": "ResourceClaim", "apiVersion": f"{GROUP}/v1"}


def _kind(name: str) -> Any:
    return next(kind for kind in every_kind() if kind.kind == name)


def _allocated(cluster: Cluster) -> list[Any]:
    return [raw for raw in cluster.claims() if raw.get("status", {}).get("allocation")]
