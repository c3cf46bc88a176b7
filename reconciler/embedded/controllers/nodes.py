"""Match nodes with node selectors (NM-2)."""

from collections.abc import Mapping

from reconciler.api.validation.kinds import Object


def matches(selector: Object | None, node: Object) -> bool:
    """Whether all requirements of any term match. No selector matches every node."""
    if selector is None:
        return True
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms", ()))


def has_labels(wanted: Mapping[str, str], node: Object) -> bool:
    """Whether the node has all these labels."""
    return wanted.items() <= _labels(node).items()


def _term(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions", ()), term.get("matchFields", ())
    if not expressions and not fields:
        return False
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(item, _labels(node)) for item in expressions) and all(
        _holds(item, names) for item in fields
    )


def _labels(node: Object) -> dict[str, str]:
    return node["metadata"].get("labels", {})


def _holds(requirement: Object, values: Mapping[str, str]) -> bool:
    found, wanted = values.get(requirement["key"]), requirement.get("values", ())
    match requirement["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return found is not None and found.isdecimal() and int(found) > int(wanted[0])
        case "Lt":
            return found is not None and found.isdecimal() and int(found) < int(wanted[0])
    return False
