"""Distinct sets of labels, so that a selector is asked once about each."""

from collections.abc import Mapping

import numpy as np

from kernels.types import Mask
from reconciler.koordinator.selectors import LabelSelector

KEPT = 128
"""Selectors whose answers are kept."""


class LabelCodes:
    """Label sets by number, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._codes: dict[frozenset[tuple[str, str]], int] = {}
        self._sets: list[Mapping[str, str]] = []
        self._answers: dict[str, Mask] = {}
        """By selector, the one asked for last at the end."""

    def code(self, labels: Mapping[str, str]) -> int:
        """The number of a label set."""
        key = frozenset(labels.items())
        if key not in self._codes:
            self._codes[key] = len(self._sets)
            self._sets.append(labels)
        return self._codes[key]

    def matching(self, selector: LabelSelector) -> Mask:
        """(L,) which of the label sets a selector matches. Only sets that are new since are asked about."""
        key = selector.model_dump_json()
        known = self._answers.pop(key, None)
        if known is None or len(known) < len(self._sets):
            before = known if known is not None else np.zeros(0, dtype=np.bool_)
            new = [selector.matches(labels) for labels in self._sets[len(before) :]]
            known = np.concatenate([before, np.array(new, dtype=np.bool_)])
        self._answers[key] = known
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]
        return known
