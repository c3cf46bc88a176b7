"""Koordinator's own tests as cases: what is read, what is given, how it is ranked. By the release's rules."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from reconciler.api.objects.quantity import Quantity
from reconciler.plugins.koordinator.vocabulary import Semantics
from tests.conformance.documents import Document
from tests.conformance.outcome import Mismatch, Outcome, judged
from tests.tools.koordinator_answers import ANSWERS

Case = Mapping[str, Any]

OUT_OF_SCOPE = {
    "numa-hints": "out of scope: no NUMA policy is aligned with, so no hints are made for one",
    "admission-mutate": "out of scope: no admission webhook is part of this",
}
AMOUNTS = ("resources", "deviceRequests")
NUMA_NODES = "out of scope: no NUMA affinity is chosen before devices are"


def recognises(data: Case) -> bool:
    """Whether this is one case, known by its kind."""
    return "kind" in data and "expect" in data and (data["kind"] in ANSWERS or data["kind"] in OUT_OF_SCOPE)


def run(found: Sequence[Document]) -> Iterator[Outcome]:
    """Every case by the release's rules."""
    return run_by(found, Semantics.UPSTREAM)


def run_by(found: Sequence[Document], semantics: Semantics) -> Iterator[Outcome]:
    """Every case by one of the two sets of rules."""
    for document in found:
        case = document.data
        if why := skipped(case):
            yield Outcome(case["name"], skipped=why)
        else:
            yield judged(case["name"], partial(_mismatch, case, semantics))


def skipped(case: Case) -> str:
    """Why a case is not judged, or nothing."""
    if "numaNodes" in (case.get("args") or {}):
        return NUMA_NODES
    return OUT_OF_SCOPE.get(case["kind"], "")


def _mismatch(case: Case, semantics: Semantics) -> Mismatch | None:
    got = ANSWERS[case["kind"]](case, semantics)
    for key, wanted in _wanted(case["expect"]).items():
        if not _agrees(key, wanted, got):
            return Mismatch(wanted, got)
    return None


def _wanted(expect: Case) -> dict[str, Any]:
    """What must be answered. The release's words are its own; where several errors would do, any does."""
    if "error" in expect:
        errors = expect.get("error_any_of", [expect["error"]])
        return {"error": errors} | ({"code": expect["code"]} if "code" in expect else {})
    return {key: value for key, value in expect.items() if key != "equalsBuiltInTableForModels"}


def _agrees(key: str, wanted: Any, got: Mapping[str, Any]) -> bool:
    if key == "error":
        return got.get("error") in wanted
    if key == "feasible":
        return "error" not in got
    return key in got and _comparable(wanted, key) == _comparable(_part(got[key], wanted), key)


def _part(got: Any, wanted: Any) -> Any:
    """What was answered about the device types that the case speaks of."""
    if isinstance(wanted, Mapping) and isinstance(got, Mapping) and set(wanted) < set(got):
        return {key: got[key] for key in wanted}
    return got


def _comparable(value: Any, name: str = "") -> Any:
    """A value with quantities by value, and given devices in the order of minors."""
    if isinstance(value, Mapping):
        return {key: _comparable(entry, name if name in AMOUNTS else key) for key, entry in value.items()}
    if isinstance(value, list):
        entries = [_comparable(entry) for entry in value]
        devices = all(isinstance(entry, dict) and "minor" in entry for entry in entries)
        return sorted(entries, key=lambda entry: entry["minor"]) if devices else entries
    return Quantity.parse(value) if name in AMOUNTS and isinstance(value, str) else value
