"""The common part of policies that judge devices: keys of nodes and orders of positions follow from them."""

from collections import OrderedDict
from typing import Protocol

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.availability import Available
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.allocation.policies.device_keys import DeviceKeys
from reconciler.allocation.policies.policy import LAST, Question
from reconciler.state.caches import Cache
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

KEPT = 512
"""Keys of at most so many request options are cached for one fleet."""
FARTHEST = 2**52
"""No key of a node's device counts for more, so that keys of several requests can be added"""


class DevicePolicy(Protocol):
    """What differs between policies that judge devices."""

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for policies that judge alike."""

    def judge(self, option: RequestOption, rows: Rows, snapshot: Snapshot) -> Amounts:
        """(n,) keys of available devices, which are rows of the fleet; the least is preferred."""

    def judge_nodes(self, option: RequestOption, least: Amounts, snapshot: Snapshot) -> Amounts:
        """(N,) keys of nodes from the least key of their devices (N,), `LAST` where there is none."""


_KEYS: Cache[Fleet, OrderedDict[tuple[tuple[str, ...], RequestKey], DeviceKeys]] = Cache(
    lambda _: OrderedDict()
)
"""The keys follow the allocations of one snapshot, so a fork has its own."""


def keys_of(policy: DevicePolicy, option: RequestOption, snapshot: Snapshot) -> tuple[DeviceKeys, Available]:
    """The keys of all devices for a request option in a snapshot, and which of them are available."""
    of_fleet = _KEYS.of(snapshot.fleet)
    at = policy.key, option.key
    found = of_fleet.get(at)
    if found is None or not found.reaches(snapshot):
        found = of_fleet[at] = DeviceKeys(option, policy.judge, snapshot)
        if len(of_fleet) > KEPT:
            of_fleet.popitem(last=False)
    of_fleet.move_to_end(at)
    return found, found.follow(snapshot)


def node_keys(policy: DevicePolicy, question: Question, among: Mask) -> Amounts:
    """(N,) the sum over all requests of the keys of their first alternatives that a node has devices for."""
    of_slots = [_of_slot(policy, slot, question.snapshot) for slot in question.parsed.slots]
    if len(of_slots) == 1:
        return of_slots[0]
    total: Amounts = np.zeros(len(among), dtype=np.int64)
    for keys in of_slots:
        total += keys
    return total


def _of_slot(policy: DevicePolicy, slot: Slot, snapshot: Snapshot) -> Amounts:
    codes = np.maximum(snapshot.topology.order_codes, -1)
    found: Amounts | None = None
    for option in reversed(slot.options):
        keys, available = keys_of(policy, option, snapshot)
        least = keys.of_node[codes]
        if not available.local:
            least = np.minimum(least, keys.least_anywhere())
        judged = np.minimum(policy.judge_nodes(option, least, snapshot), FARTHEST)
        found = judged if found is None else np.where(least < LAST, judged, found)
    assert found is not None  # a request has an alternative at least
    return found


def in_order(policy: DevicePolicy, candidates: Candidates, view: View, snapshot: Snapshot) -> Rows:
    """(n,) the positions of a view by their keys, equal keys by position."""
    keys, _ = keys_of(policy, candidates.option, snapshot)
    return np.argsort(view.of(keys.of_row), kind="stable")
