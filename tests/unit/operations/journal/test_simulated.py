"""Journals of simulated runs, with turmoil, deaths and slices that change under holds, decided again."""

from pathlib import Path

import pytest

from reconciler.app.control import recording as begin
from reconciler.operations.journal.files import paths
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import Tally, replay
from tests.tools.simulation import schedule
from tests.tools.simulation.configured import SETTINGS

SEEDS = range(12)


def journal(seed: int, folder: Path, patch: pytest.MonkeyPatch, *, full: int) -> Tally:
    """What a replay of a simulated run comes to, whose files are full early."""
    settings = SETTINGS.model_copy(update={"journal": str(folder)})
    patch.setattr(schedule, "SETTINGS", settings)

    def recording(*of: object) -> Recorder | None:
        made = begin(*of)  # type: ignore[arg-type]
        assert made is not None
        return Recorder(folder, made.header, full=full, files=1_000_000)

    patch.setattr("reconciler.app.build.recording", recording)
    outcome = schedule.run(seed)
    assert outcome.findings == ()
    return replay(folder)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_whose_journal_is_rotated_is_decided_again_in_the_same_way(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tally = journal(seed, tmp_path, monkeypatch, full=20_000)
    assert tally.different == []
    assert tally.unknown == 0
    assert tally.same


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_each_file_alone_is_decided_again_in_the_same_way(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A journal that begins in the middle of a run says all that decisions were made from by then."""
    journal(seed, tmp_path, monkeypatch, full=20_000)
    for path in paths(tmp_path)[1:]:
        tally = replay(path)
        assert tally.different == []
