"""Node selectors match as the scheduler matches them. Rules NM-1 and NM-2."""

import pytest

from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Rejected

LABELS = {
    "zone": "a",
    "cores": "64",
    "half": "1.5",
    "minus": "-5",
    "huge": "9223372036854775808",
    "empty": "",
}


def selector(*terms: dict[str, object]) -> NodeSelector:
    return NodeSelector.model_validate({"nodeSelectorTerms": list(terms)})


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, object]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("zone", "In", "b", "a"), True),
        (expression("zone", "In", "b"), False),
        (expression("missing", "In", "a"), False),
        (expression("empty", "In", ""), True),
        (expression("missing", "In", ""), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("missing", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("zone", "DoesNotExist"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("cores", "Gt", "63"), True),
        (expression("cores", "Gt", "64"), False),
        (expression("cores", "Lt", "65"), True),
        (expression("cores", "Lt", "64"), False),
        (expression("minus", "Lt", "-4"), True),
        (expression("missing", "Gt", "1"), False),
        (expression("half", "Gt", "1"), False),
        (expression("zone", "Lt", "1"), False),
        (expression("huge", "Gt", "1"), False),
        (field("In", "n1"), True),
        (field("In", "n2"), False),
        (field("NotIn", "n2"), True),
        (field("NotIn", "n1"), False),
        ({}, False),
        ({"matchExpressions": [], "matchFields": []}, False),
    ],
)
def test_a_term_matches_as_its_operators_say(term: dict[str, object], matches: bool):
    assert selector(term).matches("n1", LABELS) is matches


def test_all_conditions_of_a_term_must_hold():
    both = {**expression("zone", "In", "a"), **field("In", "n1")}
    assert selector(both).matches("n1", LABELS)
    assert not selector(both).matches("n2", LABELS)
    assert not selector(both).matches("n1", {})


def test_one_term_is_enough():
    assert selector({}, expression("zone", "In", "b"), field("In", "n1")).matches("n1", LABELS)


def test_a_selector_without_terms_matches_nothing():
    assert selector().matches("n1", LABELS) is False


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (expression("a", "Is", "b"), "unknown operator"),
        (expression("a", "In"), "at least one value"),
        (expression("a", "NotIn"), "at least one value"),
        (expression("a", "Exists", "b"), "takes no values"),
        (expression("a", "DoesNotExist", "b"), "takes no values"),
        (expression("a", "Gt", "1", "2"), "exactly one value"),
        (expression("a", "Gt", "x"), "an integer"),
        (expression("a", "Lt", "1.5"), "an integer"),
        (expression("a", "Lt", "9223372036854775808"), "an integer"),
        (field("In", "n1", key="metadata.namespace"), "only the field metadata.name"),
        (field("In", "n1", "n2"), "exactly one value"),
        (field("Exists"), "needs In or NotIn"),
    ],
)
def test_a_selector_that_cannot_be_read_is_rejected_whichever_term_would_match(
    term: dict[str, object], reason: str
):
    """A later term is read too: whether a selector is an error must not depend on the node."""
    with pytest.raises(Rejected, match=reason):
        selector(field("In", "n1"), term).matches("n1", LABELS)
