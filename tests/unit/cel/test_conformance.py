"""The answers of Kubernetes 1.36.2, by the plain evaluator and on columns."""

import json
from typing import Any

import pytest

from reconciler.cel.program import CelRefused, compile_selector
from tests.tools.cel_rows import device_of, masked, plain, rows_of
from tests.tools.checkout import SHARED, needs

DATA = SHARED / "conformance" / "cel"
SAMPLES = SHARED / "samples" / "cel-expressions.txt"
pytestmark = needs(DATA)


def _read(name: str, default: Any) -> Any:
    """What was recorded; without it the tests are skipped, or in CI fail for want of the file."""
    return json.loads((DATA / name).read_text()) if DATA.is_dir() else default


_SELECTORS: dict[str, Any] = _read("selectors.json", {"devices": [], "cases": []})
_UPSTREAM: list[dict[str, Any]] = _read("upstream.json", [])
_DEVICES = [device_of(declared) for declared in _SELECTORS["devices"]]
_ROWS = rows_of(_DEVICES)

_BROKEN = {
    "'hami-gpu')": "a bracket too many",
    "< 2)": "a bracket too few",
    '"dc;sym" ||': "nothing behind ||",
    '"dc;asym" ||': "nothing behind ||",
    "80g": "no number",
    "100g": "no number",
    '"resource-driver.example.com': "an open string",
}
"""The endings of the samples that are not CEL, and what is wrong with them."""


@pytest.mark.parametrize("case", _SELECTORS["cases"], ids=lambda case: case["expression"][:80])
def test_a_selector_answers_as_kubernetes_does(case: dict[str, Any]):
    if "compileError" in case["expect"]:
        with pytest.raises(CelRefused):
            compile_selector(case["expression"])
        return
    selector = compile_selector(case["expression"])
    assert [plain(selector, device) for device in _DEVICES] == case["expect"]["results"]
    assert masked(selector, _ROWS) == case["expect"]["results"]


@pytest.mark.parametrize("case", _UPSTREAM, ids=lambda case: case["name"])
def test_the_cases_of_upstreams_own_tests(case: dict[str, Any]):
    expect, device = case["expect"], device_of(case["device"])
    if expect["compileError"]:
        with pytest.raises(CelRefused):
            compile_selector(case["expression"])
        return
    selector = compile_selector(case["expression"])
    wanted = "error" if expect["error"] else expect["match"]
    assert plain(selector, device) == wanted
    assert masked(selector, rows_of([device])) == [wanted]


def test_every_well_formed_expression_found_in_manifests_compiles():
    broken = []
    for line in SAMPLES.read_text().splitlines():
        expression, _, source = line.partition("\t")
        if not source.startswith("[yaml]"):
            continue
        try:
            compile_selector(expression)
        except CelRefused:
            broken.append(expression)
    assert all(expression.endswith(tuple(_BROKEN)) for expression in broken), broken
    assert len(broken) == 9
