"""Groups of devices of one node with the same value of an attribute, and their sizes."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.preferences import limit
from reconciler.allocation.dra.constraints import Constraint, compile_constraint
from reconciler.allocation.dra.request_options import RequestOption, Slot
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.pools.fleet import Fleet

Masks = Mapping[int, Mask]
"""id of an option -> (D,) devices"""


class Groups(Struct, frozen=True, eq=False):
    """The G groups of a tier, over the D devices of a fleet."""

    tier: str
    constraint: Constraint
    of: Rows
    """(D,) a device's group, -1 for none"""
    node: Rows
    """(G,) the fleet's code of the node"""
    value: Rows
    """(G,) the code of the value in `constraint`"""

    def passed_by(self, groups: Mask) -> Mask:
        """(D,) the devices of some groups (G,)."""
        found: Mask = np.append(groups, np.False_)[self.of]  # index -1 selects the appended False
        return found

    def lacking(self, slots: Sequence[Slot], masks: Masks) -> Amounts:
        """(slots, G) how many devices each group lacks for each request, in its best alternative."""
        short = [
            np.min(
                [
                    np.maximum(option.source.wanted - self._counts(option, masks), 0)
                    for option in slot.options
                ],
                axis=0,
            )
            for slot in slots
        ]
        return np.array(short)

    def have(self, option: RequestOption, masks: Masks, group: int) -> int:
        """The number of devices in a group that pass the gates of an option."""
        return int(self._counts(option, masks)[group])

    def pairs(self, slots: Sequence[Slot], masks: Masks) -> Amounts:
        """(G,) how many sets with one device for each request."""
        found: Amounts = np.min([self._counts(slot.options[0], masks) for slot in slots], axis=0)
        return found

    def text(self, group: int) -> str:
        """`numaNode 1`."""
        key = self.constraint.keys[int(self.value[group])]
        value = key[1] if isinstance(key, tuple) else key
        return f"{self.tier} {str(value).lower() if isinstance(value, bool) else value}"

    def _counts(self, option: RequestOption, masks: Masks) -> Amounts:
        there = self.of[masks[id(option)]]
        return np.bincount(there[there >= 0], minlength=len(self.node))


def groups_of(tier: str, fleet: Fleet, rules: Semantics) -> Groups:
    """The groups of a tier. Devices without a single node are in no group."""
    constraint = compile_constraint(limit(tier, ()), fleet, np.arange(fleet.size), rules)
    codes, node = constraint.codes.astype(np.int64), fleet.codes["node"].astype(np.int64)
    values = int(codes.max(initial=-1)) + 1
    pair = np.where((codes >= 0) & (node >= 0), node * values + codes, -1)
    used, of = np.unique(np.append(pair, -1), return_inverse=True)
    used = used[1:]
    return Groups(tier, constraint, of.reshape(-1)[:-1] - 1, used // max(values, 1), used % max(values, 1))
