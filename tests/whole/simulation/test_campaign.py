"""A campaign goes on where it was stopped, and plays each kind often enough."""

import json
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from tests.tools.simulation.campaign import TURNS, main, played


def test_gangs_evictions_and_moves_are_a_tenth_each_and_every_kind_is_played():
    shares = Counter(TURNS)
    assert min(shares[kind] for kind in ("gangs", "evictions", "moves")) >= len(TURNS) / 10
    assert set(shares) == {"", "gangs", "evictions", "moves", "pair", "sockets", "bursts", "announced"}


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
