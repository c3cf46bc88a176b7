"""Syntax of node selectors."""

from reconciler.api.validation.fields import Field
from reconciler.api.validation.names import is_label_name

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_node_selector(selector: Field) -> None:
    """Check that there is a term and that every requirement is valid."""
    terms = selector["nodeSelectorTerms"]
    if not terms.items():
        terms.required("must have at least one node selector term")
    for term in terms.items():
        for requirement in term["matchExpressions"].items():
            _expression(requirement)
        for requirement in term["matchFields"].items():
            _field(requirement)


def _expression(requirement: Field) -> None:
    if not is_label_name(requirement["key"].text()):
        requirement["key"].invalid("must be a label name")
    values = requirement["values"]
    texts = [value.text() for value in values.items()]
    match requirement["operator"].text():
        case "In" | "NotIn":
            if not texts:
                values.required("must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if texts:
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(texts) != 1:
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            requirement["operator"].unsupported(_OPERATORS)


def _field(requirement: Field) -> None:
    if requirement["key"].text() != "metadata.name":
        requirement["key"].unsupported(("metadata.name",))
    if requirement["operator"].text() not in ("In", "NotIn"):
        requirement["operator"].unsupported(("In", "NotIn"))
    if len([value.text() for value in requirement["values"].items()]) != 1:
        requirement["values"].required("must be only one value")
