"""Decisions about gangs in a journal, and in its replay."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.decisions.decisions import GangPlaced, Waits
from reconciler.operations.journal.files import entries, paths
from reconciler.operations.journal.replaying import Again, Tally, replay
from tests.tools.gangs import annotated
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

pytestmark = pytest.mark.loopback


async def recorded(folder: Path) -> list[dict[str, Any]]:
    """A gang that is placed, and one that does not fit; the entries about them."""
    fleet = [device_class(), node("n0"), node("n1"), devices("n0", "d0", "d1"), devices("n1", "d0")]
    cluster = Cluster([*fleet, *(claim(name) for name in ("a", "b", "c", "x", "y"))])
    async with reconciling(cluster, journal=str(folder), backoff_base_seconds=600.0) as running:
        cluster.load(*(annotated(f"p{name}", name, size=3) for name in "abc"))
        await running.heard(GangPlaced)
        cluster.load(*(annotated(f"p{name}", name, size=2, gang="h") for name in "xy"))
        await cluster.until(lambda: any(one.reason == "GangUnplaced" for one in running.of(Waits)))
    return [raw for path in paths(folder) for raw in entries(path) if raw["t"] == "gang"]


def replayed(folder: Path) -> tuple[Tally, list[Again]]:
    seen: list[Again] = []
    return replay(folder, seen=seen.append), seen


async def test_the_devices_of_a_gang_are_found_again(tmp_path: Path):
    placed, refused, *_ = await recorded(tmp_path)
    assert (placed["reason"], refused["reason"]) == ("", "GangUnplaced")
    tally, seen = replayed(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    (gang,) = [again.then for again in seen if again.then.unit.startswith("gang ")]
    assert (gang.unit, gang.node) == ("gang default/g", "n0, n1")
    assert len(gang.devices) == 3


async def test_a_device_that_was_given_twice_is_found(tmp_path: Path):
    placed, *_ = await recorded(tmp_path)
    first, second, _ = (seat["devices"][0] for seat in placed["seats"])
    _, _, device = first.partition(" ")
    name, _, _ = second.partition(" ")
    (path,) = paths(tmp_path)
    text = gzip.decompress(path.read_bytes()).decode()
    changed = text.replace(json.dumps(second), json.dumps(f"{name} {device}"))
    assert changed != text
    path.write_bytes(gzip.compress(changed.encode()))
    tally, _ = replayed(tmp_path)
    (found,) = tally.different
    assert found.now is not None
    assert found.now.reason
