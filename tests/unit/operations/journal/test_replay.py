"""A journal of a reconciler at work, replayed: the same decisions, whatever happened in between."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import main
from reconciler.control.decider import Decider
from reconciler.control.decisions.allocating import Allocated, Ungated, Waits
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Decide
from reconciler.control.units import Kind, Unit
from reconciler.errors import Rejected
from reconciler.ha.shard import parse_shard
from reconciler.operations.journal.entries import Header, read_change, read_header, write_change
from reconciler.operations.journal.files import entries, paths
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from reconciler.state.nominations import HeldPlace, Nomination, of_claim
from reconciler.state.store import Store
from reconciler.state.trial import load
from tests.tools.builders import claim as plain_claim
from tests.tools.builders import counter_slice, device, held, hold, request, resource_slice, typed
from tests.tools.builders import device_class as plain_class
from tests.tools.builders import node as plain_node
from tests.tools.output_schemas import fitting
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod

OURS = Ownership(alone=True)
HEADER = Header("test", Semantics(), OURS, 1000)


async def test_a_run_is_decided_again_in_the_same_way(tmp_path: Path):
    cluster = Cluster([device_class(), node("a"), node("b"), devices("a", "d0"), devices("b", "d0", "d1")])
    cluster.load(claim("one", 1), claim("shared", 1, managed=False), pod("p", "shared"), claim("big", 5))
    async with reconciling(cluster, journal=str(tmp_path)) as running:
        await running.heard(Ungated)
        await running.heard(Waits)
        await cluster.until(lambda: cluster.devices("one"))
        cluster.delete("one")
        cluster.load(claim("two", 1))
        await cluster.until(lambda: cluster.devices("two"))
    tally = replay(tmp_path)
    assert tally.different == []
    assert tally.unknown == 0
    told = {one.decision_id for one in (*running.of(Allocated), *running.of(Waits)) if one.decision_id}
    written = {raw["id"] for path in paths(tmp_path) for raw in entries(path) if raw["t"] == "decided"}
    assert told <= written
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--explain"])
    assert result.exit_code == 0, result.output
    assert "default/big" in result.output


def world(random: Random) -> list[Any]:
    """Nodes, a class, and slices of a few devices."""
    made = [device_class(), *(node(name) for name in "ab")]
    return [*made, *(devices(name, *(f"d{n}" for n in range(random.randint(1, 3)))) for name in "ab")]


def nomination(random: Random, store: Store) -> Nomination:
    """Some devices, for a claim that may be decided later."""
    fleet = store.snapshot().fleet
    found = tuple(fleet.id_of(row) for row in random.sample(range(fleet.size), 2))
    nominee = of_claim(ObjectKey("default", f"c{random.randrange(6)}"))
    places = (HeldPlace("a", found, (("cpu", 100),)),)
    return Nomination(nominee, places, 0, 1.0, "2026-01-01T12:00:00Z", "uid")


def play(folder: Path, seed: int, *, full: int) -> int:
    """A random history, each claim decided from the present picture or from one of before."""
    random = Random(seed)
    recorder = Recorder(folder, HEADER, full=full, files=1000)
    store, decider = recorder.store, Decider(OURS, steps=1000)
    load(store, map(typed, world(random)))
    made = 0
    for number in range(12):
        name = f"c{random.randint(0, 6)}"
        raw = claim(name, random.randint(1, 3))
        raw["metadata"] |= {"uid": f"{name}-{number}", "resourceVersion": str(number)}
        asked = typed(raw)
        assert isinstance(asked, ResourceClaim)
        before = store.claims.get(asked.key)
        if before is not None:
            store.apply(Removed("ResourceClaim", asked.key))
            continue
        store.apply(Changed("ResourceClaim", asked))
        own = frozenset([of_claim(asked.key)])
        held = nomination(random, store).places if random.random() < 0.3 else ()
        question = Decide((asked,), None, own=own, expected=held[0] if held else None)
        if random.random() < 0.3:
            store.nominate(nomination(random, store))
        elif random.random() < 0.3:
            for one in store.nominations:
                store.end_nomination(one.nominee)
        picture = store.snapshot_for(own)
        if random.random() < 0.4:  # something happens while it is being decided
            store.apply(Changed("DeviceClass", typed(device_class(f"k{number}"))))
        answer = decider.answer(question, picture)
        recorder.decided(f"id-{number}", Unit(Kind.CLAIM, asked.key), question, answer)
        made += 1
        if isinstance(answer, Granted):
            for plan in answer.plans:
                store.assume(plan)
                if random.random() < 0.3:
                    store.forget(plan)
    recorder.close()
    return made


@given(seed=st.integers(0, 10_000), full=st.sampled_from([1, 400, 2_000, 10_000_000]))
def test_every_history_is_decided_again_in_the_same_way(
    tmp_path_factory: pytest.TempPathFactory, seed: int, full: int
):
    folder = tmp_path_factory.mktemp("journal")
    made = play(folder, seed, full=full)
    tally = replay(folder)
    assert tally.different == []
    assert (tally.same, tally.unknown) == (made, 0)


def test_another_answer_is_seen(tmp_path: Path):
    play(tmp_path, 1, full=10_000_000)
    (path,) = paths(tmp_path)
    changed = [{**raw, "node": "elsewhere"} if raw.get("devices") else raw for raw in entries(path)]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(raw) + "\n" for raw in changed)
    assert replay(tmp_path).different
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    assert result.exit_code == 1
    assert "elsewhere" in result.stdout


def test_it_stops_after_the_decision_that_is_named(tmp_path: Path):
    play(tmp_path, 1, full=10_000_000)
    first = next(raw["id"] for raw in entries(paths(tmp_path)[0]) if raw["t"] == "decided")
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--until", first, "-o", "json", "--explain"])
    found = fitting("replay", result.stdout)
    assert (found["same"], len(found["explanations"])) == (1, 1)
    assert CliRunner().invoke(main, ["replay", str(tmp_path), "--until", "none"]).exit_code == 2


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path):
    made = play(tmp_path, 3, full=10_000_000)
    (path,) = paths(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 2 // 3])
    tally = replay(tmp_path)
    assert tally.different == []
    assert tally.same < made


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not gzip", id="not compressed"),
        pytest.param(gzip.compress(b'{"t": "x"}\n'), id="no header"),
        pytest.param(gzip.compress(b"[\n"), id="no JSON"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "journal-000001.jsonl.gz").write_bytes(content)
    with pytest.raises(Rejected):
        replay(tmp_path)


def test_a_new_file_knows_what_held_devices_drew_before_their_slices_changed(tmp_path: Path):
    """A device goes on being charged what it drew; only who saw that slice can know."""

    def gpu(drawn: int) -> list[Any]:
        draws = {"g": {"memory": drawn}}
        content = [device("A", draws=draws), device("B", draws={"g": {"memory": 6}})]
        return [
            resource_slice("s", content, slices=2, nodeName="n"),
            counter_slice("t", {"g": {"memory": 10}}, slices=2, nodeName="n"),
        ]

    recorder = Recorder(tmp_path, HEADER, full=1)
    store, decider = recorder.store, Decider(OURS, steps=1000)
    load(store, map(typed, (plain_class(), plain_node("n"), *gpu(5), held("h", hold("A")), *gpu(1))))
    asked = typed(plain_claim("c", request()))
    assert isinstance(asked, ResourceClaim)
    store.apply(Changed("ResourceClaim", asked))
    question = Decide((asked,), None)
    answer = decider.answer(question, store.snapshot())
    assert not isinstance(answer, Granted), "of 10, 5 are charged, so that 6 are not left"
    recorder.decided("late", Unit(Kind.CLAIM, asked.key), question, answer)
    recorder.close()
    last = paths(tmp_path)[-1]
    assert [raw["device"] for raw in entries(last) if raw["t"] == "remembered"] == [["d", "p", "A"]]
    tally = replay(last)
    assert (tally.same, tally.unknown, tally.different) == (1, 0, [])
    result = CliRunner().invoke(main, ["replay", str(last), "--until", "late", "--explain"])
    assert result.exit_code == 0
    assert "CountersExhausted" in result.stdout


def test_a_decision_from_a_picture_of_the_file_before_is_made_again_and_one_of_another_run_is_not(
    tmp_path: Path,
):
    play(tmp_path, 1, full=1)
    assert replay(tmp_path).unknown == 0
    *_, last = (path for path in paths(tmp_path) if any(raw["t"] == "decided" for raw in entries(path)))
    alone = replay(last)
    assert (alone.same + alone.unknown, alone.different) == (1, [])


def test_the_header_tells_the_shard_and_the_mode_and_is_the_same_when_read(tmp_path: Path):
    ours = replace(OURS, shard=parse_shard("driver=gpu,pool-prefix=a"))
    header = Header("test", Semantics(), ours, 7, settings={"mode": "shadow"})
    recorder = Recorder(tmp_path, header)
    recorder.store.apply(Changed("DeviceClass", typed(device_class())))
    recorder.close()
    read = read_header(next(entries(paths(tmp_path)[0])))
    assert read == recorder.header
    assert (read.ours.shard, read.settings) == (ours.shard, {"mode": "shadow"})
    older = {key: value for key, value in read.to_json().items() if key not in ("shard", "run", "settings")}
    assert read_header(older).ours.shard.whole


def test_the_oldest_files_go(tmp_path: Path):
    recorder = Recorder(tmp_path, HEADER, full=1, files=3)
    for number in range(10):
        recorder.store.apply(Changed("DeviceClass", typed(device_class(f"k{number}"))))
    recorder.close()
    assert len(paths(tmp_path)) == 3


def test_a_disk_that_fails_ends_the_journal_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recorder = Recorder(tmp_path, HEADER)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reconciler.operations.journal.files.Files.write", fail)
    recorder.store.apply(Changed("DeviceClass", typed(device_class())))
    assert recorder.store.snapshot().classes
    recorder.close()


def test_changes_are_the_same_when_they_are_read_again():
    key = ObjectKey("", "x")
    objects = [typed(raw) for raw in (node("a", zone="1"), device_class(), devices("a", "d0"), claim("c"))]
    changes: list[Change] = [Changed(type(thing).__name__, thing) for thing in objects]
    changes += [Removed("Node", key), Refused("Node", key, "why")]
    changes.append(Replaced("Node", (objects[0],), (Refused("Node", key, "why"),), afresh=True))
    assert [read_change(json.loads(json.dumps(write_change(one)))) for one in changes] == changes
