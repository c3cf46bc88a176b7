"""All checks of doctor, and what they find in the samples."""

import io
from pathlib import Path

import pytest

from reconciler.analysis.doctor.checks import every_rule, examine
from reconciler.analysis.doctor.findings import Finding, read_input
from reconciler.api.manifests.documents import documents, of_text
from reconciler.api.objects.semantics import Semantics
from tests.tools import doctor_cases, doctor_koordinator_cases, doctor_pool_cases, doctor_quiet_cases
from tests.tools.checkout import SHARED, needs
from tests.tools.doctor_manifests import Case

CASES = (*doctor_cases.CASES, *doctor_pool_cases.CASES, *doctor_koordinator_cases.CASES)
QUIET = (*doctor_quiet_cases.QUIET, *doctor_koordinator_cases.QUIET)


def examined(case: Case) -> list[Finding]:
    return examine(read_input(of_text("a.yaml", case.text), Semantics(gates=case.gates)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}: {case.name}")
def test_a_mistake_is_found_where_it_is(case: Case):
    found = [one for one in examined(case) if one.check == case.check]
    assert [(one.field, case.says in one.what) for one in found] == [(field, True) for field in case.fields]


@pytest.mark.parametrize("case", QUIET, ids=lambda case: f"{case.check}: {case.name}")
def test_what_is_no_mistake_is_not_found(case: Case):
    assert [one for one in examined(case) if one.check == case.check] == []


def test_every_rule_has_a_case_that_shows_it_and_one_that_does_not():
    rules = {rule.id for rule in every_rule()}
    assert {case.check for case in CASES} == rules == {case.check for case in QUIET}


SAMPLES = SHARED / "samples"
PROPOSALS = SAMPLES / "kubernetes_enhancements" / "keps" / "sig-scheduling"
MULTI_HOST = PROPOSALS / "4815-dra-partitionable-devices"
IDS = {rule.id for rule in every_rule()}

pytestmark = needs(SAMPLES)


def examined_files(*paths: Path) -> list[Finding]:
    found = documents([str(path) for path in paths], io.BytesIO())
    return examine(read_input(found, Semantics()))


@pytest.mark.parametrize("folder", sorted(SAMPLES.glob("*/")), ids=lambda path: path.name)
def test_no_published_file_ends_the_doctor(folder: Path):
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        assert {one.check for one in examined_files(path)} <= IDS


def test_all_published_files_together_do_not_end_the_doctor():
    assert {one.check for one in examined_files(SAMPLES)} <= IDS


MISTAKES = {
    "the slip in the name of the set": ("dangling-counter-set", "tpu-couner-set, which pool"),
    "what the set may have been called": ("dangling-counter-set", "did you mean tpu-counter-set?"),
    "the set of the pool's name": ("dangling-counter-set", "draws from tpu-pool"),
    "the operator": ("bad-node-selector", "did you mean In?"),
    "the slice of counters": ("no-node-selection", "slices of counters need one too"),
    "two slices of one name": ("duplicate-object", "is also in"),
    "bare amounts": ("api-rules", "expected an object, got string"),
    "the domain of the claim": ("foreign-domain", "tpu.google.com; the devices have tpu.dra.example.com"),
    "the class": ("missing-class", "tpu.google.com"),
}


@pytest.mark.parametrize(("check", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_the_multi_host_example_shows_its_mistakes(check: str, says: str):
    found = examined_files(MULTI_HOST / "README--L791.yaml", MULTI_HOST / "README--L1170.yaml")
    assert [one for one in found if one.check == check and says in one.what]


@pytest.mark.parametrize("name", ["L682", "L791"])
def test_a_slice_without_node_selection_is_found_in_each_half_of_an_example(name: str):
    found = examined_files(MULTI_HOST / f"README--{name}.yaml")
    assert len([one for one in found if one.check == "no-node-selection"]) == 1
