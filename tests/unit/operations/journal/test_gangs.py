"""Decisions about gangs in a journal, and in its replay."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.places import gang_nodes
from reconciler.allocation.policies.selection import PLAIN
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.gangs import GangRules
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import GangPlaced
from reconciler.control.gangs.planner import Seats, Solve
from reconciler.operations.journal.files import entries, paths
from reconciler.operations.journal.gangs import decided_again, read_gang, write_gang
from reconciler.operations.journal.replaying import Again, Tally, replay
from tests.tools.examples import examples
from tests.tools.gang_world import GangWorld, crowded_worlds, gang_worlds, varied_worlds
from tests.tools.gangs import annotated
from tests.tools.pod_scenarios import apart, term
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import Object, claim, device_class, devices, node


async def recorded(folder: Path, **spec: Any) -> list[dict[str, Any]]:
    """A gang that is placed, and one that does not fit; the entries about them. `spec` is for all pods."""
    fleet = [device_class(), node("n0"), node("n1"), devices("n0", "d0", "d1"), devices("n1", "d0")]
    cluster = Cluster([*fleet, *(claim(name, managed=False) for name in "abcxy")])
    async with reconciling(cluster, journal=str(folder), backoff_base_seconds=600.0) as running:
        cluster.load(*(annotated(f"p{name}", name, size=3, **spec) for name in "abc"))
        await running.heard(GangPlaced)
        cluster.load(*(annotated(f"p{name}", name, size=2, gang="h", **spec) for name in "xy"))
        await cluster.until(lambda: any(one.reason == "GangUnplaced" for one in running.of(Waits)))
    return [raw for path in paths(folder) for raw in entries(path) if raw["t"] == "gang"]


def replayed(folder: Path) -> tuple[Tally, list[Again]]:
    seen: list[Again] = []
    return replay(folder, seen=seen.append), seen


async def test_a_gang_is_decided_again(tmp_path: Path):
    placed, refused, *_ = await recorded(tmp_path)
    assert (placed["reason"], refused["reason"]) == ("", "GangUnplaced")
    tally, seen = replayed(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    gang, other, *_ = [again.then for again in seen if again.then.unit.startswith("gang ")]
    assert (gang.unit, gang.node) == ("gang default/g", "n0, n1")
    assert len(gang.devices) == 3
    assert (other.unit, other.reason) == ("gang default/h", "GangUnplaced")


async def test_of_a_gang_whose_pods_mind_one_another_only_the_devices_are_checked(tmp_path: Path):
    placed, refused, *_ = await recorded(tmp_path, **apart(term("kubernetes.io/arch")))
    assert "sees" not in placed
    assert refused["reason"] == "GangUnplaced"
    tally, seen = replayed(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    (gang,) = [again.then for again in seen if again.then.unit.startswith("gang ")]
    assert (gang.unit, gang.node) == ("gang default/g", "n0, n1")


@pytest.mark.parametrize("spec", [{}, apart(term("kubernetes.io/arch"))], ids=["again", "checked"])
async def test_a_device_that_was_given_twice_is_found(tmp_path: Path, spec: Object):
    placed, *_ = await recorded(tmp_path, **spec)
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
    assert found.now.reason or found.now.devices != found.then.devices


async def test_a_gang_that_other_nodes_were_chosen_for_is_found(tmp_path: Path):
    """As if there had been less room on a node."""
    await recorded(tmp_path)
    (path,) = paths(tmp_path)
    text = gzip.decompress(path.read_bytes()).decode()
    changed = text.replace('"free":{"pods":[', '"free":{"pods":[-')
    assert changed != text
    path.write_bytes(gzip.compress(changed.encode()))
    tally, _ = replayed(tmp_path)
    assert [(found.then.reason, found.now and found.now.reason) for found in tally.different] == [
        ("", "GangUnplaced")
    ]


@examples(60)
@given(st.one_of(gang_worlds(), crowded_worlds(), varied_worlds()))
def test_what_a_gang_saw_of_nodes_gives_the_same_answer(world: GangWorld):
    trial, question = world.trial(), world.question()
    for member in question.members:
        for one in member.claims:
            trial.store.apply(Changed("ResourceClaim", one))
    picture = gang_nodes(question, trial)
    minds = any(pod.apart or pod.beside or pod.even for pod in world.pods)
    assert (picture is None) == minds
    if picture is None:
        return
    with trial:
        answer = decide_gang(question, trial, steps=5_000, budget=UNLIMITED)
    solve = Solve(question, GangRules(question.least, question.tiers), Seats(question.gang))
    raw = json.loads(json.dumps(write_gang("d", solve, answer, picture)))
    then = read_gang(raw)
    assert then is not None
    now = decided_again(raw, then, trial.store, steps=5_000, restricted=lambda one: one, policies=PLAIN)
    assert now == then
