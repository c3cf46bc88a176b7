"""Log lines at a terminal: short, without raw structures, and an address alone on its line."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.operations.logs.setup import TerminalRenderer

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
    message = "request gpu: 4 of 65 devices match class and selectors; 1 is free; the request needs 2"
    counts = [{"request": "gpu", "gates": [{"name": "class", "left": 4}]}]
    waits: dict[str, Any] = {"event": "claim pending", "claims": ["default/b"], "reason": "DevicesInUse"}
    line = text(**waits, message=message, counts=counts)
    assert line == "12:00:00 claim pending: default/b DevicesInUse request gpu: 4 of 65 devices ..."
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
