"""What an earlier version left is taken over. Each recorded it, with `tests/tools/written_state.py`."""

import asyncio
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from semver import Version

from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM, CONFIG_MAP, LEASE, POD
from reconciler.cli import main
from reconciler.control import demand
from reconciler.control.decisions.allocating import DevicesGiven, Ungated, Waits
from reconciler.operations.journal.entries import FORMAT
from tests.tools.checkout import DOCS, ROOT
from tests.tools.koordinator_cluster import wants
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, pod
from tests.tools.written_state import FLAGS, RECORDS, Written, read

Object = dict[str, Any]
KINDS: dict[str, ServedKind] = {"ResourceClaim": CLAIM, "Pod": POD, "ConfigMap": CONFIG_MAP, "Lease": LEASE}
EARLIER = sorted(RECORDS.glob("*.json.gz"))
ALWAYS: dict[str, Any] = {"demand_half_life_hours": 1e9}
"""What was counted at the time of the record counts in full"""
each_version = pytest.mark.parametrize(
    "path", EARLIER, ids=[path.name.removesuffix(".json.gz") for path in EARLIER]
)


def of_later(found: Object) -> Object:
    """As a later version might have written it: with fields and annotations that nobody knows here."""
    made = deepcopy(found)
    made["metadata"].setdefault("annotations", {})["dra-reconciler.io/later"] = "1"
    for part in ("spec", "status"):
        if part in made:
            made[part]["later"] = {"a": [1]}
    if "allocation" in made.get("status", {}):
        made["status"]["allocation"]["later"] = "a"
    if "demand" in made.get("data", {}):
        made["data"] |= {
            "later": "x",
            "demand": json.dumps({**json.loads(made["data"]["demand"]), "later": 1}),
        }
    return made


def on_server(written: Written, *, later: bool) -> Cluster:
    """A server with these objects as they were, with their uids."""
    cluster = Cluster(written.fleet)
    for one in written.objects:
        found = of_later(one) if later else one
        plain = {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
        metadata = one["metadata"]
        cluster.api.store.put(KINDS[one["kind"]], f"{metadata['namespace']}/{metadata['name']}", plain)
    return cluster


def held(cluster: Cluster) -> dict[str, list[str]]:
    return {name: cluster.devices(name) for name in (one["metadata"]["name"] for one in cluster.claims())}


def without_version(found: Object) -> Object:
    metadata = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    return {**found, "metadata": metadata}


async def learnt(cluster: Cluster, shape: str) -> dict[str, int]:
    """The weights in the ConfigMap by how many devices are asked for, as soon as one is among them."""
    shelf = cluster.api.store[CONFIG_MAP]
    async with asyncio.timeout(PATIENCE):
        while True:
            (kept,) = (json.loads(record.object["data"]["demand"])["shapes"] for record in shelf.scan(""))
            asked = ((one["spec"]["devices"]["requests"][0]["exactly"], one["weight"]) for one in kept)
            found = {str(exactly.get("count", 1)): weight for exactly, weight in asked}
            if shape in found:
                return found
            await shelf.wait(shelf.end)


@pytest.mark.loopback
@each_version
@pytest.mark.parametrize("later", [False, True], ids=["as written", "with unknown fields"])
async def test_what_is_held_stays_held_and_nothing_is_given_twice(
    path: Path, later: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(demand, "EVERY", 0.05)
    cluster = on_server(read(path), later=later)
    before = {one["metadata"]["name"]: without_version(one) for one in cluster.claims()}
    had = held(cluster)
    assert sorted(map(len, had.values())) == [0, 1, 1, 1, 2]
    async with reconciling(cluster, controllers=True, **FLAGS, **ALWAYS) as running:
        await running.heard(Waits, counts=lambda one: "large" in str(one.claims))
        cluster.load(claim("next", 3), pod("next", "next"))
        await running.heard(Ungated, counts=lambda one: one.pod.name == "next")
        cluster.load(wants("next-gpu", {"gpu": 60}))
        await running.heard(DevicesGiven)
        taken = [device for devices in had.values() for device in devices]
        assert set(cluster.devices("next")).isdisjoint(taken)
        assert '"minor":1' in str(cluster.pod("next-gpu")["metadata"]["annotations"])
        after = {one["metadata"]["name"]: without_version(one) for one in cluster.claims()}
        assert {name: after[name] for name in before} == before
        assert await learnt(cluster, "3") == {"1": 3000, "2": 1000, "3": 1000, "4": 1000}
        (lease,) = (record.object for record in cluster.api.store[LEASE].scan(""))
        assert lease["spec"]["holderIdentity"]
        assert lease["spec"]["leaseTransitions"] == 1


@each_version
def test_a_journal_is_read_or_refused_and_the_release_that_reads_it_named(path: Path, tmp_path: Path):
    for name, content in read(path).journal.items():
        (tmp_path / name).write_bytes(content)
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    if Version.parse(path.name.removesuffix(".json.gz")) > Version(0, 3, 0):
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert "a journal of format 1: dra-reconciler 0.3.0 reads it" in " ".join(result.output.split())


def test_each_version_that_was_released_has_a_record():
    """Make it before the version changes: the new one is tested with it."""
    headings = [
        line.split()[1] for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line[:3] == "## "
    ]
    released = {one for one in headings if one[0].isdigit() and Version.parse(one) >= Version(0, 2, 0)}
    recorded = {path.name.removesuffix(".json.gz") for path in EARLIER}
    assert released == recorded, "python -m tests.tools.written_state tests/tools/written/VERSION.json.gz"


# -- The page lists what is kept.

NOT_KEPT = {
    "decision-id", "device-extensions", "gang", "gang-size", "gang-topology", "joint-allocation", "managed",
    "movable", "partition", "pool-prefix", "reconciler", "rewrite-resources", "room", "run-seconds",
}  # fmt: skip
"""What users write, or what Events and conversions have"""


def test_every_form_that_is_kept_is_on_the_page_with_its_version():
    page = (DOCS / "upgrade.md").read_text()
    rows = re.findall(r"^\| (.+) \| ([\d.]+) \|$", page, re.M)
    source = "".join(path.read_text() for path in (ROOT / "reconciler").rglob("*.py"))
    known = set(re.findall(r'"dra-reconciler\.io/([a-z-]+)"', source)) - NOT_KEPT
    told = {name for form, _ in rows for name in re.findall(r"dra-reconciler\.io/([a-z-]+)", form)}
    assert known == told
    assert ("[journal](journal.md): `format` in the first line of each file", str(FORMAT)) in rows
