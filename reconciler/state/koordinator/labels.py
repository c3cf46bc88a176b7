"""Codes for labels of devices and virtual functions, so that a selector is evaluated once for each."""

from collections.abc import Mapping

import numpy as np

from kernels.types import Mask
from reconciler.api.koordinator.selectors import LabelSelector

KEPT = 128
"""Maximum number of selectors in the cache."""

LabelSet = Mapping[str, str]


class LabelCodes:
    """Codes of collections of label sets, in the order of their first use.

    A device has one label set; its virtual functions have one for each group.
    """

    def __init__(self) -> None:
        self._codes: dict[frozenset[frozenset[tuple[str, str]]], int] = {}
        self._collections: list[tuple[LabelSet, ...]] = []
        self._answers: dict[str, Mask] = {}
        """Selector -> matches; the last used selector is at the end."""

    def code(self, *label_sets: LabelSet) -> int:
        """The code of a collection."""
        key = frozenset(frozenset(labels.items()) for labels in label_sets)
        if key not in self._codes:
            self._codes[key] = len(self._collections)
            self._collections.append(label_sets)
        return self._codes[key]

    def matching(self, selector: LabelSelector) -> Mask:
        """(L,) which collections have a label set that a selector matches.

        Evaluates only collections that are new since the last call.
        """
        key = selector.model_dump_json()
        known = self._answers.pop(key, None)
        if known is None or len(known) < len(self._collections):
            before = known if known is not None else np.zeros(0, dtype=np.bool_)
            new = [any(map(selector.matches, sets)) for sets in self._collections[len(before) :]]
            known = np.concatenate([before, np.array(new, dtype=np.bool_)])
        self._answers[key] = known
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]
        return known
