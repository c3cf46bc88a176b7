"""Whatever happens, in whatever order: no device twice, no decision lost."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.app.control import recording
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.gangs.search import GangSearch
from reconciler.operations.journal.entries import paths
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from tests.tools.simulation import schedule
from tests.tools.simulation.campaign import EXTENDED, TURNS, main, played
from tests.tools.simulation.configured import SETTINGS
from tests.tools.simulation.schedule import (
    ANNOUNCED,
    ANNOUNCED_PAIRS,
    BURSTS,
    EVICTIONS,
    GANGS,
    IN_MEMORY,
    MOVING,
    OVER_SOCKETS,
    PAIRS,
    run,
)
from tests.tools.tuned import changed

Report = Callable[[Mapping[str, int]], None]


def play(report: Report, seed: int, *kinds: str) -> None:
    """Play a schedule, report what it met, and fail with the command that repeats it."""
    outcome = run(seed, *kinds)
    report(outcome.count)
    words = " ".join(f"--kind {kind}" for kind in kinds)
    assert outcome.findings == (), f"replay with: python -m tests.tools.simulation {words} --seed {seed} -v"


@pytest.mark.parametrize("seed", range(2, IN_MEMORY))
def test_in_memory(seed: int, report: Report):
    play(report, seed)


@pytest.mark.parametrize("seed", range(101, 103))
def test_where_every_search_is_long(seed: int, report: Report, monkeypatch: pytest.MonkeyPatch):
    """Each goes to a thread, and the world goes on meanwhile."""
    monkeypatch.setattr(BackgroundSearch, "quick_steps", 0)
    play(report, seed)


@pytest.mark.parametrize("seed", range(OVER_SOCKETS))
def test_over_sockets(seed: int, report: Report):
    """By way of HTTP, whose connections break and whose answers come in pieces."""
    play(report, seed, "sockets")


@pytest.mark.parametrize("seed", range(PAIRS))
def test_with_two_replicas_that_both_would_like_to_lead(seed: int, report: Report):
    """Clocks and delays are within the bounds that are stated; one or both are cut off now and then."""
    play(report, seed, "pair")


# The last two met pools in two generations.
@pytest.mark.parametrize("seed", [*range(1, GANGS), 2500012, 2500085])
def test_with_gangs(seed: int, report: Report):
    """No gang is half written, and none holds devices while it waits."""
    play(report, seed, "gangs")


@pytest.mark.parametrize("seed", range(1, EVICTIONS))
def test_with_evictions(seed: int, report: Report):
    """Nobody is evicted without need or beyond a budget, and room that is held goes to its owner."""
    play(report, seed, "evictions")


@pytest.mark.parametrize("seed", range(1, BURSTS))
def test_with_bursts(seed: int, report: Report):
    """Several claims or pods of one template come, and go, at once."""
    play(report, seed, "bursts")


@pytest.mark.parametrize("seed", range(1, MOVING))
def test_with_moves(seed: int, report: Report):
    """Pods move only if they may, one at a time, and nobody else gets the place that is held."""
    play(report, seed, "moves")


@pytest.mark.parametrize("seed", range(1, ANNOUNCED))
def test_with_announced_claims(seed: int, report: Report):
    """The policy announces most claims as they are created; what it announced is written in one request."""
    play(report, seed, "announced")


@pytest.mark.parametrize("seed", range(ANNOUNCED_PAIRS))
def test_with_announced_claims_and_two_replicas(seed: int, report: Report):
    play(report, seed, "pair", "announced")


# -- The first seeds of each kind, with a journal. What it says is decided again in the same way.


FULL = 20_000
"""Bytes after which a file is followed by the next one: most runs have several"""


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which schedules keep a journal of many small files."""

    def begin(*of: object) -> Recorder | None:
        made = recording(*of)  # type: ignore[arg-type]
        return made and Recorder(tmp_path, made.header, full=FULL, files=1_000_000)

    monkeypatch.setattr(schedule, "SETTINGS", changed(SETTINGS, journal=str(tmp_path)))
    monkeypatch.setattr("reconciler.app.lifecycle.recording", begin)
    return tmp_path


def decided_again(journal: Path) -> None:
    whole = replay(journal)
    assert (whole.different, whole.unknown) == ([], 0)
    assert whole.same


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [(0, []), (1, []), *((0, [kind]) for kind in ("gangs", "bursts", "evictions", "moves", "announced"))],
)
def test_a_run_is_decided_again(seed: int, kinds: list[str], journal: Path, report: Report):
    """The whole journal, and some of its files alone: each says all that decisions were made from by then."""
    play(report, seed, *kinds)
    decided_again(journal)
    for path in paths(journal)[1::3]:
        assert replay(path).different == []


@pytest.mark.parametrize(("seed", "kinds"), [(100, []), (3, ["gangs"])])
def test_what_threads_searched_is_decided_again_from_where_they_began(
    seed: int, kinds: list[str], journal: Path, report: Report, monkeypatch: pytest.MonkeyPatch
):
    for searching in (BackgroundSearch, GangSearch):
        monkeypatch.setattr(searching, "quick_steps", 0)
    play(report, seed, *kinds)
    decided_again(journal)


def test_a_seed_gives_the_same_schedule_again():
    first, second = run(0), run(0)
    assert (first.count, first.seconds) == (second.count, second.seconds)


# -- A campaign goes on where it was stopped, and plays each kind often enough.


def test_gangs_evictions_and_moves_are_a_tenth_each_and_every_kind_is_played():
    shares = Counter(TURNS)
    assert min(shares[kind] for kind in ("gangs", "evictions", "moves")) >= len(TURNS) / 10
    assert set(shares) == {
        "",
        "gangs",
        "evictions",
        "moves",
        "pair",
        "sockets",
        "bursts",
        "announced",
        EXTENDED,
    }


def test_a_record_that_was_cut_off_is_played_on(tmp_path: Path):
    record = tmp_path / "record"

    def play(schedules: int) -> list[int]:
        result = CliRunner().invoke(main, [str(record), "--schedules", str(schedules), "--processes", "1"])
        assert result.exit_code == 0, result.output
        assert f"{schedules} schedules, 0 with findings" in result.output
        return [line["seed"] for line in played(record)]

    first = play(2)
    record.write_text(record.read_text()[:-9])
    assert play(3) == [*first, first[-1] + 1]
    assert json.loads(record.read_text().splitlines()[1])["kind"] == "gangs"
