"""Selector cases: every device by the plain evaluator and by columns, and what does not compile."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from reconciler.cel.program import CelRefused, compile_selector
from tests.conformance.documents import Document
from tests.conformance.outcome import Mismatch, Outcome, judged
from tests.tools.cel_rows import device_of, masked, plain, rows_of

Case = Mapping[str, Any]

REFUSED = "compile error"


def recognises(data: Case) -> bool:
    """Whether this is one selector with its device, or many over common devices."""
    return ("devices" in data and "cases" in data) or ("expression" in data and "device" in data)


def run(found: Sequence[Document]) -> Iterator[Outcome]:
    """Every selector of every document."""
    for document in found:
        data = document.data
        for case in data.get("cases", [data]):
            devices = data["devices"] if "devices" in data else [data["device"]]
            yield judged(case.get("name") or case["expression"], partial(_mismatch, case, devices))


def _mismatch(case: Case, devices: Sequence[Case]) -> Mismatch | None:
    wanted = _recorded(case["expect"])
    for got in _answers(case["expression"], devices):
        if got != wanted:
            return Mismatch(wanted, got)
    return None


def _recorded(expect: Mapping[str, Any]) -> list[bool | str] | str:
    if expect.get("compileError"):
        return REFUSED
    if "results" in expect:
        return list(expect["results"])
    return ["error" if expect.get("error") else expect["match"]]


def _answers(expression: str, devices: Sequence[Case]) -> Iterator[list[bool | str] | str]:
    """What the two evaluators say; they must agree with the record, and so with each other."""
    try:
        selector = compile_selector(expression)
    except CelRefused:
        yield REFUSED
        return
    views = [device_of(device) for device in devices]
    yield [plain(selector, view) for view in views]
    yield masked(selector, rows_of(views))
