"""Log lines: JSON unless a person watches, and never a secret."""

import asyncio
import io
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from aiohttp.http_exceptions import BadHttpMessage

from reconciler.operations.log_setup import TerminalRenderer, configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, level: str = "info", form: str = "auto"
) -> list[str]:
    monkeypatch.setattr(sys, "stderr", stream)
    configure(level, form)  # type: ignore[arg-type]
    log = structlog.get_logger("reconciler.test")
    log.debug("protocol line")
    log.info("claim allocated", claim="ns/a", steps=3)
    return stream.getvalue().splitlines()


def test_lines_are_json_when_nobody_watches(monkeypatch: pytest.MonkeyPatch):
    (line,) = logged(monkeypatch, io.StringIO())
    fields = json.loads(line)
    assert fields.pop("timestamp").endswith("Z")
    assert fields == {
        "event": "claim allocated",
        "claim": "ns/a",
        "steps": 3,
        "level": "info",
        "logger": "reconciler.test",
    }


def test_lines_are_for_people_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    (line,) = logged(monkeypatch, Terminal())
    assert "claim allocated" in line
    assert line.strip().endswith("claim allocated: ns/a")
    assert "\x1b" not in line


def test_a_terminal_gets_colours_unless_it_says_no(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    (line,) = logged(monkeypatch, Terminal())
    assert "\x1b" in line


@pytest.mark.parametrize(
    ("form", "stream", "is_json"), [("json", Terminal(), True), ("text", io.StringIO(), False)]
)
def test_a_format_that_is_asked_for_wins(
    monkeypatch: pytest.MonkeyPatch, form: str, stream: io.StringIO, is_json: bool
):
    (line,) = logged(monkeypatch, stream, form=form)
    assert line.startswith("{") is is_json


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 1), ("warning", 0)])
def test_lines_below_the_level_are_left_out(monkeypatch: pytest.MonkeyPatch, level: str, lines: int):
    assert len(logged(monkeypatch, io.StringIO(), level)) == lines


def test_libraries_are_heard_from_warnings_upwards_and_in_the_same_form(monkeypatch: pytest.MonkeyPatch):
    """Their finer lines hold whole requests, with tokens in the headers."""
    stream = io.StringIO()
    logged(monkeypatch, stream, "debug")
    stream.truncate(0)
    logging.getLogger("some.library").debug("Authorization: Bearer abc")
    logging.getLogger("some.library").info("response body")
    logging.getLogger("some.library").warning("connection lost")
    lines = [json.loads(line.lstrip("\0")) for line in stream.getvalue().splitlines()]
    found = [(line["event"], line["logger"], line["level"]) for line in lines]
    assert found == [("connection lost", "some.library", "warning")]


def test_an_error_of_aiohttp_is_logged_without_what_it_quotes(monkeypatch: pytest.MonkeyPatch):
    """The embedded server has no part of ours between aiohttp and the log."""
    logged(monkeypatch, stream := io.StringIO())
    logging.getLogger("aiohttp.server").error("Error handling request", exc_info=BadHttpMessage("Bearer abc"))
    assert "Error handling request" in stream.getvalue()
    assert "abc" not in stream.getvalue()


def fail_with(token: str) -> None:
    raise RuntimeError("broken" if token else "")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["json", "text"])
def test_a_traceback_does_not_show_local_variables(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO):
    logged(monkeypatch, stream)
    try:
        fail_with("-".join(["very", "secret"]))
    except RuntimeError:
        structlog.get_logger("reconciler.test").exception("reconcile failed")
    assert "RuntimeError: broken" in stream.getvalue()
    assert "very-secret" not in stream.getvalue()


def test_a_line_has_its_time_with_microseconds(monkeypatch: pytest.MonkeyPatch):
    (line,) = logged(monkeypatch, io.StringIO())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", json.loads(line)["timestamp"])


def test_configuring_again_does_not_double_the_lines(monkeypatch: pytest.MonkeyPatch):
    logged(monkeypatch, io.StringIO())
    assert len(logged(monkeypatch, io.StringIO())) == 1


def events(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


class Torn(io.StringIO):
    """A stream whose other end is gone, until it is back."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error: Exception | None = error
        self.tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        if self.error is not None:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), OSError(28, "No space left on device"), ValueError("closed file")], ids=repr
)
async def test_nobody_fails_or_is_kept_busy_where_lines_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """An error of the loop's own callbacks is logged: it would come round again for ever."""
    stream = Torn(error)
    logged(monkeypatch, stream)
    log = structlog.get_logger("reconciler.test")
    log.warning("who says this goes on")
    logging.getLogger("asyncio").error("and so do libraries")
    await asyncio.sleep(0)
    assert stream.tries == 3
    stream.error = None
    log.info("heard again")
    assert events(stream) == ["heard again"]


async def test_a_thread_loses_no_line(monkeypatch: pytest.MonkeyPatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("info", "json")
    log = structlog.get_logger("reconciler.test")

    def chatter() -> None:
        for number in range(300):
            log.info("thread %d", number)

    talking = asyncio.create_task(asyncio.to_thread(chatter))
    for number in range(300):
        log.info("loop %d", number)
        await asyncio.sleep(0)
    await talking
    found = events(stream)
    assert [event for event in found if "thread" in event] == [f"thread {n}" for n in range(300)]
    assert [event for event in found if "loop" in event] == [f"loop {n}" for n in range(300)]


@pytest.mark.parametrize(
    "value", ["\ud800", "line\u2028end", object(), {1: "x"}, {(1, 2): "x"}, 1 << 70, float("nan")]
)
def test_any_value_makes_one_line(monkeypatch: pytest.MonkeyPatch, value: object):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("info", "json")
    structlog.get_logger("reconciler.test").info("odd", value=value)
    assert len(stream.getvalue().splitlines()) == 1
    assert '"odd"' in stream.getvalue()


NOON = "2026-01-01T12:00:00.000000Z"


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def text(width: int = 80, **event: Any) -> str:
    event = {"timestamp": NOON, "level": "info", "logger": "reconciler.x", **event}
    return TerminalRenderer(lambda: width, colours=False)(None, "info", event)


def test_an_allocation_is_one_line():
    line = text(
        event="claim allocated",
        claim="default/a",
        pod=None,
        devices=["gpu.example.com/n/gpu-0", "gpu.example.com/n/gpu-1"],
        node="n",
        duration_ms=12.345,
        steps=2,
        decision_id="0123",
    )
    assert line == "12:00:00 claim allocated: default/a gpu-0, gpu-1 node=n (12 ms)"


def test_a_long_message_is_cut_between_words():
    message = "claim default/b, request gpu: 4 of 65 devices match class and selectors; 1 is free; it needs 2"
    counts = [{"request": "gpu", "gates": [{"name": "class", "left": 4}]}]
    waits: dict[str, Any] = {"event": "claim pending", "claims": ["default/b"], "reason": "DevicesInUse"}
    line = text(**waits, message=message, counts=counts)
    assert line == "12:00:00 claim pending: DevicesInUse default/b request gpu: 4 of 65 devices ..."
    assert len(line) <= 80
    assert "[" not in line


def test_names_are_not_cut():
    line = text(event="claim freed", claim="n" * 100, why="deleted")
    assert line.split() == ["12:00:00", "claim", "freed:", "n" * 100, "..."]


def test_warnings_are_wrapped_and_complete():
    error = "GET /apis: certificate verify failed: set certificate-authority-data of cluster c in the file"
    found = text(event="lease request failed", level="warning", lease="kube-system/x", error=error)
    assert found.startswith("12:00:00 warning: lease request failed: lease=kube-system/x ")
    assert " ".join(found.split()).endswith(error)
    assert all(len(line) <= 80 for line in found.splitlines())


def test_an_address_is_alone_on_its_line():
    found = text(event="status served", url="http://127.0.0.1:1234", paths="/ /livez")
    assert found.splitlines() == ["12:00:00 status served", "http://127.0.0.1:1234"]


def test_many_names_are_counted():
    found = text(event="reconciling", kinds=["A", "B", "C", "D", "E"])
    assert found == "12:00:00 reconciling: kinds=A, B, C and 2 more"


def test_a_traceback_follows_its_line():
    failed: dict[str, Any] = {
        "event": "reconcile failed",
        "level": "error",
        "unit": "claim a/b",
        "pause": 1.0,
    }
    found = text(**failed, exception="Traceback\n  x")
    assert found.splitlines()[1:] == ["Traceback", "  x"]


def test_control_characters_are_escaped():
    assert "\x1b" not in text(event="claim freed", claim="a\x1b[31m", why="x")
