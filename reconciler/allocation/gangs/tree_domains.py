"""The groups of a tree, the domains that each may have, and how much fits there at most. By counts: sound.

Groups are numbered from the top; alike ones in one group follow one another. N places, K kinds, G domains.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.gangs.domains import Grouping, Tiers
from reconciler.allocation.gangs.kinds import AskedGroup, GangQuestion
from reconciler.allocation.gangs.limits import Limits
from reconciler.allocation.gangs.search import Field
from reconciler.api.objects.gangs import Tier
from reconciler.errors import ReconcilerError

Met = tuple[tuple[Tier, str], ...]


class UnknownKey(ReconcilerError):
    """A tier of a group is no label of a node; `group` names it if an attribute of devices has the key."""

    def __init__(self, key: str, group: str = "") -> None:
        super().__init__(key)
        self.group = group


class Spot(Struct, frozen=True, eq=False):
    """A domain for a group."""

    met: Met
    """The tiers of the group and of those above it, with the values"""
    mask: Mask
    """(N,) its places"""
    most: int
    """Members of the group that fit, at most"""


class Node(Struct, eq=False):
    """A group of the tree."""

    group: AskedGroup
    parent: int
    """-1 for the root"""
    grouping: Grouping | None
    """The domains of its tiers; None if it has none"""
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

    def __init__(self, question: GangQuestion, tree: AskedGroup, field: Field) -> None:
        """Raises UnknownKey."""
        self._question, self._field = question, field
        self.sizes: Amounts = np.array([len(kind.members) for kind in field.kinds], dtype=np.int64)
        """(K,) members"""
        snapshot = field.trial.snapshot
        self.limits = Limits(field.kinds, field.places.at_first, None, field.trial.nodes, snapshot)
        self._groupings: dict[Hashable, Grouping] = {}
        self._likes: dict[Hashable, int] = {}
        self.nodes: list[Node] = []
        self._add(tree, -1, {id(leaf): number for number, leaf in enumerate(tree.pod_groups())})
        self.whole = Spot((), np.ones(len(field.order), dtype=np.bool_), len(question.members))
        self._options: dict[tuple[int, Met], list[Spot]] = {}
        self._bounds: dict[tuple[Met, tuple[int, ...]], int] = {}
        """Domain, and which groups of pods are in it, by `like` -> how many of their members fit at most"""

    def _add(self, group: AskedGroup, parent: int, leaves: dict[int, int]) -> Node:
        number = len(self.nodes)
        node = Node(group, parent, self._grouping(group))
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
        key = bool(group.groups), group.least, group.tiers, group.nodes, *what
        return self._likes.setdefault(key, len(self._likes))

    def _grouping(self, group: AskedGroup) -> Grouping | None:
        if not group.tiers:
            return None
        key = group.tiers, group.nodes
        if key not in self._groupings:
            asked = replace(self._question, members=(), tiers=group.tiers, nodes=group.nodes, devices=())
            tiers = Tiers(asked, self._field.trial.nodes, self._field.trial.snapshot)
            found = next(tiers.groupings(group.tiers), None)
            if tiers.unknown:
                raise UnknownKey(tiers.unknown[0])
            if found is None or found.devices is not None:
                of_devices = next(iter(tiers.attributes(group.tiers)), group.tiers[0])
                raise UnknownKey(of_devices.key, group.name)
            self._groupings[key] = found
        return self._groupings[key]

    def codes(self, node: Node, mask: Mask) -> tuple[Codes, Sequence[tuple[str, ...]]]:
        """(N,) the domain of each place in a mask, and the names of the domains."""
        if node.grouping is None:
            return np.where(mask, 0, -1).astype(np.int32), [()]
        return np.where(mask, node.grouping.codes, -1).astype(np.int32), node.grouping.names

    def options(self, node: Node, above: Spot) -> list[Spot]:
        """The domains of a group inside that of the group above it, the smallest first."""
        key = node.like, above.met
        if key not in self._options:
            codes, names = self.codes(node, above.mask)
            most = self._members_in(node, codes, len(names))
            enough = most >= max(1 if node.inside else node.group.least, 1)
            if node.inside:
                enough &= self.groups_in(node, codes, len(names)) >= node.group.least
            free = self.limits.devices_in(codes, len(names))
            tiers = node.grouping.met if node.grouping is not None else ()
            self._options[key] = [
                Spot(above.met + tuple(zip(tiers, names[at], strict=True)), codes == at, int(most[at]))
                for at in sorted(np.flatnonzero(enough).tolist(), key=lambda one: (free[one], names[one]))
            ]
        return self._options[key]

    def bound(self, spot: Spot, leaves: Sequence[int]) -> int:
        """How many members of some groups of pods fit into a domain, at most."""
        key = self._key(spot, leaves)
        if key not in self._bounds:
            kinds = [kind for at in leaves for kind in self.nodes[at].kinds]
            codes = np.where(spot.mask, 0, -1).astype(np.int32)
            self._bounds[key] = int(self.limits.in_domains(codes, 1, self._numbers(kinds))[0])
        return self._bounds[key]

    def lower(self, spot: Spot, leaves: Sequence[int], most: int) -> None:
        """Note that no more members fit."""
        key = self._key(spot, leaves)
        self._bounds[key] = min(self._bounds.get(key, most), most)

    def _key(self, spot: Spot, leaves: Sequence[int]) -> tuple[Met, tuple[int, ...]]:
        return spot.met, tuple(sorted(self.nodes[at].like for at in leaves))

    def _numbers(self, kinds: Sequence[int], each: int = 0) -> Amounts:
        """(K,) the members of some kinds, or so many each."""
        found = np.zeros_like(self.sizes)
        found[list(kinds)] = each or self.sizes[list(kinds)]
        return found

    def _members_in(self, node: Node, codes: Codes, size: int) -> Amounts:
        """(G,) members of a group that fit into each domain, at most."""
        found = self.limits.in_domains(codes, size, self._numbers(node.kinds))
        if node.inside:
            by_group = [copies * one.size for one, copies in self.copies_in(node, codes, size)]
            np.minimum(found, sum(by_group), out=found)
        return found

    def groups_in(self, node: Node, codes: Codes, size: int) -> Amounts:
        """(G,) groups of a group that fit into each domain, or need nothing more, at most."""
        found = np.zeros(size, dtype=np.int64)
        for one, copies in self.copies_in(node, codes, size):
            alike = sum(self.nodes[at].like == one.like for at in node.inside)
            found += alike if one.group.is_done else copies
        return found

    def copies_in(self, node: Node, codes: Codes, size: int) -> Iterator[tuple[Node, Amounts]]:
        """Of groups in a group that are alike: the first, and (G,) how many fit into each domain, at most."""
        for like, number in Counter(self.nodes[at].like for at in node.inside).items():
            one = next(self.nodes[at] for at in node.inside if self.nodes[at].like == like)
            yield one, np.minimum(self._copies(one, codes, size), number)

    def _copies(self, node: Node, codes: Codes, size: int) -> Amounts:
        """(G,) how many groups like this one would fit into each domain, at most."""
        everyone = len(self._question.members)
        inner, of = codes, np.arange(size)
        if node.grouping is not None:
            inside = np.flatnonzero((codes >= 0) & (node.grouping.codes >= 0))
            joint = codes[inside].astype(np.int64) * len(node.grouping.names) + node.grouping.codes[inside]
            parts, inverse = np.unique(joint, return_inverse=True)
            inner = np.full(len(codes), -1, dtype=np.int32)
            inner[inside] = inverse
            of = parts // len(node.grouping.names)
        each = np.full(len(of), everyone, dtype=np.int64)
        if not node.inside and node.group.least:
            have = self.limits.in_domains(inner, len(of), self._numbers(node.kinds, everyone))
            each = have // node.group.least
        elif not node.group.is_done:
            likes = dict.fromkeys(self.nodes[at].like for at in node.inside)
            firsts = (next(one for one in self.nodes if one.like == like) for like in likes)
            have = np.sum([self._copies(one, inner, len(of)) for one in firsts], axis=0)
            each = have // node.group.least
        found = np.zeros(size, dtype=np.int64)
        np.add.at(found, of, np.minimum(each, everyone))
        return found
