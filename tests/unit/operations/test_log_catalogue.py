"""Every event that is logged is declared, with its fields; a decision is logged as its class says."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Annotated, ClassVar, NamedTuple

import pytest
import structlog
from structlog.testing import capture_logs

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions import fields as of
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.declaration import Counted, Decision, Level, Line, Logged, MetricSpec
from reconciler.control.decisions.every import DECISIONS
from reconciler.operations.log_catalogue import COMMON, EVENTS, FIELDS, Event, described_fields, events_of
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.telemetry import log_decision
from tests.tools.checkout import ROOT
from tests.tools.decision_samples import CLAIM, COUNTS, SAMPLES

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


@cache
def calls() -> tuple[Call, ...]:
    """Every call that logs something."""
    return tuple(_calls())


def _calls() -> Iterator[Call]:
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


def test_every_call_is_documented():
    for call in calls():
        assert call.event in EVENTS, f"{call}: name the event in reconciler/operations/log_catalogue.py"
        event = EVENTS[call.event]
        wanted = set(event.fields) - {"exception"}
        assert event.level == ("error" if call.method == "exception" else call.method), call
        assert ("exception" in event.fields) == (call.method == "exception"), call
        assert wanted - call.fields <= (GIVEN_ANOTHER_WAY if call.open else set()), call
        assert call.fields <= {*event.fields, *event.maybe}, call


def test_every_event_is_emitted_and_every_field_used():
    declared = {line.event for kind in DECISIONS for line in kind.LINES}
    assert set(EVENTS) == {call.event for call in calls()} | declared
    used = {field for event in EVENTS.values() for field in (*event.fields, *event.maybe)} - {"*"}
    assert used | set(COMMON) == set(FIELDS)


STRANGE = MetricSpec("strange_total", "Help.", (("what", "what it was"),))
LASTED = MetricSpec("lasted_seconds", "Help.", buckets=(1.0,))


class Strange(Decision, counted=(Counted(STRANGE, ("odd",)), Counted(LASTED, observed="seconds"))):
    """Something strange
    happened.

    For maintainers only.
    """

    LINES: ClassVar = (Line("strange", Level.ERROR),)

    claim: of.ClaimKey
    pod: Annotated[ObjectKey | None, Logged("a pod", write=str, optional=True)]
    oddity: Annotated[int, Logged("how odd", int)]
    seconds: of.Seconds


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
    found = list(events_of(Strange))
    assert found == [Event("strange", Level.ERROR, "Something strange happened.", fields, ("pod",))]
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
