"""docs/versions.md says what the schemas of the releases, and our own discovery, say."""

from typing import Any

import pytest

from docs import version_tables
from reconciler.api.objects.claims import INLINE
from reconciler.api.objects.semantics import ADMIN_ACCESS, GATES
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, missing_gates
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import Served
from reconciler.embedded import serve
from tests.tools.checkout import DOCS
from tests.tools.release_schemas import KINDS, MINORS, fields, gated, served, types
from tests.tools.release_servers import OFF, Release

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
