"""Log lines: JSON unless a person watches, and never a secret."""

import ast
import asyncio
import io
import json
import logging
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

import pytest
import structlog
from aiohttp.http_exceptions import BadHttpMessage
from structlog.testing import capture_logs

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import (
    ClaimKey,
    Counted,
    Decision,
    Level,
    Line,
    Logged,
    MetricSpec,
    Seconds,
)
from reconciler.control.decisions.every import DECISIONS
from reconciler.operations.logs.catalogue import COMMON, EVENTS, FIELDS, Event, described_fields, events_of
from reconciler.operations.logs.setup import TerminalRenderer, configure
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.observer import log_decision
from tests.tools.checkout import ROOT
from tests.tools.decision_samples import CLAIM, COUNTS, SAMPLES


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
    assert [(line["event"], line["logger"], line["level"]) for line in lines] == [
        ("connection lost", "some.library", "warning")
    ]


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


# -- Every event that is logged is declared, with its fields; a decision is logged as its class says.


METHODS = ("debug", "info", "warning", "error", "exception", "critical")
LOGS = re.compile(rf"\blog(?:ger)?\.(?:{'|'.join(METHODS)})\(")
GIVEN_ANOTHER_WAY = {"claim", "pod"}
"""Fields that some calls pass on as `**what`"""


class Call(NamedTuple):
    where: str
    method: str
    event: str
    fields: frozenset[str]
    open: bool
    """Whether it passes on more, as `**more`"""


def calls() -> Iterator[Call]:
    """Every call that logs something."""
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if LOGS.search(text) else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            target = node.func.value
            if node.func.attr in METHODS and isinstance(target, ast.Name) and target.id in ("log", "logger"):
                fields = {keyword.arg for keyword in node.keywords}
                named = frozenset(field for field in fields if field is not None)
                for event in names(node.args[0]):
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield Call(where, node.func.attr, event, named, open=None in fields)


def names(argument: ast.expr) -> list[str]:
    if isinstance(argument, ast.IfExp):
        return [*names(argument.body), *names(argument.orelse)]
    if isinstance(argument, ast.Attribute):
        return class_attributes()[argument.attr]
    return [str(argument.value)] if isinstance(argument, ast.Constant) else [ast.unparse(argument)]


@cache
def class_attributes() -> dict[str, list[str]]:
    """Name -> its texts in the classes that set it: a base class logs what its subclasses name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "reconciler" / "control").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                match part:
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                        found[name].append(text)
    return found


@pytest.mark.parametrize("call", list(calls()), ids=lambda call: f"{call.where} {call.event}")
def test_every_call_is_documented(call: Call):
    assert call.event in EVENTS, "name the event in reconciler/operations/logs/catalogue.py"
    event = EVENTS[call.event]
    wanted = set(event.fields) - {"exception"}
    assert event.level == ("error" if call.method == "exception" else call.method)
    assert ("exception" in event.fields) == (call.method == "exception")
    assert wanted - call.fields <= (GIVEN_ANOTHER_WAY if call.open else set())
    assert call.fields <= {*event.fields, *event.maybe}


def test_every_event_is_emitted_and_every_field_used():
    declared = {line.event for kind in DECISIONS for line in kind.LINES}
    assert set(EVENTS) == {call.event for call in calls()} | declared
    used = {field for event in EVENTS.values() for field in (*event.fields, *event.maybe)} - {"*"}
    assert used | set(COMMON) == set(FIELDS)


STRANGE = MetricSpec("strange_total", "counter", "Help.", (("what", "what it was"),))
LASTED = MetricSpec("lasted_seconds", "histogram", "Help.", buckets=(1.0,))


@dataclass(frozen=True, slots=True)
class Strange(Decision):
    """Something strange
    happened.

    For maintainers only.
    """

    LINES: ClassVar = (Line("strange", Level.ERROR),)
    METRICS: ClassVar = (Counted(STRANGE, ("odd",)), Counted(LASTED, observed="seconds"))

    claim: ClaimKey
    pod: Annotated[ObjectKey | None, Logged("a pod", write=str, optional=True)]
    oddity: Annotated[int, Logged("how odd", int)]
    seconds: Seconds


@pytest.fixture(autouse=True)
def every_level() -> Iterator[None]:
    """Without the level that a command of another test has set."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_the_line_of_a_decision_has_the_documented_fields_in_order(sample: Decision):
    with capture_logs() as lines:
        log_decision(replace(sample, decision_id="id"))
    (line,) = lines
    event = EVENTS[line.pop("event")]
    assert line.pop("log_level") == event.level
    assert event.name in {one.event for one in type(sample).LINES}
    in_order = [field.name for field in type(sample).logged_fields()]
    assert [name for name in line if name in in_order] == [name for name in in_order if name in line]
    assert set(event.fields) <= line.keys() <= {*event.fields, *event.maybe}
    for name, value in line.items():
        assert isinstance(value, FIELDS[name][0]), name
    json.dumps(line)


def test_every_line_of_a_decision_has_a_sample():
    with capture_logs() as lines:
        for sample in SAMPLES:
            log_decision(sample)
    assert {line["event"] for line in lines} == {one.event for kind in DECISIONS for one in kind.LINES}


def test_a_pending_claim_is_told_with_its_counts():
    with capture_logs() as lines:
        log_decision(Waits((CLAIM,), CLAIM, "DevicesInUse", "words", 2, 3, COUNTS, decision_id="id"))
    assert lines == [
        {
            "event": "claim pending",
            "log_level": "info",
            "claims": ["ns/c"],
            "pod": "ns/c",
            "reason": "DevicesInUse",
            "message": "words",
            "nodes": 2,
            "steps": 3,
            "counts": [
                {"claim": "ns/c", "request": "r", "wanted": 2, "left": {"class": 3, "free": 1}},
                {"claim": "ns/c", "request": "q/big", "wanted": "all", "left": {}},
            ],
            "decision_id": "id",
        }
    ]


def test_one_class_is_enough_for_a_line_its_description_and_its_metrics():
    decision = Strange(ObjectKey("ns", "c"), None, 7, 0.5, decision_id="id")
    with capture_logs() as lines:
        log_decision(decision)
    assert lines == [
        {
            "event": "strange",
            "log_level": "error",
            "claim": "ns/c",
            "oddity": 7,
            "duration_ms": 500.0,
            "decision_id": "id",
        }
    ]
    fields = ("claim", "oddity", "duration_ms", "decision_id")
    assert list(events_of(Strange)) == [
        Event("strange", Level.ERROR, "Something strange happened.", fields, ("pod",))
    ]
    assert described_fields([Strange])["oddity"] == ((int,), "how odd")
    meters = Meters(process=False, kinds=[Strange])
    value = meters.registry.get_sample_value
    assert value("dra_reconciler_strange_total", {"what": "odd"}) == 0
    meters.on_decision(decision)
    assert value("dra_reconciler_strange_total", {"what": "odd"}) == 1
    assert value("dra_reconciler_lasted_seconds_sum") == 0.5


def test_every_decision_counts_in_the_metrics_that_it_declares():
    meters = Meters(process=False)
    for sample in SAMPLES:
        for counted in type(sample).METRICS:
            labels = dict(zip(counted.metric.label_names, counted.labels, strict=True))
            series = counted.metric.full_name + ("_count" if counted.observed else "")
            before = meters.registry.get_sample_value(series, labels)
            assert before is not None
            known = not counted.observed or getattr(sample, counted.observed) is not None
            meters.on_decision(sample)
            assert meters.registry.get_sample_value(series, labels) == before + known
