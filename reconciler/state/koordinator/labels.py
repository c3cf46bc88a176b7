"""Codes for distinct label sets, so that a selector is evaluated once for each."""

from collections.abc import Mapping

import numpy as np

from kernels.types import Mask
from reconciler.api.koordinator.selectors import LabelSelector

KEPT = 128
"""Maximum number of selectors in the cache."""


class LabelCodes:
    """Codes of label sets, in the order of their first use."""

    def __init__(self) -> None:
        self._codes: dict[frozenset[tuple[str, str]], int] = {}
        self._sets: list[Mapping[str, str]] = []
        self._answers: dict[str, Mask] = {}
        """Selector -> matches; the last used selector is at the end."""

    def code(self, labels: Mapping[str, str]) -> int:
        """The code of a label set."""
        key = frozenset(labels.items())
        if key not in self._codes:
            self._codes[key] = len(self._sets)
            self._sets.append(labels)
        return self._codes[key]

    def matching(self, selector: LabelSelector) -> Mask:
        """(L,) which label sets a selector matches. Evaluates only sets that are new since the last call."""
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
