"""What a policy is: it orders nodes, then devices and sets of them on a node. It never decides what is
allowed. The common part of policies that judge devices.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from kernels.domains import Crowd, below_greatest, between, of_greatest, uncrowded
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import RequestKey, RequestOption, Slot
from reconciler.allocation.dra.state import State, layout_of
from reconciler.allocation.policies.compiled_demand import WHOLE, left_of, left_of_set, left_of_sets
from reconciler.state.caches import Cache, Recent
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot, View

if TYPE_CHECKING:
    from reconciler.allocation.dra.request_options import ParsedClaims


UNKNOWN_CORES = 2**40
"""Free thousandths of a CPU where they are not known; more count as so many"""


TAINT_TOLERATION = 3
NODE_AFFINITY = POD_TOPOLOGY_SPREAD = INTER_POD_AFFINITY = 2
"""The weights of kube-scheduler's plugins in its default configuration"""


class PodPreferences(Struct, frozen=True, eq=False):
    """The raw sums of one pod for N nodes, in the order of `Topology.order`. Frozen when it is made."""

    first: bool = False
    """Whether points come before the keys of the policy. Otherwise they decide between equal keys"""
    with_first_fit: bool = False
    """Whether they count for claims without a policy, too: first fit finds all nodes equal"""
    untolerated: Amounts | None = None
    """(N,) taints with `PreferNoSchedule` that the pod does not tolerate"""
    matching: Amounts | None = None
    """(N,) weights of preferred node affinity that match"""
    near: Amounts | None = None
    """(N,) weights of preferred affinity and anti-affinity, of the pod and of others"""
    crowds: Sequence[Crowd] = ()
    """One for each spread constraint with `ScheduleAnyway`"""
    spreadable: Mask | None = None
    """(N,) nodes with the labels of all these constraints; None without any"""

    def points(self, among: Mask) -> Amounts:
        """(N,) points of the nodes in `among` (N,); the most is the best."""
        total: Amounts = np.zeros(len(among), dtype=np.int64)
        if self.untolerated is not None:
            total += TAINT_TOLERATION * below_greatest(self.untolerated, among)
        if self.matching is not None:
            total += NODE_AFFINITY * of_greatest(self.matching, among)
        if self.spreadable is not None:
            total += POD_TOPOLOGY_SPREAD * uncrowded(self.crowds, self.spreadable, among)
        if self.near is not None:
            total += INTER_POD_AFFINITY * between(self.near, among)
        return total


class PodRoom(Struct, frozen=True, eq=False):
    """What the pod of the claims needs of a node besides devices, and what it prefers."""

    cores: int
    """Thousandths of a CPU"""
    free: Amounts
    """(N,) thousandths of a CPU that are free, in the order of `Topology.order`"""
    preferences: PodPreferences | None = None
    """None if they do not count, or all nodes are the same to the pod"""


LAST = np.iinfo(np.int64).max
"""The key of what a policy knows nothing about"""


class PolicyQuestion(Struct, frozen=True, eq=False):
    """What a policy may look at."""

    parsed: "ParsedClaims"
    snapshot: Snapshot
    pod: PodRoom | None = None
    """None if the pod is not known, or if the policy does not look at it"""


class SetJudge(Protocol):
    """Judges sets of devices of one node, of n devices, as the policy judges single ones."""

    @property
    def classes(self) -> Codes:
        """(n,) not negative. Equal for devices that may replace each other in a set, if both fit."""

    def keys(self, states: Sequence["State"]) -> Amounts:
        """(K,) keys of what is chosen in each state; the least is preferred."""


class Policy(Protocol):
    """An order of candidates. Deterministic: equal questions get equal orders."""

    @property
    def name(self) -> str:
        """As the setting names it."""

    @property
    def seed(self) -> int:
        """Where the random numbers of the policy start; 0 for a policy without any."""

    @property
    def digest(self) -> str:
        """Identifies the demand that the policy uses; empty for a policy without one."""

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:
        """(N,) keys of nodes: the least is tried first, and equal keys in order of nodes.

        Only the keys of nodes in `among` (N,) count. None for the order of nodes.
        """

    def devices(self, question: PolicyQuestion, candidates: "Candidates", view: View) -> Rows | None:
        """(n,) all positions of a view, the preferred first; None for first-fit order."""

    def sets(self, question: PolicyQuestion, view: View) -> SetJudge | None:
        """Judges sets of devices of a node; None to choose devices one by one."""


Judge = Callable[[RequestOption, Rows, Snapshot], Amounts]
"""(option, (n,) rows of the fleet, snapshot) -> (n,) keys of devices that are available, all below `LAST`"""

FEW_NODES = 32
"""Changed nodes up to which each is evaluated on its own"""


class DeviceKeys:
    """The D keys for one request option. Valid for one fleet."""

    def __init__(self, option: RequestOption, judge: Judge, snapshot: Snapshot) -> None:
        self._option = option
        self._judge = judge
        self._available = available(option, snapshot)
        self._trail: Trail = snapshot.occupancy.trail
        self._serial = snapshot.occupancy.serial
        fleet = snapshot.fleet
        self._nodes = fleet.codes["node"]
        rows = np.flatnonzero(self._available.concerned)
        rows = rows[np.argsort(self._nodes[rows], kind="stable")]
        self._spread = rows[: np.count_nonzero(self._nodes[rows] < 0)]
        self._local = rows[len(self._spread) :]
        count = len(fleet.vocabulary.nodes.values) + 1
        self._start = np.searchsorted(self._nodes[self._local], np.arange(count + 1))
        self._filled = np.flatnonzero(self._start[1:] > self._start[:-1])
        self.of_row: Amounts = np.full(fleet.size, LAST, dtype=np.int64)
        """(D,) `LAST` for devices that are not available"""
        self.of_node: Amounts = np.full(count, LAST, dtype=np.int64)
        """(N + 1,) the least key of the devices that belong to a node, by the fleet's code of the node"""
        self._evaluate(rows, snapshot)
        self._reduce_all()

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the keys to a snapshot."""
        return self._trail is snapshot.occupancy.trail and self._serial <= snapshot.occupancy.serial

    def follow(self, snapshot: Snapshot) -> Available:
        """Update the keys to a snapshot; return what is available there. The cost depends on what changed."""
        self._available = available(self._option, snapshot)
        serial = snapshot.occupancy.serial
        if serial != self._serial:
            rows = self._trail.between(self._serial, serial)
            self._serial = serial
            rows = rows[self._available.concerned[rows]]
            if len(rows):
                self._evaluate(rows, snapshot)
                self._reduce(rows)
        return self._available

    def least_anywhere(self) -> int:
        """The least key of the devices that several nodes reach."""
        return int(self.of_row[self._spread].min(initial=LAST))

    def _evaluate(self, rows: Rows, snapshot: Snapshot) -> None:
        self.of_row[rows] = LAST
        rows = rows[self._available.mask[rows]]
        if len(rows):
            self.of_row[rows] = self._judge(self._option, rows, snapshot)

    def _reduce(self, rows: Rows) -> None:
        nodes = set(self._nodes[rows].tolist())
        if len(nodes) > FEW_NODES:
            self._reduce_all()
            return
        for node in nodes:
            if node >= 0:
                of_node = self._local[self._start[node] : self._start[node + 1]]
                self.of_node[node] = self.of_row[of_node].min(initial=LAST)

    def _reduce_all(self) -> None:
        if len(self._filled):
            self.of_node[self._filled] = np.minimum.reduceat(
                self.of_row[self._local], self._start[self._filled]
            )


KEPT = 256
"""Keys of so many request options are cached for one fleet, at least."""
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


_KEYS: Cache[Fleet, Recent[tuple[tuple[str, ...], RequestKey], DeviceKeys]] = Cache(lambda _: Recent(KEPT))
"""The keys follow the allocations of one snapshot, so a fork has its own."""


def keys_of(policy: DevicePolicy, option: RequestOption, snapshot: Snapshot) -> tuple[DeviceKeys, Available]:
    """The keys of all devices for a request option in a snapshot, and which of them are available."""
    of_fleet = _KEYS.of(snapshot.fleet)
    at = policy.key, option.key
    found = of_fleet.get(at)
    if found is None or not found.reaches(snapshot):
        found = of_fleet.put(at, DeviceKeys(option, policy.judge, snapshot))
    return found, found.follow(snapshot)


def node_keys(policy: DevicePolicy, question: PolicyQuestion, among: Mask) -> Amounts:
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

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        return node_keys(self, question, among)

    def devices(self, question: PolicyQuestion, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        return in_order(self, candidates, view, question.snapshot)

    def sets(self, question: PolicyQuestion, view: View) -> SetJudge | None:
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
