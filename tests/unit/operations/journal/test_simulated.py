"""Journals of simulated runs, with turmoil, deaths and slices that change under holds, decided again."""

from pathlib import Path

import pytest

from reconciler.app.control import recording as begin
from reconciler.control import background_search
from reconciler.control.gangs import search as gang_search
from reconciler.operations.journal.files import paths
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from tests.tools.simulation import schedule
from tests.tools.simulation.configured import SETTINGS

FULL = 20_000
"""Bytes after which a file is followed by the next one: most runs have several"""
RUNS = [
    *[pytest.param(seed, {}, id=f"claims and pods {seed}") for seed in range(6)],
    *[
        pytest.param(seed, {what: True}, id=f"{what} {seed}")
        for what in ("gangs", "bursts", "evictions", "moves", "announced")
        for seed in range(2)
    ],
]


def run(seed: int, folder: Path, what: dict[str, bool], patch: pytest.MonkeyPatch) -> None:
    """Play a schedule with a journal."""
    patch.setattr(schedule, "SETTINGS", SETTINGS.model_copy(update={"journal": str(folder)}))

    def recording(*of: object) -> Recorder | None:
        made = begin(*of)  # type: ignore[arg-type]
        return made and Recorder(folder, made.header, full=FULL, files=1_000_000)

    patch.setattr("reconciler.app.build.recording", recording)
    outcome = schedule.run(seed, **what)  # type: ignore[arg-type]
    assert outcome.findings == ()


@pytest.mark.parametrize(("seed", "what"), RUNS)
def test_a_run_is_decided_again_in_the_same_way(
    seed: int, what: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The whole journal, and each of its files alone: it says all that decisions were made from by then."""
    run(seed, tmp_path, what, monkeypatch)
    whole = replay(tmp_path)
    assert (whole.different, whole.unknown) == ([], 0)
    assert whole.same
    for path in paths(tmp_path)[1:]:
        assert replay(path).different == []


@pytest.mark.parametrize("what", [{}, {"gangs": True}], ids=["claims and pods", "gangs"])
def test_what_threads_searched_is_decided_again_from_where_they_began(
    what: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for searching in (background_search, gang_search):
        monkeypatch.setattr(searching, "QUICK_STEPS", 0)
    run(3, tmp_path, what, monkeypatch)
    whole = replay(tmp_path)
    assert (whole.different, whole.unknown) == ([], 0)
    assert whole.same
