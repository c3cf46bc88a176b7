"""The part of PromQL in which our alerts and panels count over replicas and shards, on series written out.

Not Prometheus: at one moment, without rates. What is not in this part raises NotInOurPart.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import promql_parser as pql

Labels = frozenset[tuple[str, str]]
"""Without the name of the metric, and without empty labels"""
Vector = dict[Labels, float]


class NotInOurPart(Exception):
    """The query uses what this evaluator does not know."""


class Sample(NamedTuple):
    """A series and its value now. None: it had the value `before` within the last hour, and is gone."""

    name: str
    labels: Mapping[str, str]
    value: float | None
    before: float = 0.0


def sample(name: str, value: float | None, before: float = 0.0, **labels: str) -> Sample:
    return Sample(name, labels, value, before)


def evaluate(query: str, samples: Sequence[Sample]) -> Vector:
    """The vector that a query gives."""
    found = _value(pql.parse(query), samples)
    if isinstance(found, float):
        raise NotInOurPart("a query of a mere number")
    return found


_FOLDS: Mapping[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def _value(node: Any, samples: Sequence[Sample]) -> Vector | float:
    match node:
        case pql.NumberLiteral():
            return float(node.val)
        case pql.ParenExpr():
            return _value(node.expr, samples)
        case pql.VectorSelector():
            return {
                _kept(one.labels): one.value
                for one in samples
                if one.value is not None and _selects(node, one)
            }
        case pql.Call() if node.func.name == "max_over_time":
            inner = node.args[0].vector_selector
            return {
                _kept(one.labels): max(one.before, one.value or 0.0)
                for one in samples
                if _selects(inner, one)
            }
        case pql.AggregateExpr() if str(node.op) in _FOLDS:
            return _aggregate(node, _vector(node.expr, samples))
        case pql.BinaryExpr():
            return _binary(node, _vector(node.lhs, samples), _value(node.rhs, samples))
    raise NotInOurPart(node.prettify())


def _vector(node: Any, samples: Sequence[Sample]) -> Vector:
    found = _value(node, samples)
    if isinstance(found, float):
        raise NotInOurPart(node.prettify())
    return found


def _aggregate(node: Any, vector: Vector) -> Vector:
    kept = set(node.modifier.labels) if node.modifier is not None else set()
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(frozenset(one for one in labels if one[0] in kept), []).append(value)
    return {labels: float(_FOLDS[str(node.op)](values)) for labels, values in groups.items()}


def _binary(node: Any, left: Vector, right: Vector | float) -> Vector:
    op = str(node.op)
    if isinstance(right, float):
        if op not in _COMPARED:
            raise NotInOurPart(node.prettify())
        return {labels: value for labels, value in left.items() if _COMPARED[op](value, right)}
    matching = node.modifier.matching if node.modifier is not None else None
    on = set(matching.labels) if matching is not None else None

    def key(labels: Labels) -> Labels:
        return labels if on is None else frozenset(one for one in labels if one[0] in on)

    there = {key(labels) for labels in right}
    if op == "and":
        return {labels: value for labels, value in left.items() if key(labels) in there}
    if op == "unless":
        return {labels: value for labels, value in left.items() if key(labels) not in there}
    raise NotInOurPart(node.prettify())


def _selects(selector: Any, one: Sample) -> bool:
    return selector.name == one.name and all(_matches(m, one) for m in selector.matchers.matchers)


def _matches(matcher: Any, one: Sample) -> bool:
    value, wanted = one.labels.get(matcher.name, ""), matcher.value
    match str(matcher.op).rpartition(".")[2]:
        case "Equal":
            return value == wanted
        case "NotEqual":
            return value != wanted
        case "Re":
            return re.fullmatch(wanted, value) is not None
    raise NotInOurPart(str(matcher.op))


def _kept(labels: Mapping[str, str]) -> Labels:
    return frozenset((name, value) for name, value in labels.items() if value)
