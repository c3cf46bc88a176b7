"""Label selectors of pods and namespaces. Source: meta/v1, LabelSelector."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from reconciler.api.objects.model import Map, Model, Str, Tuple
from reconciler.errors import Rejected

_VALUES_NEEDED = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


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

    def parsed(self) -> Selector:
        """The conditions. Raises Rejected, naming the condition, for one that cannot be read."""
        found = [Requirement(key, "In", (value,)) for key, value in self.match_labels.items()]
        for one in self.match_expressions:
            what = f"label selector: {one.key} {one.operator}"
            wanted = _VALUES_NEEDED.get(one.operator)
            if wanted is None:
                raise Rejected(f"{what}: unknown operator; use one of {', '.join(_VALUES_NEEDED)}")
            if wanted != bool(one.values):
                raise Rejected(f"{what}: {'needs at least one value' if wanted else 'takes no values'}")
            found.append(Requirement(one.key, one.operator, tuple(sorted(set(one.values)))))
        return Selector(_sorted(found))


def _sorted(found: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(found)))
