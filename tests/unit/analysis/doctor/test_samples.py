"""Manifests as others publish them: none ends the doctor, and known mistakes are found."""

import io
from pathlib import Path

import pytest

from reconciler.analysis.doctor.checks import every_rule, examine
from reconciler.analysis.doctor.findings import Finding, read_input
from reconciler.api.manifests.documents import documents
from reconciler.api.objects.semantics import Semantics
from tests.tools.checkout import SHARED, needs

SAMPLES = SHARED / "samples"
PROPOSALS = SAMPLES / "kubernetes_enhancements" / "keps" / "sig-scheduling"
MULTI_HOST = PROPOSALS / "4815-dra-partitionable-devices"
IDS = {rule.id for rule in every_rule()}

pytestmark = needs(SAMPLES)


def examined(*paths: Path) -> list[Finding]:
    found = documents([str(path) for path in paths], io.BytesIO())
    return examine(read_input(found, Semantics()))


@pytest.mark.parametrize("folder", sorted(SAMPLES.glob("*/")), ids=lambda path: path.name)
def test_no_published_file_ends_the_doctor(folder: Path):
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        assert {one.check for one in examined(path)} <= IDS


def test_all_published_files_together_do_not_end_the_doctor():
    assert {one.check for one in examined(SAMPLES)} <= IDS


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
    found = examined(MULTI_HOST / "README--L791.yaml", MULTI_HOST / "README--L1170.yaml")
    assert [one for one in found if one.check == check and says in one.what]


@pytest.mark.parametrize("name", ["L682", "L791"])
def test_a_slice_without_node_selection_is_found_in_each_half_of_an_example(name: str):
    found = examined(MULTI_HOST / f"README--{name}.yaml")
    assert len([one for one in found if one.check == "no-node-selection"]) == 1
