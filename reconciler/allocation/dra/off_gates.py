"""Which feature gates that are off an answer depends on: for devices that a request could have otherwise, for
lists that a constraint cannot compare, and for fields that are ignored.

Source: SEL-1, POOL-2, GRP-7, SCC-4, CAP-6, CON-6, TNT-6, NAR-1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from msgspec import structs

from kernels.types import Mask, Rows
from reconciler.allocation.dra.availability import capacity_fits
from reconciler.allocation.dra.constraints import compile_constraint, derived_by
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import draws, large_enough, resolve, tolerated, waiting
from reconciler.api.objects import semantics
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import counted
from reconciler.state.caches import Cache, Caches, derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, Topology

Disabled = Mapping[str, Mask]
"""Feature gate that is off -> (D,) the devices that need it; only gates that some device needs"""


@derived
def disabled_features(topology: Topology) -> Disabled:
    """The devices that need a gate that is off, by gate."""
    fleet, rules = topology.fleet, topology.rules
    found: dict[str, Mask] = {}
    if not rules.binding_conditions:
        gate = (
            semantics.DEVICE_STATUS
            if rules.has(semantics.BINDING_CONDITIONS)
            else semantics.BINDING_CONDITIONS
        )
        found[gate] = waiting(fleet)
    if not rules.has(semantics.PARTITIONABLE_DEVICES):
        found[semantics.PARTITIONABLE_DEVICES] = draws(fleet, np.arange(fleet.size)) | _partitioned(fleet)
    if not rules.has(semantics.SHARED_CAPACITY):
        found[semantics.SHARED_CAPACITY] = fleet.codes["asked"] >= 0
    if not rules.has(semantics.COMPATIBILITY_GROUPS) and fleet.exclusion is not None:
        exclusion = fleet.exclusion
        silent = (exclusion.names == 0).all(axis=2) & (exclusion.scopes >= 0)
        found[semantics.COMPATIBILITY_GROUPS] = np.any(silent, axis=1)
    return {gate: mask for gate, mask in found.items() if mask.any()}


def disabled_for(option: RequestOption, snapshot: Snapshot) -> Disabled:
    """The devices that need a gate that is off before they can serve a request option, by gate."""
    found = dict(disabled_features(snapshot.topology))
    rules = snapshot.rules
    if (asking := found.pop(semantics.SHARED_CAPACITY, None)) is not None:
        # Without it such a device draws nothing: only requests for the capacity need it.
        shape = snapshot.fleet.codes["shape"]
        known = large_enough(option, resolve(option, shape, snapshot), shape)
        if (asking & ~known).any():
            found[semantics.SHARED_CAPACITY] = asking & ~known
    if option.capacity and rules.sharing and not rules.has(semantics.FRACTIONAL_RANGE):
        # Without it amounts are rounded to whole numbers, which may be more than there is.
        exact = _with(rules, semantics.FRACTIONAL_RANGE)
        short = _large(option, snapshot, exact) & ~_large(option, snapshot, rules)
        if short.any():
            found[semantics.FRACTIONAL_RANGE] = short
    return found


def _with(rules: Semantics, gate: str) -> Semantics:
    return replace(rules, gates=rules.gates | {gate})


def _large(option: RequestOption, snapshot: Snapshot, rules: Semantics) -> Mask:
    """(D,) devices with the capacity for one more share of a request by some rules."""
    shape, every = snapshot.fleet.codes["shape"], np.arange(snapshot.fleet.size)
    consumption = resolve(option, shape, snapshot, rules)
    large = large_enough(option, consumption, shape)
    return large & capacity_fits(every, consumption, shape, large, snapshot)


def _partitioned(fleet: Fleet) -> Mask:
    """(D,) devices of slices that are ignored without partitionable devices."""
    pieces = [
        np.full(
            len(block.names),
            block.per_device_node_selection is not None or block.shares_counters,
        )
        for pool in fleet.pools
        for block in pool.blocks
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.bool_)


def uncompared_lists(parsed: ParsedClaims, snapshot: Snapshot) -> str:
    """Which devices have lists that a constraint would compare, were the gate on; empty if there are none."""
    return "" if snapshot.rules.has(semantics.LIST_ATTRIBUTES) else next(_lists(parsed, snapshot), "")


def _comparing(topology: Topology) -> Topology:
    return replace(
        topology, rules=_with(topology.rules, semantics.LIST_ATTRIBUTES), caches=Caches(), _views={}
    )


_COMPARING: Cache[Topology, Topology] = Cache(_comparing)
"""Kept, so that a claim that is refused again and again does not have everything computed anew"""


def with_lists(snapshot: Snapshot) -> Snapshot:
    """The same devices with what is held of them, where lists are compared."""
    return structs.replace(snapshot, topology=_COMPARING.of(snapshot.topology))


def _lists(parsed: ParsedClaims, snapshot: Snapshot) -> Iterator[str]:
    fleet = snapshot.fleet
    for at, claim in enumerate(parsed.claims):
        for number, source in enumerate(claim.spec.devices.constraints):
            made = derived_by(parsed, at, source)
            constraint = compile_constraint(source, fleet, np.arange(fleet.size), snapshot.rules, made)
            lists = [code for code, values in constraint.tokens.items() if not values]
            for option in (one for slot in parsed.slots if slot.claim == at for one in slot.options):
                if number in option.constraints:
                    rows = np.flatnonzero(evaluate_selectors(option, fleet).true)
                    has = np.count_nonzero(np.isin(constraint.of(option)[rows], lists))
                    if has:
                        of = f"{has} of {counted(len(rows), 'device')} that request {option.name} matches"
                        what = f"{'has' if has == 1 else 'have'} a list as {constraint.attribute}"
                        yield f"{of} {what}, which {semantics.needs_gate(semantics.LIST_ATTRIBUTES)}"


def ignored_fields(option: RequestOption, snapshot: Snapshot) -> Iterator[str]:
    """What is ignored of the devices that a request option matches, since its gate is off."""
    fleet, rules = snapshot.fleet, snapshot.rules
    rows = np.flatnonzero(evaluate_selectors(option, fleet).true)
    if not rules.has(semantics.TAINTS):
        taints = fleet.vocabulary.taints.values
        repelling = [code for code, of in enumerate(taints) if not tolerated(of, option.source.tolerations)]
        yield from _ignored("taints", semantics.TAINTS, _count(fleet, "taints", rows, repelling))
    if not rules.has(semantics.NODE_ALLOCATABLE):
        every = list(range(len(fleet.vocabulary.mapped.values)))
        use = "nodeAllocatableResources"
        yield from _ignored(use, semantics.NODE_ALLOCATABLE, _count(fleet, "mapped", rows, every))
    if not rules.sharing:  # a server drops the field: such a device is in use as a whole, or free (CAP-14)
        shared = int(np.count_nonzero(fleet.shared[rows]))
        yield from _ignored("shares", semantics.CONSUMABLE_CAPACITY, shared)


def _count(fleet: Fleet, column: str, rows: Rows, codes: list[int]) -> int:
    return int(np.count_nonzero(np.isin(fleet.codes[column][rows], codes))) if codes else 0


def _ignored(field: str, gate: str, count: int) -> Iterator[str]:
    if count:
        yield f"{field} of {counted(count, 'device')} are ignored: the feature gate {gate} is off"
