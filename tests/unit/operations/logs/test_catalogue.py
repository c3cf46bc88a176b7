"""The documented events are those that the code emits, with their fields."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from reconciler.control.decisions.every import DECISIONS
from reconciler.operations.logs.catalogue import COMMON, EVENTS, FIELDS
from tests.tools.checkout import ROOT

METHODS = ("debug", "info", "warning", "error", "exception", "critical")
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
        for node in ast.walk(ast.parse(path.read_text())):
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
    return [str(argument.value)] if isinstance(argument, ast.Constant) else [ast.unparse(argument)]


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
