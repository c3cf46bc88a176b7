"""Which nodes are in the same state for some claims: what was found on one of them holds for the others.

The states of all nodes are read as array work, before any of them is tried: so a proof that devices do not
suffice is made once for a thousand equal nodes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.constraints import shared_codes
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.state.caches import Cache
from reconciler.state.devices.readiness import readiness
from reconciler.state.devices.snapshot import Snapshot, Topology

MISSING = -(1 << 30)
"""Stands for no value. Below all differences of codes"""
SEEN = ("shape", "driver")
"""Columns in which alike devices are equal"""


class _Layouts(NamedTuple):
    """What does not depend on the holds, for N nodes and the m devices that belong to one of them."""

    rows: Rows
    """(m,) rows of the fleet, node by node"""
    begins: Rows
    """(N + 1,) where each node begins in `rows`"""
    sets: tuple[Codes, Codes]
    """(N,) the first counter set that devices of the node draw from, and the first behind the last one"""
    numbers: Codes
    """(N,) equal numbers for nodes that are laid out alike; -1 for nodes that are not compared"""


def compared_attributes(parsed: ParsedClaims) -> tuple[str, ...]:
    """The attributes that constraints of claims compare."""
    constraints = [one for claim in parsed.claims for one in claim.spec.devices.constraints]
    return tuple(sorted({one.match_attribute or one.distinct_attribute or "" for one in constraints}))


def node_states(
    options: Iterable[RequestOption],
    attributes: tuple[str, ...],
    snapshot: Snapshot,
    among: Mask,
    masks: Iterable[Mask] = (),
) -> Codes | None:
    """(N,) numbers of states of nodes in `among` (N,); -1 for others, and for those that are not compared.

    Nodes with equal numbers have, in equal positions of their views, devices that are alike for the request
    options, for constraints on the attributes, and for the `masks` (D,) each. None if nodes cannot be
    compared: with shared devices, devices of several nodes, errors, exclusion, requests in mode All or for
    administrators, and attributes that are derived or lists.
    """
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    seen, several = list(masks), fleet.shared | occupancy.sharing
    for option in {option.key: option for option in options}.values():
        current = available(option, snapshot)
        if option.all or option.admin or option.derived or current.fails or current.static.skips:
            return None
        if not current.local or (current.concerned & several).any():
            return None
        seen.append(current.mask)
    columns = [shared_codes(attribute, fleet) for attribute in attributes]
    if fleet.exclusion is not None or not seen or any(column is None for column in columns):
        return None
    of_topology = _LAYOUTS.of(snapshot.topology)
    if attributes not in of_topology:
        of_topology[attributes] = _layouts(snapshot.topology, [one for one in columns if one is not None])
    layouts = of_topology[attributes]
    bits = np.packbits(np.stack(seen)[:, layouts.rows], axis=0)
    begins, (first, behind) = layouts.begins.tolist(), (one.tolist() for one in layouts.sets)
    found, known = np.full(len(among), -1, dtype=np.int32), dict[tuple[int, bytes, bytes], int]()
    for place in np.flatnonzero(among & (layouts.numbers >= 0)).tolist():
        left = occupancy.left[first[place] : behind[place]].tobytes()
        devices = bits[:, begins[place] : begins[place + 1]].tobytes()
        found[place] = known.setdefault((int(layouts.numbers[place]), devices, left), len(known))
    return found


_LAYOUTS: Cache[Topology, dict[tuple[str, ...], _Layouts]] = Cache(lambda _: {}, on_fork=dict.copy)
"""By the attributes that are compared"""


def _layouts(topology: Topology, values: Sequence[Codes]) -> _Layouts:
    fleet, size = topology.fleet, len(topology.order)
    nodes = fleet.codes["node"]
    places = np.where(nodes >= 0, topology.place_of[nodes], -1)
    rows = np.flatnonzero(places >= 0)
    rows = rows[np.argsort(places[rows], kind="stable")]
    counts = np.bincount(places[rows], minlength=size)
    begins = np.concatenate([[0], np.cumsum(counts)])
    of, filled = np.repeat(np.arange(size), counts), np.flatnonzero(counts)
    lowest, highest = np.zeros((2, size), dtype=np.int32)
    columns = [fleet.codes[name][rows] for name in SEEN]
    sets = [np.ascontiguousarray(one)[rows] for one in fleet.sets.T]
    for codes in (sets, *([one[rows]] for one in values)):
        if codes and len(filled):
            known = np.minimum.reduce([np.where(one < 0, -MISSING, one) for one in codes])
            lowest[filled] = np.minimum.reduceat(known, begins[filled])
            least = np.repeat(lowest, counts)
            columns += [np.where(one < 0, MISSING, one - least) for one in codes]
        if codes is sets:
            first = lowest.copy()
    if sets and len(filled):
        highest[filled] = np.maximum.reduceat(np.maximum.reduce(sets), begins[filled])
    columns += [np.ascontiguousarray(one)[rows] for one in fleet.draws.T]
    content = np.stack(columns)
    numbers, known_as = np.full(size, -1, dtype=np.int32), dict[bytes, int]()
    for place in filled.tolist():
        mine = content[:, begins[place] : begins[place + 1]].tobytes()
        numbers[place] = known_as.setdefault(mine, len(known_as))
    numbers[_unclear(topology, rows, of)] = -1
    return _Layouts(rows, begins, (first, highest + 1), numbers)


def _unclear(topology: Topology, rows: Rows, of: Rows) -> Mask:
    """(N,) nodes that are not compared: views may have another order, or devices draw what requests say.

    rows, of (m,)  devices, and the node that each belongs to
    """
    fleet = topology.fleet
    place_of = {name: place for place, name in enumerate(topology.order)}
    found = np.zeros(len(place_of), dtype=np.bool_)
    for at in readiness(topology).problems:
        pool = fleet.pools[at]
        if pool.nodes is None:
            return ~found
        found[[place_of[name] for name in pool.nodes if name in place_of]] = True
    # Pools with binding conditions are tried last; amounts that requests say depend on policies of sets.
    for column in ("binding", "asked"):
        found[of[fleet.codes[column][rows] >= 0]] = True
    return found
