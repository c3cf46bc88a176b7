"""What is left once requests that are tied by a constraint have to agree, or to differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask
from reconciler.allocation.dra.constraints import Constraint, compile_constraint
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.analysis.explain.places import Places
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """A constraint over the D devices of a fleet, and for `matchAttribute` the groups that could do."""

    constraint: Constraint
    groups: Mask | None
    """By group: (node, value) that serves every request; None if groups cannot be told apart so simply"""
    group_of: np.ndarray
    """(D,) a number for each node and value that occur together, -1 for none"""

    def passes(self, mask: Mask) -> Mask:
        """(D,) devices of `mask` that could be part of an answer."""
        fine = mask & self.constraint.allowed(None)
        if self.groups is None:
            return fine
        # -1 takes the last, which is nobody's group.
        possible: Mask = fine & np.append(self.groups, np.False_)[self.group_of]
        return possible


def tie(
    parsed: ParsedClaims, left: Mapping[int, Mask], world: Snapshot, places: Places
) -> dict[tuple[int, int], Tied]:
    """Each constraint by (claim, number); `left` gives what passed all other gates, by id of the option."""
    found: dict[tuple[int, int], Tied] = {}
    everything = np.arange(world.fleet.size)
    for at, claim in enumerate(parsed.claims):
        for number, source in enumerate(claim.spec.devices.constraints):
            constraint = compile_constraint(source, world.fleet, everything, world.rules)
            slots = [
                [option for option in slot.options if number in option.constraints]
                for slot in parsed.slots
                if slot.claim == at and all(number in option.constraints for option in slot.options)
            ]
            found[at, number] = _tied(constraint, slots, left, world, places)
    return found


def _tied(
    constraint: Constraint,
    slots: Sequence[Sequence[RequestOption]],
    left: Mapping[int, Mask],
    world: Snapshot,
    places: Places,
) -> Tied:
    """Groups are judged only where devices have one value and one node each: a relaxation otherwise."""
    codes, node = constraint.codes, world.fleet.codes["node"]
    values = int(codes.max(initial=-1)) + 1
    pair = np.where((codes >= 0) & (node >= 0), node.astype(np.int64) * values + codes, -1)
    used, group_of = np.unique(np.append(pair, -1), return_inverse=True)
    group_of, size = group_of.reshape(-1)[:-1] - 1, len(used) - 1
    options = [option for slot in slots for option in slot]
    simple = (
        constraint.match and constraint.plain and all(places.local(left[id(option)]) for option in options)
    )
    if not simple or not options or any(option.all or option.admin for option in options):
        return Tied(constraint, None, group_of)
    groups = np.ones(size, dtype=np.bool_)
    for slot in slots:
        serves = np.zeros(size, dtype=np.bool_)
        for option in slot:
            there = group_of[left[id(option)]]
            serves |= np.bincount(there[there >= 0], minlength=size) >= option.source.wanted
        groups &= serves
    return Tied(constraint, groups, group_of)
