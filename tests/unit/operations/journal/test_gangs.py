"""Decisions about gangs in a journal, and in its replay."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import GangPlaced
from reconciler.control.inputs import Answered
from reconciler.operations.journal.entries import decode, encode, lines, paths
from reconciler.operations.journal.replaying import Again, Tally, replay
from tests.tools.gangs import annotated
from tests.tools.pod_scenarios import apart, term
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

SPECS = pytest.mark.parametrize("spec", [{}, apart(term("kubernetes.io/arch"))], ids=["plain", "apart"])


async def record(folder: Path, **spec: Any) -> None:
    """A gang that is placed, and one that does not fit. `spec` is for all pods."""
    fleet = [device_class(), node("n0"), node("n1"), devices("n0", "d0", "d1"), devices("n1", "d0")]
    cluster = Cluster([*fleet, *(claim(name, managed=False) for name in "abcxy")])
    async with reconciling(cluster, journal=str(folder), backoff_base_seconds=600.0) as running:
        cluster.load(*(annotated(f"p{name}", name, size=3, **spec) for name in "abc"))
        await running.heard(GangPlaced)
        cluster.load(*(annotated(f"p{name}", name, size=2, gang="h", **spec) for name in "xy"))
        await cluster.until(lambda: any(one.reason == "GangUnplaced" for one in running.of(Waits)))


def replayed(folder: Path) -> tuple[Tally, list[Again]]:
    seen: list[Again] = []
    return replay(folder, seen=seen.append), seen


def change(folder: Path, edit: Callable[[Any], Any]) -> None:
    """Edit what a journal has after its header."""
    (path,) = paths(folder)
    header, *others = lines(path)
    path.write_bytes(gzip.compress(header + b"".join(encode(edit(decode(line))) for line in others)))


@SPECS
async def test_a_gang_is_decided_again(spec: dict[str, Any], tmp_path: Path):
    await record(tmp_path, **spec)
    tally, seen = replayed(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    gang, other, *_ = [(str(one.then.unit), one.now) for one in seen if one.then.unit.kind == "gang"]
    assert gang[0] == "gang default/annotation/g"
    assert gang[1] is not None
    assert gang[1].node == "n0, n0, n1"
    assert len(gang[1].devices) == 3
    assert other[0] == "gang default/annotation/h"
    assert other[1] is not None
    assert other[1].reason == "GangUnplaced"


@SPECS
async def test_a_device_that_was_given_twice_is_found(spec: dict[str, Any], tmp_path: Path):
    await record(tmp_path, **spec)

    def twice(entry: Any) -> Any:
        if not (isinstance(entry, Answered) and entry.outcome.devices):
            return entry
        first, _, *others = entry.outcome.devices
        return replace(entry, outcome=replace(entry.outcome, devices=(first, first, *others)))

    change(tmp_path, twice)
    tally, _ = replayed(tmp_path)
    (found,) = tally.different
    assert found.now is not None
    assert found.now.devices != found.then.outcome.devices


async def test_a_gang_that_other_nodes_were_chosen_for_is_found(tmp_path: Path):
    """As if a node had been cordoned."""
    await record(tmp_path)

    def cordoned(entry: Any) -> Any:
        if not (isinstance(entry, Changed) and isinstance(entry.object, Node)):
            return entry
        closed = entry.object.spec.model_copy(update={"unschedulable": True})
        return replace(entry, object=entry.object.model_copy(update={"spec": closed}))

    change(tmp_path, cordoned)
    tally, _ = replayed(tmp_path)
    found = [(one.then.outcome.reason, one.now and one.now.reason) for one in tally.different]
    assert found == [("", "GangUnplaced")]
