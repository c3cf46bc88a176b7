"""`best-fit` and `spread`: by how much is left of a device, of its counter sets, and of its node."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.state import State, layout_of
from reconciler.allocation.policies.by_device import in_order, node_keys
from reconciler.allocation.policies.policy import LAST, Question, SetJudge
from reconciler.allocation.policies.room_left import WHOLE, left_of, left_of_set, left_of_sets
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

SETS = 2**20
"""More than the thousandths of all counters of a device's sets: at least a thousand counters"""
DEVICES = 2**16
"""Devices of one node that are counted"""


class Tightness(Struct, frozen=True):
    """Prefers the device of which least is left, then the fullest set, then the fullest node.

    What is left of a node is the number of its devices that the request could take.
    """

    name: str
    most: bool
    """Prefer the most instead of the least"""
    seed: int = 0
    digest: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """See `DevicePolicy`."""
        return (self.name,)

    def nodes(self, question: Question, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        return node_keys(self, question, among)

    def devices(self, question: Question, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return in_order(self, candidates, view, question.snapshot)

    def sets(self, question: Question, view: View) -> SetJudge | None:
        """See `Policy.sets`."""
        return SetTightness(view, question.snapshot, most=self.most)

    def judge(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge`."""
        sets = np.minimum(left_of_sets(rows, snapshot), SETS - 1)
        left = left_of(tuple(option.capacity), rows, snapshot) * SETS + sets
        return WHOLE * SETS + SETS - left if self.most else left

    def judge_nodes(self, option: RequestOption, least: Amounts, snapshot: Snapshot) -> Amounts:
        """See `DevicePolicy.judge_nodes`."""
        count = available(option, snapshot).per_node[np.maximum(snapshot.topology.order_codes, -1)]
        count = np.minimum(count, DEVICES - 1)
        count = DEVICES - 1 - count if self.most else count
        found: Amounts = np.where(least < LAST, least, 0) * DEVICES + count
        return np.where(least < LAST, found, LAST)


class SetTightness:
    """Sets by what is left of their devices now, and of counter sets after all devices are taken."""

    def __init__(self, view: View, snapshot: Snapshot, *, most: bool) -> None:
        self._view, self._snapshot, self._most = view, snapshot, most
        self._left: dict[tuple[str, ...], Amounts] = {}
        self.classes: Codes = np.zeros(len(view.rows), dtype=np.int32)
        """(n,) see `SetJudge.classes`"""

    def keys(self, states: Sequence[State]) -> Amounts:
        """See `SetJudge.keys`."""
        return np.array([self._key(state) for state in states], dtype=np.int64)

    def _key(self, state: State) -> int:
        layout = layout_of(self._view)
        of_set = left_of_set(state.left, self._snapshot.fleet.totals[layout.used])
        total = 0
        for _, candidates, at in state.chosen:
            sets = layout.sets[at]
            left = min(int(of_set[sets[sets >= 0]].sum()), SETS - 1)
            left += int(self._left_of(candidates)[at]) * SETS
            total += WHOLE * SETS + SETS - left if self._most else left
        return total

    def _left_of(self, candidates: Candidates) -> Amounts:
        names = tuple(candidates.option.capacity)
        if names not in self._left:
            self._left[names] = left_of(names, self._view.rows, self._snapshot)
        return self._left[names]


BEST_FIT = Tightness("best-fit", most=False)
SPREAD = Tightness("spread", most=True)
