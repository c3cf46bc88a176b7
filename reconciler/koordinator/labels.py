"""Distinct sets of labels, so that a selector is asked once about each."""

from collections.abc import Mapping

import numpy as np

from kernels.types import Mask
from reconciler.koordinator.selectors import LabelSelector


class LabelCodes:
    """Label sets by number, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._codes: dict[frozenset[tuple[str, str]], int] = {}
        self._sets: list[Mapping[str, str]] = []

    def code(self, labels: Mapping[str, str]) -> int:
        """The number of a label set."""
        key = frozenset(labels.items())
        if key not in self._codes:
            self._codes[key] = len(self._sets)
            self._sets.append(labels)
        return self._codes[key]

    def matching(self, selector: LabelSelector) -> Mask:
        """(L,) which of the label sets a selector matches."""
        return np.array([selector.matches(labels) for labels in self._sets], dtype=np.bool_)
