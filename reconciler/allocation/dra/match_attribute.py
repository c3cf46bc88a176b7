"""Which nodes have a value of a `matchAttribute` that could serve all requests of a match group.

Computed for the whole fleet at once. A relaxation, like the bounds of a search: it counts devices per value
and compares the least that the requests must draw with the remaining counters. It may keep a node that
does not fit, but never excludes a node that fits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.fit import NOTHING_REQUIRED, fits_required
from kernels.groups import group_code, group_min
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.availability import available, value_count
from reconciler.allocation.dra.constraints import ANY_DOMAIN, all_scalar
from reconciler.allocation.dra.request_options import ParsedClaims, RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.state.caches import Cache
from reconciler.state.devices.encoding.vocabulary import Name
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot


class ValueBound(Struct, frozen=True):
    """The least that one device for a request option draws, for each of the V values of an attribute."""

    draw: Amounts
    """(V, C) zero where no bound is known"""
    source: Codes
    """(V,) the one counter set that all devices of the value draw from, else -1"""
    node: Codes
    """(V,) the one node that all devices of the value are on, else -1"""
    draws: bool
    """Whether some value has a set in `source`"""
    local: bool
    """Whether some value belongs to one node, so that values can exclude nodes"""


class MatchGroup(Struct, frozen=True):
    """Requests that must share the value of an attribute."""

    name: Name
    options: tuple[RequestOption, ...]
    bound: ValueBound | None
    """The least that all their devices draw together; None if no device has the attribute"""


_BOUNDS: Cache[Fleet, dict[tuple[Name, RequestKey], ValueBound]] = Cache(lambda _: {}, on_fork=dict.copy)


def match_groups(parsed: ParsedClaims, snapshot: Snapshot) -> tuple[MatchGroup, ...]:
    """The match groups that can exclude nodes. They depend on the fleet alone.

    None while selectors fail on some device, since that error must be reported.
    """
    if not any(claim.spec.devices.constraints for claim in parsed.claims):
        return ()
    if any(
        evaluate_selectors(option, snapshot.fleet).fails for slot in parsed.slots for option in slot.options
    ):
        return ()
    groups = (
        _match_group(name, options, snapshot.fleet)
        for name, options in _matching_options(parsed, snapshot.fleet)
    )
    return tuple([group for group in groups if group.bound is None or group.bound.local])


def nodes_with_a_value(groups: Sequence[MatchGroup], snapshot: Snapshot) -> Mask | None:
    """(N + 1,) nodes that the constraints do not exclude, by the fleet's code; None if they exclude none.

    The last entry stands for nodes without devices. Nothing is excluded while shares are held of a device
    that is published as dedicated now: its counters are drawn already.
    """
    if not groups or (
        snapshot.occupancy.consumed and np.any(snapshot.occupancy.sharing & ~snapshot.fleet.shared)
    ):
        return None
    possible: Mask | None = None
    for group in groups:
        nodes = _nodes(group, snapshot)
        if nodes is not None:
            possible = nodes if possible is None else possible & nodes
    return possible


def _matching_options(parsed: ParsedClaims, fleet: Fleet) -> Iterator[tuple[Name, tuple[RequestOption, ...]]]:
    """Attributes that plain requests must share, with the options of those requests."""
    for at, claim in enumerate(parsed.claims):
        for number, constraint in enumerate(claim.spec.devices.constraints):
            if constraint.match_attribute is None:
                continue
            domain, _, id_ = constraint.match_attribute.partition("/")
            if domain == ANY_DOMAIN:
                continue
            options = [
                slot.options[0]
                for slot in parsed.slots
                if slot.claim == at and len(slot.options) == 1 and number in slot.options[0].constraints
            ]
            plain = tuple([option for option in options if not option.all and not option.admin])
            if plain and all_scalar(Name(domain, id_), fleet):
                yield Name(domain, id_), plain


def _nodes(group: MatchGroup, snapshot: Snapshot) -> Mask | None:
    fleet, bound = snapshot.fleet, group.bound
    nodes = np.zeros(len(fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
    if bound is None:
        return nodes
    feasible = np.ones(len(bound.source), dtype=np.bool_)
    for option in group.options:
        feasible &= available(option, snapshot).per_value(group.name, fleet) >= option.source.wanted
    if bound.draws:
        rows = np.flatnonzero(feasible)
        enough = fits_required(snapshot.occupancy.left[bound.source[rows]], bound.draw[rows])
        feasible[rows] = enough | (bound.source[rows] < 0)
    places = bound.node[feasible]
    if (places < 0).any():
        return None
    nodes[places] = True
    return nodes


def _match_group(name: Name, options: tuple[RequestOption, ...], fleet: Fleet) -> MatchGroup:
    """The group of the options, with the least that they draw together."""
    if name not in fleet.cel.attributes:
        return MatchGroup(name, options, None)
    bounds = [_value_bound(option, name, fleet) for option in options]
    source = bounds[0].source
    draw = np.zeros_like(bounds[0].draw)
    for option, bound in zip(options, bounds, strict=True):
        draw += option.source.wanted * bound.draw
        source = np.where(source == bound.source, source, -1)
    draw = np.where(draw == 0, NOTHING_REQUIRED, draw)
    draws = bool((source >= 0).any())
    return MatchGroup(name, options, ValueBound(draw, source, bounds[0].node, draws, bounds[0].local))


def _value_bound(option: RequestOption, name: Name, fleet: Fleet) -> ValueBound:
    of_fleet, key = _BOUNDS.of(fleet), (name, option.key)
    if key not in of_fleet:
        of_fleet[key] = _compute(option, name, fleet)
    return of_fleet[key]


def _compute(option: RequestOption, name: Name, fleet: Fleet) -> ValueBound:
    values = fleet.cel.attributes[name].codes
    size = value_count(name, fleet)
    rows = np.flatnonzero(evaluate_selectors(option, fleet).true & (values >= 0))
    groups = values[rows].astype(np.intp)
    draw = np.zeros((size, fleet.table.shape[1]), dtype=np.int64)
    source = np.full(size, -1, dtype=np.int32)
    if fleet.sets.shape[1]:
        # A shared device may have drawn already, and a second set is ignored: no bound for such values.
        once = ~fleet.shared[rows] & (fleet.sets[rows, 1:] < 0).all(axis=1)
        source = group_code(np.where(once, fleet.sets[rows, 0], -1), groups, size)
        source[groups[~once]] = -1
        drawing = source[groups] >= 0
        draw = group_min(fleet.table[fleet.draws[rows[drawing], 0]], groups[drawing], size)
    node = group_code(fleet.codes["node"][rows], groups, size)
    return ValueBound(draw, source, node, draws=bool((source >= 0).any()), local=bool((node >= 0).any()))
