"""Allocation on servers of each release: what they serve is used, and what they drop is not relied on.

The server is the embedded one, over HTTP, with the versions of a release and without the fields that the
release does not know or has switched off, as its published schemas say.
"""

from typing import Any

import kubernetes_validate
import pytest

from docs import version_tables
from reconciler.api.objects.claims import INLINE
from reconciler.api.objects.semantics import ADMIN_ACCESS, GATES
from reconciler.api.validation.kinds import GroupVersion
from reconciler.api.validation.served_kinds import every_kind
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, missing_gates
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import Served
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.embedded import serve
from tests.tools.checkout import DOCS
from tests.tools.release_schemas import GROUP, KINDS, MINORS, fields, gated, served, types
from tests.tools.release_servers import OFF, Release, forgetful
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


# -- docs/versions.md says what the schemas of the releases, and our own discovery, say.


ORDER = ("v1", "v1beta2", "v1beta1", "v1alpha3")
TABLE = (DOCS / "versions.md").read_text()

OUTDATED = {(34, ADMIN_ACCESS), (35, ADMIN_ACCESS)}
"""Descriptions that still say alpha after the gate became beta"""


def table(heading: str) -> list[list[str]]:
    section = TABLE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| \n").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


ROWS = {int(row[0].removeprefix("1.")): row[1:] for row in table("What is used")}


def test_every_release_has_a_row():
    assert tuple(ROWS) == MINORS


@pytest.mark.loopback
@pytest.mark.parametrize("minor", MINORS)
async def test_the_table_says_what_is_served_used_and_off(minor: int):
    known = set[str]().union(*(served(minor, kind) for kind in KINDS[:4]))
    shown, claims, rules = ROWS[minor]
    assert shown.split(", ") == [version for version in ORDER if version in known]
    found, _ = await _looked_at(Release(minor, beta_rules=True))
    assert {found[kind].version for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass")} == {claims}
    assert (found["DeviceTaintRule"].version if "DeviceTaintRule" in found else "none") == rules


def test_the_tables_are_those_of_the_program():
    assert version_tables.PAGE.read_text() == version_tables.page(), "run `make docs`"


@pytest.mark.loopback
@pytest.mark.parametrize("minor", MINORS)
async def test_gates_are_off_where_the_release_has_them_off_or_not_at_all(minor: int):
    """Groups are not written, and are read from an annotation, so their gate does not matter."""
    _, gates = await _looked_at(Release(minor))
    assert gates >= OFF[minor] & set(GATES) - {"DRADeviceCompatibilityGroups"}
    unknown = set(GATES) - set().union(*(known for known, _ in gated(minor, ROWS[minor][1]).values()))
    assert gates <= OFF[minor] | unknown


@pytest.mark.loopback
@pytest.mark.parametrize("minor", MINORS)
async def test_what_descriptions_call_alpha_is_off(minor: int):
    _, gates = await _looked_at(Release(minor))
    for (name, field), (needed, alpha) in gated(minor, ROWS[minor][1]).items():
        for gate in needed & set(GATES):
            if (minor, gate) not in OUTDATED and len(needed) == 1:
                assert (gate in gates) == alpha, f"{name}.{field}"


@pytest.mark.parametrize("minor", MINORS)
def test_v1beta2_and_v1_have_the_same_fields(minor: int):
    """VER-1."""
    for version, name in types(minor):
        if version == "v1" and ("v1beta2", name) in types(minor):
            assert fields(minor, "v1beta2", name) == fields(minor, "v1", name), name


@pytest.mark.parametrize("minor", MINORS)
def test_v1beta1_differs_in_what_is_converted(minor: int):
    """VER-2, VER-3: devices have `basic`, and requests what `exactly` has."""
    newest = "v1" if minor >= 34 else "v1beta2"
    assert fields(minor, "v1beta1", "Device").keys() == {"name", "basic"}
    inline = fields(minor, "v1beta1", "DeviceRequest").keys() - {"name", "firstAvailable"}
    assert inline <= {*INLINE}
    if minor == 32:
        return
    assert fields(minor, "v1beta1", "BasicDevice").keys() == fields(minor, newest, "Device").keys() - {"name"}
    assert inline == fields(minor, newest, "ExactDeviceRequest").keys()
    for version, name in types(minor):
        if (
            version == newest
            and ("v1beta1", name) in types(minor)
            and name not in ("Device", "DeviceRequest")
        ):
            assert fields(minor, "v1beta1", name) == fields(minor, newest, name), name


def test_what_works_follows_from_fields_and_gates():
    """A few rows, each by the field that it needs."""
    columns = ((32,), (33,), (34, 35), (36, 37))
    needs = {
        "administrative access": ("adminAccess", ADMIN_ACCESS),
        "prioritized lists": ("firstAvailable", "DRAPrioritizedList"),
        "partitions that draw from counters": ("consumesCounters", "DRAPartitionableDevices"),
        "taints of devices, tolerations": ("taints", "DRADeviceTaints"),
        "shared devices, capacity requests, `distinctAttribute`": (
            "distinctAttribute",
            "DRAConsumableCapacity",
        ),
        "binding conditions": ("bindingConditions", "DRADeviceBindingConditions"),
        "attributes that are lists": ("strings", "DRAListTypeAttributes"),
    }
    rows = {row[0]: row[1:] for row in table("What works")}
    for title, (field, gate) in needs.items():
        for cell, minors in zip(rows[title], columns, strict=True):
            assert {_standing(minor, field, gate) for minor in minors} == {cell}, title


def _standing(minor: int, field: str, gate: str) -> str:
    version = ROWS[minor][1]
    if not any(field in fields(minor, at, name) for at, name in types(minor) if at == version):
        return "no such field"
    return "if enabled" if minor < (GATES[gate].on_since or minor + 1) else "yes"


async def _looked_at(api: Any) -> tuple[Served, frozenset[str]]:
    async with serve(api) as url, connect(server=url) as transport:
        client = Client(transport)
        found = await discover(client)
        return found, await missing_gates(client, found)
