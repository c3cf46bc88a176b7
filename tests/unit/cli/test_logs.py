"""`dra-reconciler logs`, on lines as `run` writes them."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import main
from reconciler.cli.logs import Reader, latencies
from reconciler.cli.options import Clock

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""The time of the command"""


def line(event: str, *, ago: float = 0.0, level: str = "info", **fields: Any) -> str:
    stamp = (NOW - timedelta(seconds=ago)).isoformat().replace("+00:00", "Z")
    return json.dumps({"timestamp": stamp, "level": level, "logger": "x", "event": event, **fields})


def allocated(claim: str, milliseconds: float, **more: Any) -> str:
    fields = {"devices": ["d/p/x"], "node": "n", "duration_ms": milliseconds, "steps": 1, **more}
    return line("claim allocated", claim=claim, decision_id=f"id-{claim}", **fields)


def pending(*claims: str, reason: str = "DevicesInUse", **more: Any) -> str:
    return line("claim pending", claims=list(claims), reason=reason, message="m", decision_id="id-w", **more)


LINES = [
    line("reconciling", kinds=["Pod"], ago=7200),
    pending("default/a", ago=3600),
    pending("default/b", reason="CountersExhausted"),
    allocated("default/a", 4.0),
    allocated("other/c", 80.5),
    line("reconcile will be retried", unit="claim default/a", cause="conflict", error="409", pause=0.1),
    line("reconcile will be retried", unit="pod default/p", cause="retry", error="503", pause=0.1),
    line(
        "device held twice", device="d/p/x", claims=["default/a", "other/c"], decision_id="z", level="warning"
    ),
    "plain text of another program",
    '{"event": "claim allocated"}',
]


def run(*arguments: str, lines: list[str] = LINES) -> Result:
    text = "\n".join(lines) + "\n"
    return CliRunner().invoke(main, ["logs", "-", *arguments], input=text, obj=Clock(lambda: NOW))


def test_the_summary_counts_reasons_latencies_repetitions_and_problems():
    result = run("-o", "json")
    found = json.loads(result.stdout)
    assert found["refusals"] == {"DevicesInUse": 1, "CountersExhausted": 1}
    assert found["waiting"] == {"CountersExhausted": 1}
    assert found["latency_ms"] == {"p50": 4.0, "p90": 80.5, "p99": 80.5, "max": 80.5}
    assert [one["claim"] for one in found["slowest"]] == ["other/c", "default/a"]
    assert found["repeated"] == {"conflict": 1, "retry": 1}
    assert found["problems"] == {"device held twice": 1}
    assert "skipped 2 lines that dra-reconciler did not write" in result.stderr


def test_the_table_says_the_same():
    text = run().stdout
    for part in (
        "2 claims allocated, 1 still pending",
        "p50 4 ms",
        "reconciles retried: 1 conflict, 1 retry",
        "CountersExhausted  1         1",
        "80.5 ms",
        "device held twice",
    ):
        assert part in text


def test_a_deleted_claim_waits_no_longer_and_ends_its_timeline():
    gone = line("claim deleted", claim="default/b", devices=[])
    lines = [
        pending("default/b", pod="default/p"),
        gone,
        line("pod ungated", pod="default/p", claims=["default/a"]),
    ]
    assert run(lines=lines).stdout.startswith("0 claims allocated, 1 deleted, 0 still pending\n")
    events = [
        json.loads(text)["event"]
        for text in run("--claim", "b", "-o", "json", lines=lines).stdout.splitlines()
    ]
    assert events == ["claim pending", "claim deleted"]
    events = [
        json.loads(text)["event"] for text in run("--pod", "p", "-o", "json", lines=lines).stdout.splitlines()
    ]
    assert events == ["claim pending", "claim deleted", "pod ungated"], "the end of a claim names no pod"


@pytest.mark.parametrize("name", ["a", "default/a"])
def test_a_claim_has_a_timeline(name: str):
    found = [json.loads(text)["event"] for text in run("--claim", name, "-o", "json").stdout.splitlines()]
    assert found == ["claim pending", "claim allocated", "reconcile will be retried", "device held twice"]
    documents = yaml.safe_load_all(run("--claim", name, "-o", "yaml").stdout)
    assert [one["event"] for one in documents] == found
    rows = run("--claim", name).stdout.splitlines()
    assert [row.split("  ")[1] for row in rows[1:]] == found


def test_lines_are_filtered_by_reason_time_and_duration():
    def events(*options: str) -> list[str]:
        return [json.loads(text)["event"] for text in run(*options, "-o", "json").stdout.splitlines()]

    assert events("--reason", "DevicesInUse") == ["claim pending"]
    assert events("--slow", "50ms") == ["claim allocated"]
    assert events("--claim", "a", "--since", "10m")[0] == "claim allocated"
    assert events("--claim", "a", "--since", "1h")[0] == "claim pending"
    assert events("--claim", "a", "--since", "59m")[0] == "claim allocated"


def test_the_age_of_lines_uses_the_system_clock_by_default():
    stamp = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    text = json.dumps({"timestamp": stamp, "level": "info", "event": "stopped"})

    def code(since: str) -> int:
        return CliRunner().invoke(main, ["logs", "-", "--since", since], input=text).exit_code

    assert [code("23h"), code("2d")] == [1, 0]


def test_control_characters_in_lines_are_escaped():
    assert "\x1b" not in run("--claim", "a", lines=[pending("default/a", pod="\x1b[2J")]).stdout


@pytest.mark.parametrize("text", ["10", "ten", "5 m", "-3s", ""])
def test_an_invalid_duration_is_refused(text: str):
    result = run("--since", text)
    assert result.exit_code == 2
    assert "is not a duration" in result.stderr


def test_a_log_without_lines_of_dra_reconciler_is_reported():
    result = run(lines=["hello"])
    assert result.exit_code == 2
    assert "log of `run`" in result.stderr


def test_lines_with_a_prefix_are_read():
    (found,) = Reader().read([f"[pod/x] {allocated('default/a', 1.0)}"])
    assert found.claims == ("default/a",)


def test_lines_are_followed_as_they_are_written(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text(allocated("default/a", 1.0) + "\n")
    command = [sys.executable, "-u", "-m", "reconciler", "logs", str(path), "--follow", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "default/a" in process.stdout.readline()
            with path.open("a") as file:
                file.write(allocated("default/b", 1.0)[:30])
                file.flush()
                file.write(allocated("default/b", 1.0)[30:] + "\n")
            assert "default/b" in process.stdout.readline()
            path.write_text(allocated("default/n", 1.0) + "\n")
            assert "default/n" in process.stdout.readline()
        finally:
            process.terminate()


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_percentile_is_the_smallest_value_with_enough_values_below(durations: list[float]):
    for name, found in latencies(durations).items():
        share = 1.0 if name == "max" else int(name[1:]) / 100
        assert sum(value <= found for value in durations) >= share * len(durations)
        assert found in durations
        smaller = [value for value in durations if value < found]
        assert len(smaller) < share * len(durations)


@given(st.lists(st.text() | st.binary().map(repr) | st.sampled_from(LINES)))
def test_any_text_can_be_read(texts: list[str]):
    reader = Reader()
    assert len(list(reader.read(texts))) + reader.foreign <= len(texts)
