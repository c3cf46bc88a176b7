"""What else stops fitting on a shared device when a request takes its share of it."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.dra.capacity import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.shares import Remembered, shares_of
from reconciler.allocation.policies.wanted import Wanted
from reconciler.state.devices.snapshot.snapshot import Snapshot


class SharedLosses:
    """Losses of one demand, remembered by what shares consume. Valid for one fleet."""

    def __init__(self, wanted: Sequence[Wanted], snapshot: Snapshot) -> None:
        self._wanted = wanted
        suits = [match_in_fleet(one.option, snapshot).suitable for one in wanted]
        self._model, self._first = _models(
            np.array(suits, dtype=np.bool_).reshape(len(wanted), snapshot.fleet.size)
        )
        self._known: dict[RequestKey, Remembered[tuple[int, int, int], int]] = {}

    def of(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """(n,) the weight, times `COUNTS`, of what fits the shared devices no longer."""
        number, shape = shares_of(rows, snapshot)
        states = list(zip(self._model[rows].tolist(), number.tolist(), shape.tolist(), strict=True))
        known = self._known.setdefault(option.key, Remembered()).of(snapshot.occupancy.consumptions)
        for state in set(states) - known.keys():
            known[state] = self._loss(option, *state, snapshot)
        return np.array([known[state] for state in states], dtype=np.int64)

    def _loss(self, option: RequestOption, model: int, number: int, shape: int, snapshot: Snapshot) -> int:
        taken = match_in_fleet(option, snapshot).consumption.get(shape)
        if not isinstance(taken, Consumption):
            return 0
        before = snapshot.occupancy.consumptions.values[number]
        after = taken.added_to(before)
        total = 0
        for one in self._wanted:
            static = match_in_fleet(one.option, snapshot)
            theirs = static.consumption.get(shape)
            if static.suitable[self._first[model]] and isinstance(theirs, Consumption):
                total += one.of_device * (theirs.fits(before) and not theirs.fits(after))
        return total


def _models(suits: np.ndarray) -> tuple[Codes, Rows]:
    """(D,) the same number for devices that suit the same requests, and (M,) the first device of each.

    suits (W, D)  whether a device suits a request
    """
    model = np.zeros(suits.shape[1], dtype=np.int64)
    for eight in np.packbits(suits, axis=0):
        model = np.unique(model << 8 | eight, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(model, return_index=True)
    return model.astype(np.int32), first.astype(np.intp)
