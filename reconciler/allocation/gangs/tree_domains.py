"""The groups of a tree, the domains that each may have, and how much fits there at most. By counts: sound.

Groups are numbered from the top; alike ones in one group follow one another. N places, K kinds, G domains.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.gangs.domains import Grouping, Tiers
from reconciler.allocation.gangs.kinds import AskedGroup, GangQuestion
from reconciler.allocation.gangs.limits import Limits
from reconciler.allocation.gangs.search import Field
from reconciler.api.objects.gangs import Tier

Met = tuple[tuple[Tier, str], ...]


class Spot(Struct, frozen=True, eq=False):
    """A domain for a group."""

    met: Met
    """The tiers of the group and of those above it, with the values"""
    path: tuple[Hashable, ...]
    """The same so that different values differ"""
    mask: Mask
    """(N,) its places"""
    devices: Mask | None
    """(D,) the devices that may be used; None for all"""
    most: int
    """Members of the group that fit, at most"""


class Node(Struct, eq=False):
    """A group of the tree."""

    group: AskedGroup
    parent: int
    """-1 for the root"""
    groupings: tuple[Grouping, ...]
    """The domains of its tiers, one grouping for each choice of attribute values"""
    kinds: tuple[int, ...] = ()
    """The kinds of all members that are in it"""
    size: int = 0
    """How many these are"""
    like: int = 0
    """Equal for groups that need the same"""
    inside: tuple[int, ...] = ()
    """The groups in it"""
    twin: int = -1
    """The group before it, if it is alike and in the same group"""


class TreeDomains:
    """For one decision."""

    def __init__(self, question: GangQuestion, tree: AskedGroup, field: Field, budget: Budget) -> None:
        self._question, self._field, self._budget = question, field, budget
        self.sizes: Amounts = np.array([len(kind.members) for kind in field.kinds], dtype=np.int64)
        """(K,) members"""
        snapshot = field.trial.snapshot
        self._snapshot = snapshot
        self._limits: dict[bytes, Limits] = {}
        """By the devices that may be used"""
        self.unknown: list[str] = []
        """Keys that are no label of a node and no attribute of a device"""
        self._groupings: dict[Hashable, tuple[Grouping, ...]] = {}
        self._likes: dict[Hashable, int] = {}
        self.nodes: list[Node] = []
        self._add(tree, -1, {id(leaf): number for number, leaf in enumerate(tree.pod_groups())})
        everywhere = np.ones(len(field.order), dtype=np.bool_)
        self.whole = Spot((), (), everywhere, None, len(question.members))
        self._options: dict[Hashable, list[Spot]] = {}
        self._bounds: dict[Hashable, int] = {}
        """Domain, and which groups of pods are in it, by `like` -> how many of their members fit at most"""

    def _add(self, group: AskedGroup, parent: int, leaves: dict[int, int]) -> Node:
        number = len(self.nodes)
        node = Node(group, parent, self._groupings_of(group))
        self.nodes.append(node)
        inside: list[int] = []
        likes = [self._like(one, leaves) for one in group.groups]
        for _, at in sorted((like, at) for at, like in enumerate(likes)):
            below = len(self.nodes)
            found = self._add(group.groups[at], number, leaves)
            if inside and self.nodes[inside[-1]].like == found.like:
                found.twin = inside[-1]
            inside.append(below)
        node.inside = tuple(inside)
        mine = () if group.groups else self._kinds_of(group, leaves)
        node.kinds = (*mine, *(kind for at in inside for kind in self.nodes[at].kinds))
        node.size = int(self.sizes[list(node.kinds)].sum())
        node.like = self._like(group, leaves)
        return node

    def _kinds_of(self, group: AskedGroup, leaves: dict[int, int]) -> list[int]:
        return [
            kind.number for kind in self._field.kinds if kind.group == leaves[id(group)] and group.members
        ]

    def _like(self, group: AskedGroup, leaves: dict[int, int]) -> int:
        if group.groups:
            what: list[Hashable] = [*sorted(self._like(one, leaves) for one in group.groups)]
        else:
            kinds = self._field.kinds
            what = [*sorted((kinds[at].like, len(kinds[at].members)) for at in self._kinds_of(group, leaves))]
        key = bool(group.groups), group.least, group.tiers, group.nodes, group.devices, *what
        return self._likes.setdefault(key, len(self._likes))

    def _groupings_of(self, group: AskedGroup) -> tuple[Grouping, ...]:
        key = group.tiers, group.nodes, group.devices
        if key not in self._groupings:
            asked = replace(
                self._question, members=(), tiers=group.tiers, nodes=group.nodes, devices=group.devices
            )
            tiers = Tiers(asked, self._field.trial.nodes, self._snapshot)
            self.unknown += tiers.unknown
            self._groupings[key] = tuple(tiers.groupings(group.tiers))
        return self._groupings[key]

    def is_known(self, node: Node) -> bool:
        """Whether enough is known by the keys of a group and of those in it."""
        have = sum(self.is_known(one) or one.group.is_done for one in (self.nodes[at] for at in node.inside))
        here = all(tier.key not in self.unknown for tier in node.group.tiers)
        return here and (not node.inside or have >= node.group.least)

    def limits(self, devices: Mask | None) -> Limits:
        """How many members fit on each place with some devices (D,); None for all."""
        key = b"" if devices is None else np.packbits(devices).tobytes()
        if key not in self._limits:
            field = self._field
            self._limits[key] = Limits(
                field.kinds, field.places.at_first, devices, field.trial.nodes, self._snapshot
            )
        return self._limits[key]

    def limits_of(self, spots: Mapping[int, Spot]) -> Limits:
        """How many members of each kind fit on each place of its domain; of other kinds, none."""
        found = copy(self.limits(None))
        found.each = np.zeros_like(found.each)
        for kind, spot in spots.items():
            found.each[kind] = np.where(spot.mask, self.limits(spot.devices).each[kind], 0)
        return found

    def options(self, node: Node, above: Spot) -> list[Spot]:
        """The domains of a group inside that of the group above it, the smallest first."""
        key = node.like, above.path
        if key not in self._options:
            found: list[tuple[int, Spot]] = []
            for at, grouping, devices in self._groupings_within(node, above.devices):
                found += self._options_in(node, grouping, at, devices, above)
            found.sort(key=lambda one: (one[0], one[1].met))
            self._options[key] = [spot for _, spot in found]
        return self._options[key]

    def _groupings_within(
        self, node: Node, devices: Mask | None
    ) -> Iterator[tuple[int, Grouping, Mask | None]]:
        """The groupings of a group that have any of these devices, with their numbers and those devices."""
        for at, grouping in enumerate(node.groupings):
            self._budget.spend()
            shared = both(devices, grouping.devices)
            if shared is None or shared.any():
                yield at, grouping, shared

    def _options_in(
        self, node: Node, grouping: Grouping, at: int, devices: Mask | None, above: Spot
    ) -> Iterator[tuple[int, Spot]]:
        """Free devices, and a domain."""
        codes = inside(above.mask, grouping)
        size, tiers = len(grouping.names), grouping.met
        most = self._members_in(node, codes, size, devices)
        enough = most >= max(1 if node.inside else node.group.least, 1)
        if node.inside:
            enough &= self.groups_in(node, codes, size, devices) >= node.group.least
        free = self.limits(devices).devices_in(codes, size)
        for number in np.flatnonzero(enough).tolist():
            met = above.met + tuple(zip(tiers, grouping.names[number], strict=True))
            path = (*above.path, (tiers, at, number)) if tiers else above.path
            yield int(free[number]), Spot(met, path, codes == number, devices, int(most[number]))

    def bound(self, spot: Spot, leaves: Sequence[int]) -> int:
        """How many members of some groups of pods fit into a domain, at most."""
        key = self._key(spot, leaves)
        if key not in self._bounds:
            kinds = [kind for at in leaves for kind in self.nodes[at].kinds]
            codes = np.where(spot.mask, 0, -1).astype(np.int32)
            self._bounds[key] = int(self.limits(spot.devices).in_domains(codes, 1, self._numbers(kinds))[0])
        return self._bounds[key]

    def lower(self, spot: Spot, leaves: Sequence[int], most: int) -> None:
        """Note that no more members fit."""
        key = self._key(spot, leaves)
        self._bounds[key] = min(self._bounds.get(key, most), most)

    def _key(self, spot: Spot, leaves: Sequence[int]) -> Hashable:
        return spot.path, tuple(sorted(self.nodes[at].like for at in leaves))

    def _numbers(self, kinds: Sequence[int], each: int = 0) -> Amounts:
        """(K,) the members of some kinds, or so many each."""
        found = np.zeros_like(self.sizes)
        found[list(kinds)] = each or self.sizes[list(kinds)]
        return found

    def _members_in(self, node: Node, codes: Codes, size: int, devices: Mask | None) -> Amounts:
        """(G,) members of a group that fit into each domain, at most."""
        found = self.limits(devices).in_domains(codes, size, self._numbers(node.kinds))
        if node.inside:
            by_group = [copies * of[0].size for of, copies in self.copies_in(node, codes, size, devices)]
            np.minimum(found, sum(by_group), out=found)
        return found

    def groups_in(self, node: Node, codes: Codes, size: int, devices: Mask | None) -> Amounts:
        """(G,) groups of a group that fit into each domain, or need nothing more, at most."""
        found = np.zeros(size, dtype=np.int64)
        for alike, copies in self.copies_in(node, codes, size, devices):
            found += len(alike) if alike[0].group.is_done else copies
        return found

    def alike_in(self, node: Node) -> Iterator[list[Node]]:
        """The groups in a group, alike ones together."""
        inside = [self.nodes[at] for at in node.inside]  # alike ones follow one another
        return (list(alike) for _, alike in groupby(inside, key=lambda one: one.like))

    def copies_in(
        self, node: Node, codes: Codes, size: int, devices: Mask | None
    ) -> Iterator[tuple[list[Node], Amounts]]:
        """Groups in a group that are alike, and (G,) how many fit into each domain, at most."""
        for alike in self.alike_in(node):
            yield alike, np.minimum(self._copies(alike[0], codes, size, devices), len(alike))

    def _copies(self, node: Node, codes: Codes, size: int, devices: Mask | None) -> Amounts:
        """(G,) how many groups like this one would fit into each domain, at most."""
        found, everyone = np.zeros(size, dtype=np.int64), len(self._question.members)
        for _, grouping, shared in self._groupings_within(node, devices):
            there = np.flatnonzero((codes >= 0) & (grouping.codes >= 0))
            joint = codes[there].astype(np.int64) * len(grouping.names) + grouping.codes[there]
            parts, inverse = np.unique(joint, return_inverse=True)
            inner = np.full(len(codes), -1, dtype=np.int32)
            inner[there] = inverse
            each = np.full(len(parts), everyone, dtype=np.int64)
            if not node.inside and node.group.least:
                numbers = self._numbers(node.kinds, everyone)
                each = self.limits(shared).in_domains(inner, len(parts), numbers) // node.group.least
            elif not node.group.is_done:
                each[:] = 0
                for one, *_ in self.alike_in(node):
                    each += everyone if one.group.is_done else self._copies(one, inner, len(parts), shared)
                each //= node.group.least
            np.add.at(found, parts // len(grouping.names), np.minimum(each, everyone))
        return found


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Devices that both allow."""
    return one if other is None else other if one is None else one & other


def inside(mask: Mask, grouping: Grouping) -> Codes:
    """(N,) the domain of each place in a mask; -1 elsewhere."""
    return np.where(mask, grouping.codes, -1).astype(np.int32)
