"""Label selectors of hints, with the semantics of Kubernetes."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from reconciler.api.objects.model import Map, Model, Str, Tuple


class Expression(Model):
    """One requirement on one label."""

    key: Str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Tuple[Str] = ()

    @model_validator(mode="after")
    def _values_suit_the_operator(self) -> "Expression":
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        there = self.key in labels
        match self.operator:
            case "In":
                return there and labels[self.key] in self.values
            case "NotIn":
                return not there or labels[self.key] not in self.values
            case "Exists":
                return there
            case _:
                return not there


class LabelSelector(Model):
    """All requirements must hold; an empty selector matches everything."""

    match_labels: Map[Str] = Field(default_factory=dict)
    match_expressions: Tuple[Expression] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            expression.matches(labels) for expression in self.match_expressions
        )
