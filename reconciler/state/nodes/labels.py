"""Labels and taints of nodes as columns, and which pods tolerate them. Source: core/v1, Taint and Toleration.

A selector requirement is evaluated once for each distinct value.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.core import Node, NodeSpec, NodeStatus, Taint, Toleration
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.state.caches import Forkable

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def widened(column: Array, size: int) -> Array:
    """The same column if it has `size` rows, else a copy with twice as many; new rows are zero.

    column (..., n)
    ->     (..., m)  m at least `size`
    """
    have = column.shape[-1]
    if have >= size:
        return column
    wider = np.zeros((*column.shape[:-1], 2 * size), dtype=column.dtype)
    wider[..., :have] = column
    return wider  # type: ignore[return-value]


KEPT = 256
"""Most columns kept. Each label key that was used recently has one."""
SPARE = 64
"""A column with more values than this plus two for each row is rebuilt."""


class _Column(Forkable):
    """The values of one key, as codes."""

    def __init__(self) -> None:
        self.codes: Codes = np.zeros(0, dtype=np.int32)
        """(N or more,) 0 where the label is missing"""
        self.values: dict[str, int] = {}
        """Codes start at 1"""

    def put(self, row: int, value: str | None) -> None:
        if row >= len(self.codes):
            self.codes = widened(self.codes, row + 1)
        self.codes[row] = 0 if value is None else self.values.setdefault(value, len(self.values) + 1)


class LabelColumns(Forkable):
    """The labels of all rows. Nodes may be removed; a row without a node has no labels."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        """`rows` are the rows of names, for selectors of names; the owner keeps them up to date."""
        self._rows = rows
        self._labels: list[Mapping[str, str]] = []
        self._columns: OrderedDict[str, _Column] = OrderedDict()

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Set the labels of a row: an existing row or the next one."""
        if row == len(self._labels):
            self._labels.append(labels)
        self._labels[row] = labels
        if not self._columns:
            return
        for key, column in list(self._columns.items()):
            column.put(row, labels.get(key))
            if len(column.values) > 2 * len(self._labels) + SPARE:  # most values are out of use
                del self._columns[key]

    def drop(self, row: int) -> None:
        """Remove the labels of a row, which may be used again."""
        self.put(row, {})

    def have(self, wanted: Mapping[str, str]) -> Mask:
        """(N,) rows that have all these labels."""
        mask = np.ones(len(self._labels), dtype=np.bool_)
        for key, value in wanted.items():
            column = self._column(key)
            mask &= column.codes[: len(mask)] == column.values.get(value, -1)
        return mask

    def test(self, key: str, holds: Callable[[str | None], bool]) -> Mask:
        """(N,) a test of a label's value, or of None where it is missing; once for each distinct value."""
        column = self._column(key)
        verdict = np.array([holds(None), *map(holds, column.values)], dtype=np.bool_)
        found: Mask = verdict.take(column.codes[: len(self._labels)])
        return found

    def codes(self, key: str) -> tuple[Codes, int]:
        """(N,) the values of a label as codes, 0 where it is missing; and the number of codes."""
        column = self._column(key)
        return column.codes[: len(self._labels)], len(column.values) + 1

    def value_of(self, row: int, key: str) -> str | None:
        """The value of a label of one row; None if it is missing."""
        return self._labels[row].get(key)

    def values(self, key: str) -> list[str]:
        """The values of a label by their codes; the first is for code 0."""
        return ["", *self._column(key).values]

    def rows_with(self, key: str, values: Iterable[str]) -> Rows:
        """(n,) the rows whose label has one of these values, in order."""
        column = self._column(key)
        wanted = [column.values[value] for value in values if value in column.values]
        return np.flatnonzero(np.isin(column.codes[: len(self._labels)], wanted))

    def match(self, selector: NodeSelector) -> Mask:
        """(N,) rows that match a selector. Raises Rejected if it cannot be parsed."""
        selector.check()
        mask = np.zeros(len(self._labels), dtype=np.bool_)
        for term in selector.node_selector_terms:
            if term.match_expressions or term.match_fields:
                mask |= self._term(term)
        return mask

    def _term(self, term: NodeSelectorTerm) -> Mask:
        mask = np.ones(len(self._labels), dtype=np.bool_)
        for requirement in term.match_fields:
            mask &= self._named(requirement)
        for requirement in term.match_expressions:
            mask &= self._holds(requirement)
        return mask

    def _named(self, requirement: NodeSelectorRequirement) -> Mask:
        found = np.zeros(len(self._labels), dtype=np.bool_)
        for name in requirement.values:
            if name in self._rows:
                found[self._rows[name]] = True
        return found if requirement.operator == "In" else ~found

    def _holds(self, requirement: NodeSelectorRequirement) -> Mask:
        key = requirement.key
        return self.test(key, lambda value: requirement.holds({} if value is None else {key: value}))

    def _column(self, key: str) -> _Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column()
            for row, labels in enumerate(self._labels):
                column.put(row, labels.get(key))
            if len(self._columns) > KEPT:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        return column


UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

CLOSING = frozenset({UNSCHEDULABLE, NOT_READY, UNREACHABLE})
"""Taints that keep out all new pods except those of DaemonSets."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_KEEP_OUT = ("NoSchedule", "NoExecute")
_AVOID = "PreferNoSchedule"


class KnownNode(Struct, frozen=True, gc=False):
    """What is kept of a Node object: a tenth of its memory. Most nodes share their spec and status."""

    name: str
    labels: Mapping[str, str]
    spec: NodeSpec
    status: NodeStatus

    @classmethod
    def of(cls, node: Node) -> "KnownNode":
        """What is kept of a node."""
        return cls(node.metadata.name, node.metadata.labels, node.spec, node.status)

    def node(self) -> Node:
        """The object again, with what is kept of it."""
        return Node(
            metadata=ObjectMeta(name=self.name, labels=dict(self.labels)), spec=self.spec, status=self.status
        )


def taints_of(node: KnownNode) -> tuple[Taint, ...]:
    """The taints that keep pods out, sorted, with those that the control plane will add.

    The control plane taints a cordoned or unready node with a delay, and not in every cluster.
    """
    found = set(own_taints(node))
    if node.spec.unschedulable:
        found.add(_closing(UNSCHEDULABLE))
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            found.add(_closing(NOT_READY if condition.status == "False" else UNREACHABLE))
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect)))


def own_taints(node: KnownNode) -> tuple[Taint, ...]:
    """The taints of the Node object that keep pods out."""
    return tuple(taint for taint in node.spec.taints if taint.effect in _KEEP_OUT)


def soft_taints(node: KnownNode) -> tuple[Taint, ...]:
    """The taints of the Node object that pods should avoid."""
    return tuple(taint for taint in node.spec.taints if taint.effect == _AVOID)


def tolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether every taint is tolerated."""
    known = tuple(tolerations)
    return all(any(_tolerates(toleration, taint) for toleration in known) for taint in taints)


def _closing(key: str) -> Taint:
    return Taint(key=key, effect="NoSchedule")


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect matches any. An unknown operator tolerates nothing."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return _compares(toleration, taint)
    return toleration.operator == "Exists"


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Whether the value of a taint is above (Gt) or below (Lt) that of the toleration (FIT-9)."""
    bound, value = _integer(toleration.value), _integer(taint.value)
    if bound is None or value is None:
        return False
    return value > bound if toleration.operator == "Gt" else value < bound


def _integer(text: str) -> int | None:
    """A 64-bit decimal integer without a plus sign or leading zeros; None for anything else."""
    number = int(text) if _DECIMAL.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


class TaintSets(Forkable):
    """Some taints of each row of nodes. Most nodes have the same."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Taint, ...], int] = {(): 0}
        self._kind: Codes = np.zeros(0, dtype=np.int32)
        """(N or more,)"""
        self._of_row: list[tuple[Taint, ...]] = []

    def put(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Set the taints of a row: an existing row or the next one."""
        if row == len(self._of_row):
            self._of_row.append(())
        self._of_row[row] = taints
        self._kind = widened(self._kind, row + 1)
        self._kind[row] = self._kinds.setdefault(taints, len(self._kinds))
        if len(self._kinds) > 2 * len(self._of_row) + SPARE:  # most are out of use
            self._kinds = {(): 0}
            for at, kept in enumerate(self._of_row):
                self._kind[at] = self._kinds.setdefault(kept, len(self._kinds))

    def each(self, judge: Callable[[tuple[Taint, ...]], int]) -> Amounts:
        """(N,) the verdict on the taints of each row. `judge` is called once for each distinct set."""
        found: Amounts = np.array([judge(taints) for taints in self._kinds], dtype=np.int64)
        return found[self._kind[: len(self._of_row)]]

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """(N,) rows whose taints are all tolerated."""
        return self.each(lambda taints: tolerated(taints, tolerations)) > 0
