"""Says at the end of a run how many schedules were played, and what they met."""

from collections import Counter
from typing import Any

import pytest

REPORTED = "simulation"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Reports come from all workers; each schedule that was played has one with its counts."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    counts = [
        dict(value)
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", ())
        if name == REPORTED
    ]
    if not counts:
        return
    total = sum(map(Counter, counts), Counter[str]())
    terminalreporter.section("simulation")
    terminalreporter.write_line(f"{len(counts)} schedules")
    terminalreporter.write_line(", ".join(f"{name}: {number}" for name, number in sorted(total.items())))


@pytest.fixture
def report(record_property: Any) -> Any:
    """Takes the counts of a schedule."""
    return lambda counts: record_property(
        REPORTED, [(str(name), number) for name, number in sorted(counts.items())]
    )
