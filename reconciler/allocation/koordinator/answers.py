"""Answers that machines in one state share: what was found for one of them holds for all."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

A = TypeVar("A")

KEPT = 1 << 14
"""Maximum number of answers that are kept."""


class Answers(Generic[A]):
    """The most recently used answers, by what was asked."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._answers: OrderedDict[Hashable, A] = OrderedDict()

    def recall(self, asked: Hashable) -> A | None:
        """The answer; None if it is not known."""
        found = self._answers.get(asked)
        if found is not None:
            self._answers.move_to_end(asked)
        return found

    def keep(self, asked: Hashable, answer: A) -> A:
        """Remember an answer."""
        self._answers[asked] = answer
        if len(self._answers) > self._kept:
            self._answers.popitem(last=False)
        return answer
