"""Alignments that claims wait for, as gates: where enough devices share a value of a tier that will do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.alignment.preferences import NODE, Alignment, alignments
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption, Slot
from reconciler.analysis.explain.groups import Groups, Masks, groups_of
from reconciler.analysis.explain.places import Places
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """An alignment that requires a tier, over a fleet."""

    claim: int
    number: int
    """Among the claim's alignments"""
    alignment: Alignment
    slots: tuple[Slot, ...]
    """The requests that are aligned"""
    tiers: tuple[Groups, ...]
    """Those that will do, the nearest first"""
    countable: bool
    """Whether counting tells anything: devices of single nodes with single values, so many of them"""
    wide: int
    """Codes of nodes"""

    @property
    def about(self) -> str:
        """`aligned on numaNode`, in pairs or not."""
        return f"aligned {'in pairs ' if self.alignment.pairs else ''}on {self.alignment.required}"

    def concerns(self, option: RequestOption) -> bool:
        """Whether a request option is among those aligned."""
        return any(option is one for slot in self.slots for one in slot.options)

    def lacking(self, masks: Masks) -> Amounts:
        """(codes of nodes,) how many devices the best group of each node lacks; only where countable.

        With pairs, what all groups lack together: some may share one tier and some another.
        """
        wanted = sum(_wanted(slot) for slot in self.slots)
        if self.alignment.pairs:
            pairs = np.sum([self._paired(groups, masks) for groups in self.tiers], axis=0)
            lacking: Amounts = np.maximum(wanted - pairs * len(self.slots), 0)
            return lacking
        least = np.full(self.wide, wanted, dtype=np.int64)
        for groups in self.tiers:
            np.minimum.at(least, groups.node, groups.lacking(self.slots, masks).sum(axis=0))
        return least

    def passes(self, masks: Masks) -> Mask:
        """(D,) devices that could be part of an answer, of those in the masks of their options."""
        if not self.countable:
            return np.logical_or.reduce([groups.constraint.allowed(None) for groups in self.tiers])
        if not self.alignment.pairs:
            complete = [(groups.lacking(self.slots, masks) == 0).all(axis=0) for groups in self.tiers]
        else:
            able = self.lacking(masks) == 0
            complete = [(g.pairs(self.slots, masks) > 0) & able[g.node] for g in self.tiers]
        passed = [groups.passed_by(some) for groups, some in zip(self.tiers, complete, strict=True)]
        return np.logical_or.reduce(passed)

    def best(self, node: str, masks: Masks, world: Snapshot) -> str:
        """What comes closest on a node: at which value, how many devices of each request."""
        code = world.fleet.words.nodes.find(node)
        if not self.countable or code < 0:
            return f"no devices there are near enough to share {self.alignment.required}"
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
            return f"no device there has {self.alignment.required}"
        # Of tiers that lack as much, the farthest: the nearer ones are harder still.
        _, groups, group = min(reversed(choices), key=lambda choice: choice[0])
        return f"{groups.text(group)}: {', '.join(self._have(groups, masks, group))}"

    def _have(self, groups: Groups, masks: Masks, group: int) -> Iterator[str]:
        for slot in self.slots:
            counts = [(option, groups.have(option, masks, group)) for option in slot.options]
            option, have = min(counts, key=lambda one: max(one[0].source.wanted - one[1], 0))
            yield f"{have} of {option.source.wanted} for request {option.name}"

    def _paired(self, groups: Groups, masks: Masks) -> Amounts:
        """(codes of nodes,) pairs."""
        found = np.zeros(self.wide, dtype=np.int64)
        np.add.at(found, groups.node, groups.pairs(self.slots, masks))
        return found


def required(parsed: ParsedClaims, left: Masks, world: Snapshot, places: Places) -> tuple[Near, ...]:
    """The alignments without which being met claims wait, in order. Raises Malformed.

    left   what passes the gates of single devices
    """
    known: dict[str, Groups] = {}
    found = []
    for at, claim in enumerate(parsed.claims):
        for number, alignment in enumerate(alignments(claim, world.classes)):
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
                    known[tier] = groups_of(tier, world.fleet, world.rules)
            tiers = tuple(known[tier] for tier in alignment.accepted)
            countable = _countable(slots, tiers, left, places)
            wide = len(world.fleet.words.nodes.values)
            found.append(Near(at, number, alignment, slots, tiers, countable, wide))
    return tuple(found)


def _countable(slots: Sequence[Slot], tiers: Sequence[Groups], left: Masks, places: Places) -> bool:
    options = [option for slot in slots for option in slot.options]
    return (
        bool(options)
        and all(groups.constraint.plain for groups in tiers)
        and all(not option.all and not option.admin and places.local(left[id(option)]) for option in options)
    )


def _wanted(slot: Slot) -> int:
    return min(option.source.wanted for option in slot.options)
