"""Constraints as gates: which devices can satisfy a constraint together with others."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.allocation.dra.constraints import Constraint, compile_constraint
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.state.devices.snapshot.snapshot import Snapshot


class ConstraintGate(Struct, frozen=True, eq=False):
    """A constraint over the D devices of a fleet, and for `matchAttribute` the groups that can satisfy it."""

    constraint: Constraint
    groups: Mask | None
    """(G,) groups of a (node, value) with enough devices for every request; None if not counted"""
    group_of: np.ndarray
    """(D,) the group of each device, -1 for none"""

    def passes(self, mask: Mask) -> Mask:
        """(D,) devices of `mask` that may be part of a solution."""
        passed = mask & self.constraint.allowed(None)
        if self.groups is None:
            return passed
        # Index -1 selects the appended False.
        possible: Mask = passed & np.append(self.groups, np.False_)[self.group_of]
        return possible


def constraint_gates(
    parsed: ParsedClaims, left: Mapping[int, Mask], snapshot: Snapshot, reach: NodeReach
) -> dict[tuple[int, int], ConstraintGate]:
    """(claim, number) -> constraint. `left`: id of an option -> devices that pass all other gates."""
    found: dict[tuple[int, int], ConstraintGate] = {}
    everything = np.arange(snapshot.fleet.size)
    for at, claim in enumerate(parsed.claims):
        for number, source in enumerate(claim.spec.devices.constraints):
            constraint = compile_constraint(source, snapshot.fleet, everything, snapshot.rules)
            slots = [
                [option for option in slot.options if number in option.constraints]
                for slot in parsed.slots
                if slot.claim == at and all(number in option.constraints for option in slot.options)
            ]
            found[at, number] = _constraint_gate(constraint, slots, left, snapshot, reach)
    return found


def _constraint_gate(
    constraint: Constraint,
    slots: Sequence[Sequence[RequestOption]],
    left: Mapping[int, Mask],
    snapshot: Snapshot,
    reach: NodeReach,
) -> ConstraintGate:
    """Groups are counted only if each device has one value and one node; otherwise more devices pass."""
    codes, node = constraint.codes, snapshot.fleet.codes["node"]
    values = int(codes.max(initial=-1)) + 1
    pair = np.where((codes >= 0) & (node >= 0), node.astype(np.int64) * values + codes, -1)
    used, group_of = np.unique(np.append(pair, -1), return_inverse=True)
    group_of, size = group_of.reshape(-1)[:-1] - 1, len(used) - 1
    options = [option for slot in slots for option in slot]
    simple = (
        constraint.match and constraint.plain and all(reach.local(left[id(option)]) for option in options)
    )
    if not simple or not options or any(option.all or option.admin for option in options):
        return ConstraintGate(constraint, None, group_of)
    groups = np.ones(size, dtype=np.bool_)
    for slot in slots:
        serves = np.zeros(size, dtype=np.bool_)
        for option in slot:
            there = group_of[left[id(option)]]
            serves |= np.bincount(there[there >= 0], minlength=size) >= option.source.wanted
        groups &= serves
    return ConstraintGate(constraint, groups, group_of)
