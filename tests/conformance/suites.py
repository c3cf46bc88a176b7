"""The suites by name. A suite says which documents are its cases, and judges them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance import apiserver, cel, dra, koordinator, podfit
from tests.conformance.disputed import DISPUTED
from tests.conformance.documents import Document
from tests.conformance.outcome import Outcome


class Suite(NamedTuple):
    """One kind of case."""

    recognises: Callable[[Mapping[str, Any]], bool]
    run: Callable[[Sequence[Document]], Iterator[Outcome]]


SUITES: Mapping[str, Suite] = {
    "dra": Suite(dra.recognises, dra.run),
    "cel": Suite(cel.recognises, cel.run),
    "apiserver": Suite(apiserver.recognises, apiserver.run),
    "koordinator": Suite(koordinator.recognises, koordinator.run),
    "podfit": Suite(podfit.recognises, podfit.run),
}


def outcomes(name: str, found: Sequence[Document]) -> Iterator[Outcome]:
    """The outcomes of one suite's cases among some documents; disputed ones are skipped."""
    suite = SUITES[name]
    mine = [document for document in found if suite.recognises(document.data)]
    if not mine:
        return
    for outcome in suite.run(mine):
        why = DISPUTED.get(f"{name}/{outcome.case}")
        yield Outcome(outcome.case, skipped=why) if why else outcome
