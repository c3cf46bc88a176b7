"""Pods that use a decision's claims together: which devices and which choices have nodes for all of them."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from kernels.groups import distinct
from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.state import Choice
from reconciler.state.devices.snapshot import Snapshot, View

_HERE, _EVERYWHERE = -2, -1
"""Reach of a device: only its node, all nodes; otherwise the code of its selector"""


class Companions(Protocol):
    """The pods."""

    def fit(self, reach: Sequence[Mask], spend: Callable[[], object] = ...) -> bool:
        """Whether all pods fit on nodes that reach their claims. `spend` is called at every step.

        reach (nodes,) for each claim of the decision, in the order of `Topology.order`
        """

    def refusal(self) -> str:
        """Why a decision is refused that does not serve all of them."""


class Reach:
    """The nodes that reach the devices of one node's view. The answers are those of `companions`."""

    def __init__(
        self, companions: Companions, claims: int, view: View, snapshot: Snapshot, budget: Budget
    ) -> None:
        """`claims` is the number of claims of the decision. Methods raise what `budget` raises."""
        self._companions = companions
        self._budget = budget
        self._snapshot = snapshot
        self._rows: Rows = view.rows
        fleet = snapshot.fleet
        here = (fleet.codes["node"][view.rows] >= 0) | fleet.binds[view.rows]
        self.codes: Codes = np.where(here, _HERE, fleet.codes["selector"][view.rows]).astype(np.int32)
        """(n,) the reach of each device"""
        self._everywhere = np.ones(len(snapshot.topology.order), dtype=np.bool_)
        self._claims = claims
        self._masks: dict[int, Mask] = {_EVERYWHERE: self._everywhere, _HERE: self._only(view.node.name)}
        self._verdicts: dict[tuple[int, int], bool] = {}

    def usable(self, candidates: Candidates) -> Mask:
        """(n,) devices that may be chosen: with any of them alone, all pods fit."""
        claim, found = candidates.option.claim, np.zeros(len(self._rows), dtype=np.bool_)
        for code in distinct(self.codes[candidates.available]).tolist():
            if (claim, code) not in self._verdicts:
                reach = [self._everywhere] * self._claims
                reach[claim] = self._mask(code)
                self._verdicts[claim, code] = self._companions.fit(reach, self._budget.spend)
            if self._verdicts[claim, code]:
                found |= self.codes == code
        return found

    def accepts(self, chosen: Sequence[Choice]) -> bool:
        """Whether all pods fit with the chosen devices together."""
        reach = [self._everywhere] * self._claims
        for choice in chosen:
            claim = choice.candidates.option.claim
            reach[claim] = reach[claim] & self._mask(int(self.codes[choice.at]))
        return self._companions.fit(reach, self._budget.spend)

    def _mask(self, code: int) -> Mask:
        if code not in self._masks:
            topology = self._snapshot.topology
            places, selectors = topology.selected()
            found = np.zeros(len(topology.order), dtype=np.bool_)
            found[places[selectors == code]] = True
            self._masks[code] = found
        return self._masks[code]

    def _only(self, name: str) -> Mask:
        found = np.zeros(len(self._everywhere), dtype=np.bool_)
        found[self._snapshot.topology.order.index(name)] = True
        return found
