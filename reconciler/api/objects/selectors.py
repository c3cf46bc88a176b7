"""Selectors of nodes by name and labels, and of pods and namespaces by labels.

Sources: rules NM-1, NM-2; meta/v1, LabelSelector.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from reconciler.api.objects.model import Map, Model, Str, Tuple, kept
from reconciler.errors import Rejected

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)
_VALUES_OF_NODE_OPERATORS = {
    "In": "some",
    "NotIn": "some",
    "Exists": "none",
    "DoesNotExist": "none",
    "Gt": "one",
    "Lt": "one",
}


class NodeSelectorRequirement(Model):
    """One condition on a label or on the node's name."""

    key: Str
    operator: Str
    values: Tuple[Str] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets the condition. The requirement must be valid."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number, bound = _integer(value or ""), int(self.values[0])
        if number is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


class NodeSelectorTerm(Model):
    """Conditions that must all hold. A term without any matches no node."""

    match_expressions: Tuple[NodeSelectorRequirement] = ()
    match_fields: Tuple[NodeSelectorRequirement] = ()


class NodeSelector(Model):
    """Terms; one of them must match."""

    node_selector_terms: Tuple[NodeSelectorTerm] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node called `name` is selected. Raises Rejected if the selector cannot be read."""
        self.check()
        return any(
            (term.match_expressions or term.match_fields)
            and all(r.holds(labels) for r in term.match_expressions)
            and all((name in r.values) == (r.operator == "In") for r in term.match_fields)
            for term in self.node_selector_terms
        )

    def check(self) -> None:
        """Raise Rejected, naming the requirement, unless every term can be read."""
        for term in self.node_selector_terms:
            for requirement in term.match_expressions:
                _check_expression(requirement)
            for requirement in term.match_fields:
                _check_field(requirement)


def _integer(text: str) -> int | None:
    """The integer that a label or a bound contains; None if it is not a 64-bit integer."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _check_expression(requirement: NodeSelectorRequirement) -> None:
    wanted = _VALUES_OF_NODE_OPERATORS.get(requirement.operator)
    what = f"node selector: {requirement.key} {requirement.operator}"
    if wanted is None:
        raise Rejected(f"{what}: unknown operator; use one of {', '.join(_VALUES_OF_NODE_OPERATORS)}")
    if wanted == "some" and not requirement.values:
        raise Rejected(f"{what}: needs at least one value")
    if wanted == "none" and requirement.values:
        raise Rejected(f"{what}: takes no values")
    if wanted == "one" and (len(requirement.values) != 1 or _integer(requirement.values[0]) is None):
        raise Rejected(f"{what}: needs exactly one value, an integer")


def _check_field(requirement: NodeSelectorRequirement) -> None:
    what = f"node selector: field {requirement.key} {requirement.operator}"
    if requirement.key != "metadata.name":
        raise Rejected(f"{what}: only the field metadata.name can be selected on")
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        raise Rejected(f"{what}: needs In or NotIn with exactly one value")


_VALUES_OF_LABEL_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


class Requirement(NamedTuple):
    """One condition on a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Whether an object meets the condition whose label has this value; None if it lacks the label."""
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
        return value is None


class Selector(NamedTuple):
    """Conditions that must all hold. Equal selectors are equal values; without conditions it selects all."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def selects_all(self) -> bool:
        """Whether there is no condition."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(one.holds(labels.get(one.key)) for one in self.requirements)

    def with_labels(self, labels: Mapping[str, str]) -> "Selector":
        """The same selector, which also requires these labels."""
        more = [Requirement(key, "In", (value,)) for key, value in labels.items()]
        return Selector(_sorted([*self.requirements, *more]))


class LabelSelectorRequirement(Model):
    """One condition, as it is written."""

    key: Str
    operator: Str
    values: Tuple[Str] = ()


class LabelSelector(Model):
    """A selector as it is written. Without any condition it selects everything."""

    match_labels: Map[Str] = Field(default_factory=dict)
    match_expressions: Tuple[LabelSelectorRequirement] = ()

    @kept
    def parsed(self) -> Selector:
        """The conditions. Raises Rejected, naming the condition, for one that cannot be read."""
        found = [Requirement(key, "In", (value,)) for key, value in self.match_labels.items()]
        for one in self.match_expressions:
            what = f"label selector: {one.key} {one.operator}"
            wanted = _VALUES_OF_LABEL_OPERATORS.get(one.operator)
            if wanted is None:
                raise Rejected(
                    f"{what}: unknown operator; use one of {', '.join(_VALUES_OF_LABEL_OPERATORS)}"
                )
            if wanted != bool(one.values):
                raise Rejected(f"{what}: {'needs at least one value' if wanted else 'takes no values'}")
            found.append(Requirement(one.key, one.operator, tuple(sorted(set(one.values)))))
        return Selector(_sorted(found))


def _sorted(found: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(found)))
