"""Result files are read as they were written, and drawn."""

from io import StringIO

import pytest
from rich.console import Console

from docs import main_results
from perf.page import page
from perf.printing import run_table
from perf.results import ROOT, Calibration, Machine, Report, Run, latest, load, save, summed_up
from perf.workload import Curve, Figure, Outcome


def a_report(rate=100.0, seconds=2.0, oracle=()):
    outcomes = [
        Outcome([Figure("claims/s", rate * turn, "/s", "more"), Figure("load", seconds / turn, "s")])
        for turn in (1, 2, 3)
    ]
    run = Run(
        workload="mig-multi",
        case="",
        size={"nodes": 2},
        calibration=Calibration(0.1, 30.0),
        peak_mib=(100.0, 101.0, 99.0),
        figures=summed_up(outcomes),
        curves=(Curve("growth", "nodes", "us", [(1.0, 2.0), (2.0, 4.0)]),),
        oracle=summed_up([Outcome(oracle)]),
    )
    machine = Machine("cpu", 2, 24.0, "Linux", "3.11", "2.4", "2.14")
    return Report(began="2026-01-01T00:00:00+00:00", commit="abc", machine=machine, runs=(run,))


def printed(thing):
    out = StringIO()
    console = Console(width=200, file=out)
    console.print(thing)
    return out.getvalue()


def test_figures_are_summed_up_over_repeats_with_the_worst_as_p99():
    rate, seconds = a_report().runs[0].figures
    assert (rate.median, seconds.median) == (200.0, 1.0)
    assert (rate.worst, seconds.worst) == (100.0, 2.0)
    assert rate.p99 == pytest.approx(102.0)
    assert seconds.p99 == pytest.approx(1.98)


def test_a_result_file_is_read_as_it_was_written(tmp_path):
    save(a_report(), tmp_path / "results.json")
    assert load(tmp_path / "results.json") == a_report()


def test_the_figures_of_the_same_run_stand_beside_ours():
    report = a_report(oracle=[Figure("claims/s", 20.0, "/s", "more"), Figure("load", 4.0, "s")])
    rows = printed(run_table(report.runs[0])).splitlines()
    assert "worst" in rows[0]
    assert any("claims/s" in row and "20" in row and "10.0x" in row for row in rows)
    assert any("load" in row and "4.0x" in row for row in rows)


def test_without_an_oracle_its_column_is_empty():
    assert not any("x" in row.split()[-1] for row in printed(run_table(a_report().runs[0])).splitlines()[1:])


def test_results_are_drawn_one_file_a_picture(tmp_path):
    plots = pytest.importorskip("perf.plots", reason="matplotlib comes with the extra `perf`")
    asked = a_report(rate=50.0, oracle=[Figure("claims/s", 20.0, "/s", "more")])
    paths = plots.draw([a_report(), asked], tmp_path / "plots", "svg")
    assert [path.name for path in paths] == ["against-kubernetes.svg", "mig-multi-growth.svg"]
    assert all(path.read_text("utf-8").startswith("<?xml") for path in paths)


def test_the_page_has_the_latest_of_each_case_and_every_figure():
    asked = a_report(oracle=[Figure("claims/s", 20.0, "/s", "more")])
    made = page([a_report(rate=1.0), asked])
    assert made.count("## mig-multi") == 1
    assert "| claims/s | 200 | 102 | 100 | /s | 20 | 10.0x |" in made
    assert "| load | 1 | 1.98 | 2 | s |  |  |" in made


def test_the_page_is_made_of_the_files_that_are_kept():
    kept = sorted((ROOT / "perf" / "kept").glob("*.json"))
    made = page([load(file) for file in kept])
    assert (ROOT / "perf" / "RESULTS.md").read_text() == made, "run `make docs`"
    assert main_results.PAGE.read_text() == main_results.page(), "run `make docs`"


def test_the_newest_run_of_a_case_counts():
    old = a_report(rate=1.0).model_copy(update={"began": "2025-01-01T00:00:00+00:00"})
    assert [report.began for report, _ in latest([a_report(), old])] == ["2026-01-01T00:00:00+00:00"]


def test_every_main_result_is_one_of_the_newest_figures():
    table = main_results.table([load(file) for file in main_results.KEPT.glob("*.json")])
    assert len(table.splitlines()) == 2 + len(main_results.HIGHLIGHTS)
