"""How full a fleet is: one definition for the page, `top`, `modes` and their words; by groups of devices;
and what Kubernetes evicts soon.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.analysis.capacity.layout import families
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import TAINTS
from reconciler.state.caches import Cache, share
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot, Topology


@lru_cache(maxsize=4096)
def _cut_by(scale: Scale) -> tuple[int, ...]:
    """The counters that say how much of a set is used: numbered slices, those of memory first; else memory;
    else the first one. Scarce extras, such as decoders, are not the device.
    """
    names, of_counter = families(scale)
    if not names:
        return ()
    size = [of_counter.count(at) for at in range(len(names))]
    best = max(
        range(len(names)),
        key=lambda at: (size[at] > 1, "memory" in names[at], "slice" in names[at], size[at], -at),
    )
    return tuple(number for number, family in enumerate(of_counter) if family == best)


def _cutting(fleet: Fleet) -> Mask:
    found = np.zeros(fleet.totals.shape, dtype=np.bool_)
    for number, columns in enumerate(fleet.set_columns):
        found[number, list(_cut_by(columns.scale))] = True
    return found


cutting = Cache(_cutting, on_fork=share).of
"""Of a fleet: (S, C) the counters of each set that its partitions are cut by"""


def use_of_sets(totals: Amounts, left: Amounts, cut: Mask) -> NDArray[np.float64]:
    """The used share of each counter set, 0 to 1.

    totals, left (S, C) in the units of each counter
    cut          (S, C) see `cutting`
    ->           (S,)
    """
    published = np.where(cut, totals, 0).sum(axis=1, dtype=np.float64)
    consumed = np.where(cut, totals - left, 0).sum(axis=1, dtype=np.float64)
    used = np.divide(consumed, published, out=np.zeros_like(published), where=published > 0)
    return np.clip(used, 0.0, 1.0)


def share_of_devices(fleet: Fleet) -> NDArray[np.float64]:
    """(D,) the share of a physical device that each device is: what it draws of the counters that cut it. 1
    without counters.
    """
    drawn, published = np.zeros((2, fleet.size))
    cut = cutting(fleet)
    of_set = np.where(cut, fleet.totals, 0).sum(axis=1)
    for sets, draws in zip(fleet.sets.T, fleet.draws.T, strict=True):
        rows = np.flatnonzero(sets >= 0)
        drawn[rows] += np.where(cut[sets[rows]], fleet.table[draws[rows]], 0).sum(axis=1)
        published[rows] += of_set[sets[rows]]
    return np.divide(drawn, published, out=(published == 0).astype(np.float64), where=published > 0)


class PhysicalUse(NamedTuple):
    """The use of P physical devices: counter sets, then devices without counters. See above."""

    sets: Rows
    """(s,)"""
    alone: Rows
    """(P - s,)"""
    use: NDArray[np.float64]
    """(P,) the share that claims hold, 0 to 1"""
    full: Mask
    """(P,)"""

    def of(self, of_set: Rows, of_device: Rows) -> Rows:
        """(P,) the group of each, from those of all counter sets and devices."""
        return np.concatenate([of_set[self.sets], of_device[self.alone]])


def physical_devices(fleet: Fleet, counted: Mask) -> tuple[Rows, Rows]:
    """The counter sets that counted (D,) devices draw from, and the devices that draw from none."""
    drawing = fleet.sets[counted]
    alone = counted & (fleet.sets < 0).all(axis=1)
    return distinct(drawing[drawing >= 0]).astype(np.intp), np.flatnonzero(alone)


def physical_use(fleet: Fleet, counted: Mask, taken: Mask, fitting: Mask, left: Amounts) -> PhysicalUse:
    """The use of all physical devices.

    counted (D,)   devices that count
    taken   (D,)   those that claims hold, exclusively or in shares
    fitting (D,)   those that still fit
    left    (S, C) in the units of each counter
    """
    sets, alone = physical_devices(fleet, counted)
    open_ = np.zeros(len(fleet.totals) + 1, dtype=np.bool_)
    open_[fleet.sets[fitting].ravel()] = True  # -1 is the last one
    use = np.concatenate([use_of_sets(fleet.totals, left, cutting(fleet))[sets], taken[alone]])
    return PhysicalUse(sets, alone, use, np.concatenate([~open_[sets], ~fitting[alone]]))


NO_EXECUTE = "NoExecute"


class HeldUnderTaint(NamedTuple):
    """A held device, and its NoExecute taints."""

    row: int
    device: DeviceID
    taints: tuple[str, ...]
    claims: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        word = "taint" if len(self.taints) == 1 else "taints"
        holders = ", ".join(map(str, self.claims))
        return f"{self.device} has the {word} {', '.join(self.taints)} and is held by {holders}"


def held_under_taint(snapshot: Snapshot) -> Iterator[HeldUnderTaint]:
    """The held devices with a NoExecute taint, in the order of the fleet."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    if not snapshot.rules.has(TAINTS):
        return
    values = fleet.vocabulary.taints.values
    for row in np.flatnonzero((occupancy.held | occupancy.sharing) & (fleet.codes["taints"] >= 0)).tolist():
        found = values[int(fleet.codes["taints"][row])]
        taints = tuple(str(taint) for taint in found if taint.effect == NO_EXECUTE)
        device = fleet.id_of(row)
        if taints and (claims := occupancy.claims_of(device)):
            yield HeldUnderTaint(row, device, taints, claims)


MODELS = ("productName", "model")
"""Attributes that name the model of a device; the first one that a device has counts"""
LABEL = "label="
"""`label=KEY` groups by that label of the nodes"""


MOST_GROUPS = 120
"""With more groups than this, another choice is better to look at"""
MOST_LABELS = 6
"""Labels that are offered; those of places come first"""
_PLACES = ("rack", "block", "zone", "region")
_UNIQUE = "kubernetes.io/hostname"


class Groups(Struct, frozen=True, eq=False):
    """The groups of a fleet."""

    names: tuple[str, ...]
    """Sorted; devices without a model, a single node or its label are in the first one, with an empty name"""
    of: Rows
    """(D,) position in `names`"""


def groups_of(by: str, topology: Topology) -> Groups:
    """The groups by driver, model, node or label=KEY."""
    known = _KNOWN.of(topology)
    if by not in known:
        known[by] = _grouped(by, topology)
    return known[by]


_KNOWN: Cache[Topology, dict[str, Groups]] = Cache(lambda _: {}, on_fork=dict.copy)


def _grouped(by: str, topology: Topology) -> Groups:
    fleet = topology.fleet
    if by == "model":
        return _named(*_models(fleet))
    if by == "driver":
        return _named(fleet.codes["driver"], fleet.vocabulary.drivers.values)
    names: Sequence[str] = fleet.vocabulary.nodes.values
    if by != "node":
        key = by.removeprefix(LABEL)
        names = [topology.nodes[name].labels.get(key, "") if name in topology.nodes else "" for name in names]
    return _named(fleet.codes["node"], names)


def choices(topology: Topology) -> Mapping[str, int]:
    """What devices can be grouped by, and the number of groups: labels of places, other labels, the rest."""
    return _CHOICES.of(topology)


def _choices(topology: Topology) -> dict[str, int]:
    values: dict[str, set[str]] = {}
    for node in topology.nodes.values():
        for key, value in node.labels.items():
            values.setdefault(key, set()).add(value)
    found = {key: len(of) for key, of in values.items() if 1 < len(of) <= MOST_GROUPS and key != _UNIQUE}
    ranked = sorted(found, key=lambda key: (not any(word in key for word in _PLACES), -found[key], key))
    others = {by: len(groups_of(by, topology).names) for by in ("model", "driver", "node")}
    return {**{LABEL + key: found[key] for key in ranked[:MOST_LABELS]}, **others}


_CHOICES = Cache(_choices, on_fork=share)


def chosen(wanted: str, topology: Topology) -> str:
    """What to group by: what is wanted, if there is that choice, or the finest that is not too fine."""
    found = choices(topology)
    fit = [by for by, count in found.items() if count <= MOST_GROUPS]
    return wanted if wanted in found else max(fit, key=found.__getitem__, default="driver")


def of_sets(of_device: Rows, fleet: Fleet, *, mixed: int = 0) -> Rows:
    """(S,) the group of each counter set: that of the devices (D,) that draw from it; else `mixed`."""
    of = np.full(len(fleet.totals), mixed, dtype=np.intp)
    drawn = [(np.flatnonzero(sets >= 0), sets[sets >= 0]) for sets in fleet.sets.T]
    for rows, sets in drawn:
        of[sets] = of_device[rows]
    for rows, sets in drawn:
        of[sets[of[sets] != of_device[rows]]] = mixed
    return of


def _named(codes: Codes, values: Sequence[str]) -> Groups:
    """Groups of codes (D,), where -1 has no name. Different codes may have the same name."""
    named = [*values, ""]  # the last one is for code -1
    there = np.zeros(len(named), dtype=np.bool_)
    there[codes] = True
    names = sorted({"", *(named[code] for code in np.flatnonzero(there).tolist())})
    place = {name: at for at, name in enumerate(names)}
    return Groups(tuple(names), np.array([place.get(name, 0) for name in named], dtype=np.intp)[codes])


def _models(fleet: Fleet) -> tuple[Codes, list[str]]:
    codes, values = np.full(fleet.size, -1, dtype=np.int32), list[str]()
    for key in sorted((key for key in fleet.cel.attributes if key[1] in MODELS), key=_rank):
        column = fleet.cel.attributes[key]
        codes = np.where((codes < 0) & (column.codes >= 0), column.codes + len(values), codes)
        values += map(str, column.values)
    return codes.astype(np.int32), values


def _rank(key: tuple[str, str]) -> tuple[int, str]:
    return MODELS.index(key[1]), key[0]


class NamespaceUse(Struct, frozen=True):
    """What the claims of a namespace hold, and which of them are pending."""

    namespace: str
    held: int
    """Devices, exclusively or in shares"""
    use: float
    """The share of all physical devices that it holds; see `use`. A shared device counts for each holder"""
    pending: int
    """Claims without devices"""
    oldest: str
    """When the oldest of them was created, as the API writes it; empty if it is not known"""


class PendingClaims(Struct):
    """The pending claims of a namespace."""

    count: int = 0
    oldest: str = ""

    def add(self, created: str) -> None:
        """One more, created then; an empty text if that is not known."""
        self.count += 1
        self.oldest = min(filter(None, (self.oldest, created)), default="")


class NamespaceHoldings:
    """Who holds what. Follows the changes of the holds, so a later look costs only what has changed."""

    def __init__(self) -> None:
        self._topology: Topology | None = None
        self._trail: Trail | None = None
        self._serial = 0
        self._codes: dict[str, int] = {}

    def look(self, snapshot: Snapshot, pending: Mapping[str, PendingClaims]) -> list[NamespaceUse]:
        """Each namespace that holds devices or has pending claims, sorted by name.

        The snapshot must be the newest: holders are looked up now.
        """
        fleet, occupancy = snapshot.fleet, snapshot.occupancy
        if self._topology is snapshot.topology and self._trail is occupancy.trail:
            rows = occupancy.trail.between(self._serial, occupancy.serial)
        else:
            self._topology, self._trail = snapshot.topology, occupancy.trail
            self._counted, self._share = offered(snapshot.topology), share_of_devices(fleet)
            self._first = np.full(fleet.size, -1, dtype=np.intp)
            self._others = dict[int, list[int]]()
            rows = np.flatnonzero(occupancy.held | occupancy.sharing)
        self._serial = occupancy.serial
        for row in set(rows[self._counted[rows]].tolist()):
            names = dict.fromkeys(claim.namespace for claim in occupancy.claims_of(fleet.id_of(row)))
            first, *others = [self._codes.setdefault(name, len(self._codes)) for name in names] or [-1]
            self._first[row] = first
            self._others.pop(row, None)
            if others:
                self._others[row] = others
        return self._uses(fleet, pending)

    def _uses(self, fleet: Fleet, pending: Mapping[str, PendingClaims]) -> list[NamespaceUse]:
        rows = np.flatnonzero(self._first >= 0)
        more = [(row, code) for row, codes in self._others.items() for code in codes]
        rows = np.append(rows, np.array([row for row, _ in more], dtype=np.intp))
        codes = self._first[rows]
        codes[len(rows) - len(more) :] = [code for _, code in more]
        held = np.bincount(codes, minlength=len(self._codes)).tolist()
        share = np.bincount(codes, weights=self._share[rows], minlength=len(self._codes)).tolist()
        physical = max(sum(map(len, physical_devices(fleet, self._counted))), 1)
        found = []
        for name in sorted({*self._codes, *pending}):
            at, waits = self._codes.get(name), pending.get(name, PendingClaims())
            devices, use = (held[at], share[at] / physical) if at is not None else (0, 0.0)
            if devices or waits.count:
                found.append(NamespaceUse(name, devices, use, waits.count, waits.oldest))
        return found
