"""One table of reasons: complete, bounded, and the page made from it is current."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.allocation.gangs import kinds as gang_refusals
from reconciler.allocation.reasons.reasons import OTHER, REASONS, UNKNOWN, bounded, remedy
from reconciler.analysis.explain.report import reasons_page
from reconciler.api.objects.plan import Reason
from reconciler.control import planner, settler, special_claims
from reconciler.operations.events.unmanaged import NOT_MANAGED
from reconciler.plugins.koordinator import handler, refusals
from reconciler.plugins.koordinator.reasons import IN_A_GANG
from reconciler.state.on_demand import NOT_LISTED, NOT_READABLE
from reconciler.state.pods import groups
from tests.tools.checkout import ROOT


def blocking() -> Iterator[str]:
    """The reasons that the planner gives: the second argument of every `Blocked`."""
    for found in ast.walk(ast.parse(Path(planner.__file__).read_text())):
        if isinstance(found, ast.Call) and getattr(found.func, "id", "") == "Blocked":
            given = found.args[1]
            if isinstance(given, ast.Constant):
                yield str(given.value)
            elif isinstance(given, ast.Name) and hasattr(planner, given.id):
                yield str(getattr(planner, given.id))


def of_koordinator() -> Iterator[str]:
    """The first part of the reason of every `Failure`, as a word."""
    for path in (ROOT / "reconciler").glob("*/koordinator/*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Call) and getattr(found.func, "id", "") == "Failure":
                given = found.args[0]
                part = given.values[0] if isinstance(given, ast.JoinedStr) else given
                assert isinstance(part, ast.Constant)
                words = str(part.value).partition(":")[0].split("-")
                yield "".join(word.capitalize() for word in words)


def test_every_reason_that_can_be_told_is_in_the_table():
    known = {
        *map(str, Reason),
        planner.NOT_OURS,
        planner.LEFT,
        planner.SEVERAL,
        *blocking(),
        *of_koordinator(),
        refusals.BOTH,
        handler.HELD,
        NOT_MANAGED,
        NOT_LISTED,
        NOT_READABLE,
        settler.NOT_BOUND,
        settler.UNUSABLE,
        *(special_claims.OFF, special_claims.UNSAFE),
        *(
            groups.INCOMPLETE,
            IN_A_GANG,
            groups.NOT_FOUND,
            groups.INVALID,
            groups.DISAGREE,
        ),
        *(gang_refusals.UNPLACED, gang_refusals.NO_TOPOLOGY),
    }
    assert len(set(blocking())) >= 5
    assert known == set(map(str, REASONS))


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_reason_is_a_camel_case_word_with_meaning_and_remedy(reason: str):
    assert re.fullmatch(r"[A-Z][A-Za-z]+", reason)
    assert len(reason) <= 128  # what an Event can hold
    advice = REASONS[reason]
    assert advice.meaning.endswith(".")
    assert advice.remedy.endswith(".")


def test_what_is_not_in_the_table_is_one_word_and_refers_to_the_message():
    assert bounded("SomethingNew") == OTHER
    assert bounded(Reason.COUNTERS) == "CountersExhausted"
    assert remedy("SomethingNew") == UNKNOWN.remedy


def test_the_page_is_current():
    page = (ROOT / "docs" / "reasons.md").read_text()
    assert page == reasons_page(), "run make docs"
