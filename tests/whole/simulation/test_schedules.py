"""Whatever happens, in whatever order: no device twice, no decision lost."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.control.background_search import BackgroundSearch
from tests.tools.simulation.campaign import EXTENDED, TURNS, main, played
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

Report = Callable[[Mapping[str, int]], None]


def play(report: Report, seed: int, *kinds: str) -> None:
    """Play a schedule, report what it met, and fail with the command that repeats it."""
    outcome = run(seed, *kinds)
    report(outcome.count)
    words = " ".join(f"--kind {kind}" for kind in kinds)
    assert outcome.findings == (), f"replay with: python -m tests.tools.simulation {words} --seed {seed} -v"


@pytest.mark.parametrize("seed", range(IN_MEMORY))
def test_in_memory(seed: int, report: Report):
    play(report, seed)


@pytest.mark.parametrize("seed", range(100, 103))
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


@pytest.mark.parametrize("seed", [*range(GANGS), 2500012, 2500085])  # those two met pools in two generations
def test_with_gangs(seed: int, report: Report):
    """No gang is half written, and none holds devices while it waits."""
    play(report, seed, "gangs")


@pytest.mark.parametrize("seed", range(EVICTIONS))
def test_with_evictions(seed: int, report: Report):
    """Nobody is evicted without need or beyond a budget, and room that is held goes to its owner."""
    play(report, seed, "evictions")


@pytest.mark.parametrize("seed", range(BURSTS))
def test_with_bursts(seed: int, report: Report):
    """Several claims or pods of one template come, and go, at once."""
    play(report, seed, "bursts")


@pytest.mark.parametrize("seed", range(MOVING))
def test_with_moves(seed: int, report: Report):
    """Pods move only if they may, one at a time, and nobody else gets the place that is held."""
    play(report, seed, "moves")


@pytest.mark.parametrize("seed", range(ANNOUNCED))
def test_with_announced_claims(seed: int, report: Report):
    """The policy announces most claims as they are created; what it announced is written in one request."""
    play(report, seed, "announced")


@pytest.mark.parametrize("seed", range(ANNOUNCED_PAIRS))
def test_with_announced_claims_and_two_replicas(seed: int, report: Report):
    play(report, seed, "pair", "announced")


@pytest.mark.parametrize("seed", range(2))
def test_a_seed_gives_the_same_schedule_again(seed: int):
    first, second = run(seed), run(seed)
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
