"""Required alignments as gates: where enough devices share a value of an accepted tier."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask
from reconciler.allocation.alignment.preferences import NODE, Alignment, alignments
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption, Slot
from reconciler.analysis.explain.groups import Groups, Masks, groups_of
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.state.devices.snapshot.snapshot import Snapshot


class RequiredAlignment(Struct, frozen=True, eq=False):
    """An alignment with a required tier, over the D devices of a fleet."""

    claim: int
    number: int
    """Index among the alignments of the claim"""
    alignment: Alignment
    slots: tuple[Slot, ...]
    """The aligned requests"""
    tiers: tuple[Groups, ...]
    """The accepted tiers, the narrowest first"""
    countable: bool
    """Whether devices can be counted: each has one node and one value, and the requests have counts"""
    code_count: int
    """Number of node codes in the fleet"""

    @property
    def about(self) -> str:
        """`aligned on numaNode` or `aligned in pairs on numaNode`."""
        return f"aligned {'in pairs ' if self.alignment.pairs else ''}on {self.alignment.required}"

    def concerns(self, option: RequestOption) -> bool:
        """Whether an option is aligned."""
        return any(option is one for slot in self.slots for one in slot.options)

    def lacking(self, masks: Masks) -> Amounts:
        """(code_count,) how many devices the best group of each node lacks; only if countable.

        For pairs, what all groups of a node lack together: some pairs may share one tier and some another.
        """
        wanted = sum(_wanted(slot) for slot in self.slots)
        if self.alignment.pairs:
            pairs = np.sum([self._paired(groups, masks) for groups in self.tiers], axis=0)
            lacking: Amounts = np.maximum(wanted - pairs * len(self.slots), 0)
            return lacking
        least = np.full(self.code_count, wanted, dtype=np.int64)
        for groups in self.tiers:
            np.minimum.at(least, groups.node, groups.lacking(self.slots, masks).sum(axis=0))
        return least

    def passes(self, masks: Masks) -> Mask:
        """(D,) devices in `masks` that may be part of a solution."""
        if not self.countable:
            return np.logical_or.reduce([groups.constraint.allowed(None) for groups in self.tiers])
        if not self.alignment.pairs:
            complete = [(groups.lacking(self.slots, masks) == 0).all(axis=0) for groups in self.tiers]
        else:
            able = self.lacking(masks) == 0
            complete = [(g.pairs(self.slots, masks) > 0) & able[g.node] for g in self.tiers]
        passed = [groups.passed_by(some) for groups, some in zip(self.tiers, complete, strict=True)]
        return np.logical_or.reduce(passed)

    def describe_best(self, node: str, masks: Masks, snapshot: Snapshot) -> str:
        """The closest value on a node, and how many devices of each request share it."""
        code = snapshot.fleet.vocabulary.nodes.find(node)
        if not self.countable or code < 0:
            return f"no suitable devices on the node share {self.alignment.required}"
        if self.alignment.pairs:
            pairs = [(int(self._paired(groups, masks)[code]), groups.tier) for groups in self.tiers]
            most, tier = max(pairs, key=lambda pair: pair[0])
            return f"{most} of {_wanted(self.slots[0])} pairs share {tier}"
        choices: list[tuple[int, Groups, int]] = []
        for groups in self.tiers:
            here = np.flatnonzero(groups.node == code)
            if len(here):
                lacking = groups.lacking(self.slots, masks).sum(axis=0)[here]
                choices.append((int(lacking.min()), groups, int(here[lacking.argmin()])))
        if not choices:
            return f"no device on the node has {self.alignment.required}"
        # Among tiers that lack the same number, take the widest: it is the easiest to meet.
        _, groups, group = min(reversed(choices), key=lambda choice: choice[0])
        return f"{groups.text(group)}: {', '.join(self._have(groups, masks, group))}"

    def _have(self, groups: Groups, masks: Masks, group: int) -> Iterator[str]:
        for slot in self.slots:
            counts = [(option, groups.have(option, masks, group)) for option in slot.options]
            option, have = min(counts, key=lambda count: max(count[0].source.wanted - count[1], 0))
            yield f"{have} of {option.source.wanted} for request {option.name}"

    def _paired(self, groups: Groups, masks: Masks) -> Amounts:
        """(code_count,) pairs."""
        found = np.zeros(self.code_count, dtype=np.int64)
        np.add.at(found, groups.node, groups.pairs(self.slots, masks))
        return found


def required_alignments(
    parsed: ParsedClaims, left: Masks, snapshot: Snapshot, reach: NodeReach
) -> tuple[RequiredAlignment, ...]:
    """The required alignments of claims, in order. Raises Malformed.

    left   devices that pass the gates on single devices
    """
    known: dict[str, Groups] = {}
    found = []
    for at, claim in enumerate(parsed.claims):
        for number, alignment in enumerate(alignments(claim, snapshot.classes)):
            if alignment.required == NODE:
                continue
            slots = tuple(
                slot
                for slot in parsed.slots
                if slot.claim == at
                and (not alignment.requests or slot.options[0].request in alignment.requests)
            )
            for tier in alignment.accepted:
                if tier not in known:
                    known[tier] = groups_of(tier, snapshot.fleet, snapshot.rules)
            tiers = tuple(known[tier] for tier in alignment.accepted)
            countable = _countable(slots, tiers, left, reach)
            code_count = len(snapshot.fleet.vocabulary.nodes.values)
            found.append(RequiredAlignment(at, number, alignment, slots, tiers, countable, code_count))
    return tuple(found)


def _countable(slots: Sequence[Slot], tiers: Sequence[Groups], left: Masks, reach: NodeReach) -> bool:
    options = [option for slot in slots for option in slot.options]
    return (
        bool(options)
        and all(groups.constraint.plain for groups in tiers)
        and all(not option.all and not option.admin and reach.local(left[id(option)]) for option in options)
    )


def _wanted(slot: Slot) -> int:
    return min(option.source.wanted for option in slot.options)
