"""What one empty node of a shape can hold: patterns, which say how many of each item."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.world import world_of
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.shapes import Shape
from reconciler.analysis.sizing.trying import Placer
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.snapshot.snapshot import Snapshot

Pattern = tuple[int, ...]
"""How many of each item, in the order of the items"""

MOST_QUESTIONS = 400
"""Patterns that are tested to list all that a node can hold"""


class EmptyNode:
    """One node of a shape, alone in the world. The allocator itself tries what fits on it."""

    def __init__(
        self,
        shape: Shape,
        items: Sequence[Item],
        classes: Iterable[DeviceClass],
        rules: Semantics,
        steps: int,
    ) -> None:
        self.shape = shape
        self._items = items
        self._placer = Placer(world_of([shape.node, *shape.slices, *classes], rules, may_suppose=True), steps)
        self.snapshot: Snapshot = self._placer.trial.snapshot
        """Of the empty node"""
        self._filled: dict[tuple[Pattern, Pattern], Pattern] = {}
        self._answers: dict[Pattern, bool | None] = {}
        self.refusals: dict[int, NoFit] = {}
        """Item -> why not even one fits"""

    def fill(self, order: Sequence[int], left: Sequence[int]) -> Pattern:
        """Place as many of each item as fit and are left, one item after another in this order."""
        key = tuple(order), tuple(left)
        if key not in self._filled:
            self._filled[key] = self._fill(order, left)
        return self._filled[key]

    def _fill(self, order: Sequence[int], left: Sequence[int]) -> Pattern:
        placer, number = self._placer, 0
        found = [0] * len(self._items)
        for item in order:
            if item in self.refusals:
                continue
            while found[item] < left[item]:
                number += 1
                refused = placer.place(self._items[item].copy(number))
                if refused is not None:
                    if not any(found):
                        self.refusals[item] = refused
                    break
                found[item] += 1
        placer.trial.back_to(0)
        pattern = tuple(found)
        self._answers[pattern] = True
        return pattern

    def holds(self, pattern: Pattern) -> bool | None:
        """Whether the node can hold all of a pattern at once; None if the search gave up."""
        if pattern not in self._answers:
            order = [item for item, count in enumerate(pattern) if count]
            if self.fill(order, pattern) == pattern:  # by far the fastest, where it succeeds
                return True
            units, number = [], 0
            for item in order:
                for _ in range(pattern[item]):
                    number += 1
                    units.append(self._items[item].copy(number))
            self._answers[pattern] = self._placer.fit_together(units)
            self._placer.trial.back_to(0)
        return self._answers[pattern]

    def all_patterns(self, left: Sequence[int]) -> frozenset[Pattern] | None:
        """Every pattern within `left` that the node can hold and that no other one contains.

        None if there may be too many, or if the search gave up on one.
        """
        alone = [self.fill([item], _only(item, left))[item] for item in range(len(left))]
        if prod(count + 1 for count in alone) > MOST_QUESTIONS:
            return None
        held: set[Pattern] = set()
        asked: set[Pattern] = set()
        pending: list[Pattern] = [(0,) * len(self._items)]
        while pending:
            pattern = pending.pop()
            for larger in _larger(pattern, left):
                if larger in asked:
                    continue
                asked.add(larger)
                answer = self.holds(larger)
                if answer is None:
                    return None
                if answer:
                    held.add(larger)
                    pending.append(larger)
        return frozenset(
            pattern for pattern in held if not any(larger in held for larger in _larger(pattern, left))
        )


def _only(item: int, left: Sequence[int]) -> Pattern:
    return tuple(count if at == item else 0 for at, count in enumerate(left))


def _larger(pattern: Pattern, left: Sequence[int]) -> Iterator[Pattern]:
    """The patterns with one more of one item."""
    for item, count in enumerate(pattern):
        if count < left[item]:
            yield (*pattern[:item], count + 1, *pattern[item + 1 :])
