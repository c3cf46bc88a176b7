"""The recorded cases by both sets of rules."""

import pytest

from reconciler.plugins.koordinator.rules import Semantics
from tests.conformance.documents import SHARED, documents
from tests.conformance.koordinator import recognises, run_by
from tests.tools.koordinator_recorded import DIFFERENCES, SKIPPED

DATA = SHARED / "koordinator"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no conformance data at {DATA}")


def test_the_proposals_decide_like_the_release_but_where_they_say_otherwise():
    found = [document for document in documents(DATA) if recognises(document.data)]
    outcomes = list(run_by(found, Semantics.PROPOSAL))
    assert {outcome.case for outcome in outcomes if outcome.mismatch} == set(DIFFERENCES)
    assert [outcome for outcome in outcomes if outcome.skipped] == SKIPPED


@pytest.mark.parametrize(
    ("number", "gpus", "nics"), [("508", [4, 5, 6], [3, 4]), ("700", [6], [4]), ("705", [6], [4])]
)
def test_an_exclusive_switch_is_searched_for(number: str, gpus: list[int], nics: list[int]):
    found = [d for d in documents(DATA) if d.data.get("name", "").startswith(number)]
    (outcome,) = run_by(found, Semantics.PROPOSAL)
    assert outcome.mismatch is not None
    given = outcome.mismatch.got["allocations"]
    assert [entry["minor"] for entry in given["gpu"]] == gpus
    assert [entry["minor"] for entry in given["rdma"]] == nics
