"""How many devices each node still has for a request option. Kept up to date, so that most nodes are skipped.

A count may be too high, but never too low: what depends on a single node is not subtracted.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from kernels.groups import count_changes, distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.consumption import Consumption
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.static_match import Consumptions, StaticMatch, match_in_fleet
from reconciler.state.caches import Cache, Recent
from reconciler.state.devices.encoding.vocabulary import Name
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot

KEPT = 256
"""Counts of so many request options are cached for one fleet, at least."""


FEW = 16
"""Changed devices up to which they are counted one by one; most claims change fewer"""


class Available(Struct):
    """The devices of a fleet that a request option could take, and their number on each node."""

    static: StaticMatch
    """For the whole fleet, whatever is held"""
    admin: bool
    mask: Mask
    """(D,)"""
    per_node: Amounts
    """(N + 1,) devices that belong to one node, by the fleet's code of the node. The last entry is 0: it
    stands for nodes without devices"""
    per_selector: Amounts
    """(Q,) devices whose node selector decides who reaches them, by the code of that selector"""
    spanning: int
    """Devices that all nodes reach"""
    failing: Mask
    """(N + 1,) nodes where a device may be an error, whether it is held or not"""
    trail: Trail
    serial: int
    concerned: Mask
    """(D,) devices that `mask` may contain at some time"""
    local: bool
    """Whether each of those belongs to one node"""
    fails: bool
    """Whether some node is in `failing`"""
    values: dict[Name, Amounts]
    """Attribute -> (V,) devices per code of its value, for attributes of constraints"""

    def reaches(self, snapshot: Snapshot) -> bool:
        """Whether `follow` can update the counts to a snapshot."""
        return self.trail is snapshot.occupancy.trail and self.serial <= snapshot.occupancy.serial

    def _depends_on_shares(self, snapshot: Snapshot) -> bool:
        """Whether `free` does not say it all, because requests take different amounts."""
        static = self.static
        if static.asks is not None or static.modes is not None:
            return True
        return bool(static.consumption and snapshot.occupancy.consumed)

    def per_value(self, name: Name, fleet: Fleet) -> Amounts:
        """(V,) devices per value of an attribute."""
        if name not in self.values:
            codes = fleet.cel.attributes[name].codes[self.mask]
            self.values[name] = np.bincount(codes[codes >= 0], minlength=value_count(name, fleet))
        return self.values[name]

    def follow(self, snapshot: Snapshot) -> None:
        """Update mask and counts to a snapshot. The cost depends on what changed in between."""
        occupancy = snapshot.occupancy
        if occupancy.serial == self.serial:
            return
        before, self.serial = self.serial, occupancy.serial
        several = occupancy.serial - before > 1
        if self.local and (listed := self.trail.few_between(before, occupancy.serial, FEW)) is not None:
            self._follow_few(list(dict.fromkeys(listed)) if several else listed, snapshot)
            return
        rows = self.trail.between(before, occupancy.serial)
        rows = rows[self.concerned[rows]]
        now = judge(self.static, snapshot, rows, admin=self.admin)
        turned = now != self.mask[rows]
        rows, now = rows[turned], now[turned]
        if several and len(rows) > 1:  # a row that changed twice is listed twice
            once = dict(zip(rows.tolist(), now.tolist(), strict=True))
            if len(once) < len(rows):
                rows, now = np.array([*once], dtype=np.intp), np.array([*once.values()], dtype=np.bool_)
        if len(rows):
            self._turn(rows, now, snapshot.fleet)

    def _follow_few(self, rows: Sequence[int], snapshot: Snapshot) -> None:
        """The same for a few devices that belong to one node each: half the time of a dozen array calls.

        rows (n,)  distinct
        """
        could: Callable[[int], bool] = snapshot.occupancy.free.item
        if self.admin or self.static.fails or self._depends_on_shares(snapshot):
            now = judge(self.static, snapshot, np.array(rows, dtype=np.intp), admin=self.admin)
            could = dict(zip(rows, now.tolist(), strict=True)).__getitem__
        was, concerned = self.mask.item, self.concerned.item
        turned = [row for row in rows if concerned(row) and could(row) != was(row)]
        code_of = snapshot.fleet.codes["node"].item
        for row in turned:
            free = self.mask[row] = could(row)
            self.per_node[code_of(row)] += 1 if free else -1
        for name, counts in self.values.items():
            codes = snapshot.fleet.cel.attributes[name].codes
            for row in turned:
                if (code := codes.item(row)) >= 0:
                    counts[code] += 1 if could(row) else -1

    def _turn(self, rows: Rows, now: Mask, fleet: Fleet) -> None:
        """Make devices available or not available, in mask and counts. Each was the opposite before."""
        self.mask[rows] = now
        nodes = fleet.codes["node"][rows]
        if self.local:
            count_changes(self.per_node, nodes, now)
        else:
            local, selectors = nodes >= 0, fleet.codes["selector"][rows]
            selected = ~local & (selectors >= 0)
            count_changes(self.per_node, nodes[local], now[local])
            count_changes(self.per_selector, selectors[selected], now[selected])
            self.spanning += int(np.where(now, 1, -1)[~local & ~selected].sum())
        for name, counts in self.values.items():
            codes = fleet.cel.attributes[name].codes[rows]
            has = codes >= 0
            count_changes(counts, codes[has], now[has])


def value_count(name: Name, fleet: Fleet) -> int:
    """V: one more than the highest code of an attribute in this fleet. Later fleets may have more values."""
    codes = fleet.cel.attributes[name].codes
    return int(codes.max()) + 1 if len(codes) else 0


_AVAILABLE: Cache[Fleet, Recent[RequestKey, Available]] = Cache(lambda _: Recent(KEPT))
"""The counts follow the allocations of one snapshot, so a fork has its own."""


def available(option: RequestOption, snapshot: Snapshot) -> Available:
    """What is available for a request option in a snapshot. The caller must not change it."""
    of_fleet = _AVAILABLE.of(snapshot.fleet)
    found = of_fleet.get(option.key)
    if found is None or not found.reaches(snapshot):
        found = of_fleet.put(option.key, _count(option, snapshot))
    found.follow(snapshot)
    return found


def _count(option: RequestOption, snapshot: Snapshot) -> Available:
    fleet, static = snapshot.fleet, match_in_fleet(option, snapshot)
    concerned = static.suitable | static.fatal if static.fails else static.suitable
    occupancy = snapshot.occupancy
    if (
        static.fails
        or option.admin
        or static.asks
        or static.modes
        or (occupancy.consumed and static.consumption)
    ):
        mask = np.zeros(fleet.size, dtype=np.bool_)
        rows = np.flatnonzero(concerned)
        mask[rows] = judge(static, snapshot, rows, admin=option.admin)
    else:
        mask = concerned & occupancy.free
    rows = np.flatnonzero(mask)
    nodes = fleet.codes["node"][rows]
    of_node = np.bincount(nodes + 1, minlength=len(fleet.vocabulary.nodes.values) + 2)
    selectors = fleet.codes["selector"][rows[nodes < 0]]
    of_selector = np.bincount(selectors + 1, minlength=len(fleet.vocabulary.selectors.values) + 1)
    failing = _failing(static, fleet)
    return Available(
        static=static,
        admin=option.admin,
        mask=mask,
        per_node=of_node[1:],
        per_selector=of_selector[1:],
        spanning=int(of_selector[0]),
        failing=failing,
        fails=static.fails and bool(failing.any()),
        concerned=concerned,
        local=not (concerned & (fleet.codes["node"] < 0)).any(),
        trail=snapshot.occupancy.trail,
        serial=snapshot.occupancy.serial,
        values={},
    )


def judge(static: StaticMatch, snapshot: Snapshot, rows: Rows, *, admin: bool) -> Mask:
    """(n,) devices that could be taken. Devices that are an error count too, so that the error is reported.

    rows (n,)  suitable or an error
    """
    occupancy = snapshot.occupancy
    could = occupancy.fits[rows] | occupancy.sharing[rows] if admin else occupancy.free[rows]
    if occupancy.consumed and static.consumption:
        could = could & capacity_fits(rows, static.consumption, static.shape[rows], could, snapshot)
    if static.asks is not None:
        sets = snapshot.fleet.sets[rows]
        could = could & static.asks.fit(occupancy.left, sets, occupancy.sharing[rows], rows)
    if static.modes is not None:
        could = could & static.modes.fit(occupancy.lock[rows], occupancy, rows)
    if static.fails:
        fatal = static.fatal[rows]
        could = could | (fatal if admin else fatal & ~occupancy.held[rows])
    return could


def capacity_fits(
    rows: Rows, consumption: Consumptions, shape: np.ndarray, among: Mask, snapshot: Snapshot
) -> Mask:
    """(n,) whether the capacity left by shares is enough (CAP-8). Only devices in `among` are checked.

    Devices of one shape of which shares consume the same are evaluated once.
    """
    fits = np.ones(len(rows), dtype=np.bool_)
    if not consumption:
        return fits
    occupancy = snapshot.occupancy
    consumed = occupancy.consumptions.values
    sharing = np.flatnonzero(among & occupancy.sharing[rows])
    numbers, shapes = occupancy.consumption[rows[sharing]], shape[sharing]
    pairs = numbers.astype(np.int64) << 32 | (shapes.astype(np.int64) + 1)
    pairs, kinds = np.unique(pairs, return_inverse=True)
    verdicts = np.ones(len(pairs), dtype=np.bool_)
    for at, pair in enumerate(pairs.tolist()):
        taken = consumption.get((pair & 0xFFFFFFFF) - 1)
        if isinstance(taken, Consumption):
            verdicts[at] = taken.fits(consumed[pair >> 32])
    fits[sharing] = verdicts[kinds.reshape(-1)]
    return fits


def _failing(static: StaticMatch, fleet: Fleet) -> Mask:
    """(N + 1,) nodes that have a device which is an error."""
    failing = np.zeros(len(fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
    if not static.fails:
        return failing
    rows = np.flatnonzero(static.errors)
    nodes = fleet.codes["node"][rows]
    failing[nodes[nodes >= 0]] = True
    # Nodes of a slice that selects nodes per device evaluate each other's devices (SEL-4).
    if (nodes < 0).any() or any(
        block.per_device_node_selection
        for at in distinct(fleet.pool_of[rows]).tolist()
        for block in fleet.pools[at].blocks
    ):
        failing[:] = True
    return failing
