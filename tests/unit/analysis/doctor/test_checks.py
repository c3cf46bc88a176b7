"""Each check on the smallest manifests that show it, and on manifests that do not."""

import pytest

from reconciler.analysis.doctor.checks import every_rule, examine
from reconciler.analysis.doctor.findings import Finding, read_input
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.semantics import Semantics
from tests.tools import doctor_cases, doctor_koordinator_cases, doctor_quiet_cases
from tests.tools.doctor_manifests import Case

CASES = (*doctor_cases.CASES, *doctor_koordinator_cases.CASES)
QUIET = (*doctor_quiet_cases.QUIET, *doctor_koordinator_cases.QUIET)


def examined(text: str) -> list[Finding]:
    return examine(read_input(of_text("a.yaml", text), Semantics()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}: {case.name}")
def test_a_mistake_is_found_where_it_is(case: Case):
    found = [one for one in examined(case.text) if one.check == case.check]
    assert [(one.field, case.says in one.what) for one in found] == [(field, True) for field in case.fields]


@pytest.mark.parametrize("case", QUIET, ids=lambda case: f"{case.check}: {case.name}")
def test_what_is_no_mistake_is_not_found(case: Case):
    assert [one for one in examined(case.text) if one.check == case.check] == []


def test_every_rule_has_a_case_that_shows_it_and_one_that_does_not():
    rules = {rule.id for rule in every_rule()}
    assert {case.check for case in CASES} == rules == {case.check for case in QUIET}
