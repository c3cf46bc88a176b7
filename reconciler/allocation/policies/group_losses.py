"""What shapes of several devices lose on each node when a request takes devices there."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.wanted import COUNTS, Wanted
from reconciler.state.caches import Cache
from reconciler.state.devices.occupancy.trail import Trail
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

KEPT = 4096
"""Pairs of requests whose common nodes are cached for one fleet"""

_MEETING: Cache[Fleet, OrderedDict[tuple[RequestKey, RequestKey], Amounts]] = Cache(lambda _: OrderedDict())


class GroupLosses:
    """Losses of one demand for one request. Valid for one fleet; follows the allocations.

    A device of a group counts for a part of the weight already. These are the differences to what is really
    lost: a group less, or none.
    """

    def __init__(self, wanted: Sequence[Wanted], option: RequestOption, snapshot: Snapshot) -> None:
        """`wanted` are the requests of the demand.

        Those of one device lose nothing more, and neither do those that use none of the devices of `option`.
        """
        taken = max(option.source.wanted, 1)
        lost = [
            (one, taken * meets)
            for one in wanted
            if one.count > 1 and (meets := _meets(one.option, option, snapshot)).any()
        ]
        self._groups = [one for one, _ in lost]
        self._count: Amounts = np.array([[one.count] for one in self._groups], dtype=np.int64)
        self._weight: Amounts = np.array([[one.weight] for one in self._groups], dtype=np.int64)
        self._lost: Amounts = np.array([each for _, each in lost], dtype=np.int64)
        self._trail: Trail = snapshot.occupancy.trail
        self._serial = snapshot.occupancy.serial
        count = len(snapshot.fleet.vocabulary.nodes.values) + 1
        self.of_node: Amounts = np.zeros(count, dtype=np.int64)
        """(N + 1,) by the fleet's code of the node; weight x `COUNTS`"""
        self.none = not self._groups
        """Whether nothing is lost anywhere"""
        self._evaluate(np.arange(count), snapshot)

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the losses to a snapshot."""
        return self._trail is snapshot.occupancy.trail and self._serial <= snapshot.occupancy.serial

    def follow(self, snapshot: Snapshot) -> None:
        """Update the losses to a snapshot. The cost depends on the nodes that changed in between."""
        serial = snapshot.occupancy.serial
        if serial != self._serial and self._groups:
            nodes = snapshot.fleet.codes["node"][self._trail.between(self._serial, serial)]
            self._evaluate(np.array(sorted(set(nodes[nodes >= 0].tolist())), dtype=np.intp), snapshot)
        self._serial = serial

    def _evaluate(self, nodes: Rows, snapshot: Snapshot) -> None:
        if not self._groups or not len(nodes):
            return
        before = np.array([available(one.option, snapshot).per_node[nodes] for one in self._groups])
        lost = self._lost[:, nodes]
        left = np.maximum(before - lost, 0)
        whole = self._weight * COUNTS * (before // self._count - left // self._count)
        self.of_node[nodes] = (whole - self._weight * (COUNTS // self._count) * lost).sum(axis=0)


def _meets(one: RequestOption, other: RequestOption, snapshot: Snapshot) -> Amounts:
    """(N + 1,) 1 for nodes, by the fleet's code, with a device that both requests may take."""
    known, at = _MEETING.of(snapshot.fleet), (one.key, other.key)
    if at not in known:
        both = match_in_fleet(one, snapshot).suitable & match_in_fleet(other, snapshot).suitable
        found = np.zeros(len(snapshot.fleet.vocabulary.nodes.values) + 1, dtype=np.int64)
        found[snapshot.fleet.codes["node"][both]] = 1
        found[-1] = 0  # devices without a node
        known[at] = found
        if len(known) > KEPT:
            known.popitem(last=False)
    return known[at]
