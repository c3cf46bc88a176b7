"""Groups of devices, for the page and for `top`: by driver, by model, by node or by a label of the nodes; and
what each namespace holds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.analysis.capacity.use import physical_devices, share_of_devices
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot, Topology

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
