"""A journal of a reconciler at work, replayed: the same decisions, whatever happened in between."""

import gzip
import json
import re
from collections.abc import Callable
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import main
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Allocated, Ungated, Waits
from reconciler.control.handler import Decide
from reconciler.control.inputs import Answered, Asked, Outcome, PoliciesUsed, RetainedDraw
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.errors import Rejected
from reconciler.ha.shard import parse_shard
from reconciler.operations.journal.entries import Header, decode, encode, lines, paths, read_header
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import NoQueue, replay
from reconciler.state.nominations import HeldPlace, Nomination, of_claim
from reconciler.state.store import Store
from tests.tools.builders import claim as plain_claim
from tests.tools.builders import counter_slice, device, held, hold, request, resource_slice
from tests.tools.builders import device_class as plain_class
from tests.tools.builders import node as plain_node
from tests.tools.naive_policies import GPUS
from tests.tools.output_schemas import fitting
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.scenario import asking
from tests.tools.small_fleet import claim, claim_spec, device_class, devices, node, pod
from tests.tools.unit_pictures import claim_unit, key, typed

OURS = Ownership(all_claims=True, alone=True)


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
    ids = {one.id for path in paths(tmp_path) for one in written(path) if isinstance(one, Answered)}
    assert told <= ids
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
    return Nomination(nominee, places, 0, inf, "2026-01-01T12:00:00Z", "uid")


class Recorded:
    """An intake with a journal, and what decides on it."""

    def __init__(self, folder: Path, *, full: int = 10_000_000, files: int = 1000, **header: Any) -> None:
        self.recorder = Recorder(
            folder, Header("test", Semantics(), OURS, 1000, **header), full=full, files=files
        )
        self.intake = Intake(Store(Semantics()), NoQueue(), (), lambda _: None, journal=self.recorder.note)
        self.store = store = self.intake.store
        self._planner = Planner(store, self.intake.roster, self.intake.placement, OURS, ())
        self._decider = Decider(OURS, steps=1000)
        self.made = 0

    def see(self, *raws: Any) -> None:
        for raw in raws:
            self.intake.take(Changed(raw["kind"], typed(raw)))

    def decide(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> Granted | Refusal | None:
        """The answer for a claim, if it needs one. `meanwhile` happens while a thread searches."""
        unit = claim_unit(name)
        question = self._planner.next(unit)
        if not isinstance(question, Decide):
            return None
        self.intake.note(Asked((unit,)))
        answer = self._decider.answer(question, self.store.snapshot_for(question.own))
        meanwhile()
        outcome = Outcome((question.claims[0].key,), "" if isinstance(answer, Granted) else answer.reason)
        if isinstance(answer, Granted):
            outcome = Outcome.of(answer.node, answer.plans)
        self.made += 1
        self.intake.note(Answered(f"id-{self.made}", unit, outcome))
        return answer


def play(folder: Path, seed: int, *, full: int = 10_000_000) -> int:
    """A random history, each claim decided from the present state or from one of before."""
    random = Random(seed)
    run = Recorded(folder, full=full)
    intake, store = run.intake, run.store
    run.see(*world(random))
    for number in range(12):
        name = f"c{random.randint(0, 6)}"
        known = store.claims.get(key(name))
        if known is not None:
            intake.take(Removed("ResourceClaim", known.key))
            continue
        raw = claim(name, random.randint(1, 3))
        raw["metadata"] |= {"uid": f"{name}-{number}", "resourceVersion": str(number)}
        run.see(raw)
        if random.random() < 0.3:
            intake.nominating.hold(nomination(random, store), "")
        elif random.random() < 0.3:
            for one in store.nominations:
                intake.nominating.drop(one.nominee, "")
        others = [device_class(f"k{number}"), devices("c", *(f"d{n}" for n in range(number)))]
        answer = run.decide(name, lambda: run.see(*others) if random.random() < 0.4 else None)  # noqa: B023
        if isinstance(answer, Granted):
            for plan in answer.plans:
                intake.assume(plan)
                if random.random() < 0.3:
                    intake.forget(plan)
    run.recorder.close()
    return run.made


@given(seed=st.integers(0, 10_000), full=st.sampled_from([1, 400, 2_000, 10_000_000]))
def test_every_history_is_decided_again_in_the_same_way(
    tmp_path_factory: pytest.TempPathFactory, seed: int, full: int
):
    folder = tmp_path_factory.mktemp("journal")
    made = play(folder, seed, full=full)
    tally = replay(folder)
    assert tally.different == []
    assert (tally.same, tally.unknown) == (made, 0)


def written(path: Path) -> list[Any]:
    """What a file has after its header."""
    return [decode(line) for line in lines(path)][1:]


def test_another_answer_is_seen(tmp_path: Path):
    play(tmp_path, 1)
    (path,) = paths(tmp_path)
    text = gzip.decompress(path.read_bytes())
    changed = re.sub(rb'"reason":"","node":"."', b'"reason":"","node":"elsewhere"', text)
    assert changed != text
    path.write_bytes(gzip.compress(changed))
    assert replay(tmp_path).different
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    assert result.exit_code == 1
    assert "elsewhere" in result.stdout


def test_it_stops_after_the_decision_that_is_named(tmp_path: Path):
    play(tmp_path, 1)
    first = next(one.id for one in written(paths(tmp_path)[0]) if isinstance(one, Answered))
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--until", first, "-o", "json", "--explain"])
    found = fitting("replay", result.stdout)
    assert (found["same"], len(found["explanations"])) == (1, 1)
    assert CliRunner().invoke(main, ["replay", str(tmp_path), "--until", "none"]).exit_code == 2


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path):
    made = play(tmp_path, 3)
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

    run = Recorded(tmp_path, full=1)
    run.see(
        plain_class(), plain_node("n"), *gpu(5), held("h", hold("A")), *gpu(1), plain_claim("c", request())
    )
    assert not isinstance(run.decide("c"), Granted), "of 10, 5 are charged, so that 6 are not left"
    run.recorder.close()
    asked, *_ = [path for path in paths(tmp_path) if any(isinstance(one, Asked) for one in written(path))]
    assert [one.device for one in written(asked) if isinstance(one, RetainedDraw)] == [("d", "p", "A")]
    tally = replay(tmp_path)
    assert (tally.same, tally.unknown, tally.different) == (1, 0, [])
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--until", "id-1", "--explain"])
    assert result.exit_code == 0
    assert "CountersExhausted" in result.stdout


def test_a_decision_that_was_asked_for_in_the_file_before_is_made_again_and_one_of_another_run_is_not(
    tmp_path: Path,
):
    play(tmp_path, 1, full=1)
    assert replay(tmp_path).unknown == 0
    *_, last = (path for path in paths(tmp_path) if any(isinstance(one, Answered) for one in written(path)))
    alone = replay(last)
    assert (alone.same + alone.unknown, alone.different) == (1, [])


def test_the_header_tells_the_shard_and_the_mode_and_is_the_same_when_read(tmp_path: Path):
    ours = replace(OURS, shard=parse_shard("driver=gpu,pool-prefix=a"))
    header = Header("test", Semantics(), ours, 7, settings={"mode": "shadow"})
    assert read_header(encode(header)) == header


def test_a_journal_of_an_earlier_release_names_the_one_that_reads_it():
    with pytest.raises(Rejected, match=r"format 1: dra-reconciler 0\.3\.0 reads it"):
        read_header(b'{"t":"header","format":1,"program":"0.2.0"}\n')


def test_the_oldest_files_go(tmp_path: Path):
    run = Recorded(tmp_path, full=1, files=3)
    for number in range(10):
        run.see(device_class(f"k{number}"))
    run.recorder.close()
    assert len(paths(tmp_path)) == 3


def test_a_disk_that_fails_ends_the_journal_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = Recorded(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reconciler.operations.journal.entries.Files.write", fail)
    run.see(device_class())
    assert run.store.snapshot().classes
    run.recorder.close()


def test_an_object_that_has_no_json_ends_the_journal_and_nothing_else(tmp_path: Path):
    run = Recorded(tmp_path)
    odd = device_class()
    odd["metadata"]["annotations"] = {"note": "\ud800"}
    run.see(odd)
    assert run.store.snapshot().classes
    run.recorder.close()


def test_heartbeats_of_nodes_are_not_recorded(tmp_path: Path):
    run = Recorded(tmp_path)
    for version, zone in enumerate("aab"):
        raw = node("n", zone=zone)
        raw["metadata"]["resourceVersion"] = str(version)
        run.see(raw)
    run.recorder.close()
    (path,) = paths(tmp_path)
    seen = [one for one in written(path) if isinstance(one, Changed)]
    assert [one.object.metadata.labels["zone"] for one in seen] == ["a", "b"]


def test_environments_of_pods_are_not_recorded(tmp_path: Path):
    run = Recorded(tmp_path)
    secret = pod("p")
    secret["spec"]["containers"] = [{"name": "c", "env": [{"name": "TOKEN", "value": "hidden"}]}]
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(secret), "kept": "x"}
    run.see({**secret, "metadata": {**secret["metadata"], "annotations": applied}})
    run.recorder.close()
    (path,) = paths(tmp_path)
    assert [type(one) for one in written(path)] == [PoliciesUsed, Changed]
    text = gzip.decompress(path.read_bytes())
    assert b"hidden" not in text
    assert b'"annotations":{"kept":"x"}' in text


def test_changes_are_the_same_when_they_are_read_again():
    gone = ObjectKey("", "x")
    objects = [typed(raw) for raw in (node("a", zone="1"), device_class(), devices("a", "d0"), claim("c"))]
    changes: list[Change] = [Changed(type(thing).__name__, thing) for thing in objects]
    changes += [Removed("Node", gone), Refused("Node", gone, "why")]
    changes.append(Replaced("Node", (objects[0],), (Refused("Node", gone, "why"),), afresh=True))
    assert [decode(encode(one)) for one in changes] == changes


def test_every_file_has_a_beginning_if_policies_change_when_one_is_full(tmp_path: Path):
    run = Recorded(tmp_path, full=1)
    for number in range(3):
        run.see(device_class(f"k{number}"))
        run.recorder.use(Policies(seed=number + 1))
    run.recorder.close()
    seeds = [
        [one.policies.seed for one in written(path) if isinstance(one, PoliciesUsed)]
        for path in paths(tmp_path)
    ]
    assert seeds == [[0, 1], [1, 2], [2, 3]]


def test_a_unit_that_needs_nothing_when_it_is_decided_again_is_different(tmp_path: Path):
    """Not unknown: its inputs are in the journal."""
    run = Recorded(tmp_path)
    run.see(*world(Random(1)), claim("c"))
    run.decide("c")
    run.intake.note(Asked((claim_unit("other"),)))
    run.intake.note(Answered("id-2", claim_unit("other"), Outcome(reason="InsufficientDevices")))
    run.recorder.close()
    tally = replay(tmp_path)
    assert (tally.same, tally.unknown, [one.then.id for one in tally.different]) == (1, 0, ["id-2"])


# -- The journal names the placement policy of each decision, and replay decides by it or by another.


SHAPE = Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 7, 3)


async def test_decisions_name_their_policy_in_journal_and_log(tmp_path: Path):
    demand = tmp_path / "demand.json"
    demand.write_text(Demand((SHAPE,)).to_json())
    cluster = Cluster([*GPUS, claim("c"), claim("d"), asking("p", "d", cpu="1")])
    flags: dict[str, Any] = {"policy": ["expected-fill"], "demand": demand}
    async with reconciling(cluster, journal=str(tmp_path / "journal"), **flags) as running:
        await running.heard(Allocated, 2)
    assert {one.policy for one in running.of(Allocated)} == {"expected-fill"}
    written = [decode(line) for path in paths(tmp_path / "journal") for line in lines(path)]
    answers = [one.outcome for one in written if isinstance(one, Answered)]
    assert {one.policy for one in answers if not one.reason} == {"expected-fill"}
    (used,) = [one.policies for one in written if isinstance(one, PoliciesUsed)]
    assert used == Policies(parse_policies(["expected-fill"]), Demand((SHAPE,)))
    assert replay(tmp_path / "journal").different == []


async def test_replay_compares_with_another_policy(tmp_path: Path):
    cluster = Cluster([*GPUS, claim("c")])
    async with reconciling(cluster, journal=str(tmp_path), policy=["best-fit"]) as running:
        await running.heard(Allocated, 1)
    assert replay(tmp_path).different == []
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--policy", "first-fit", "-o", "json"])
    assert result.exit_code == 1
    (different,) = json.loads(result.stdout)["different"]
    assert (different["then"]["node"], different["now"]["node"]) == ("b", "a")
