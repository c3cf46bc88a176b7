"""Decides a tree of groups: which domain each group gets, and places for its pods. Source: TREE-2 to TREE-6.

Groups get their domains one after another, from the top; counting excludes what is hopeless. Where all have
one, the pods are placed by the search for gangs: in each domain by itself where domains share nothing.
What a search proves there counts for all further tries. As many pods as possible get a place.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from kernels.types import Codes, Mask
from reconciler.allocation.gangs.attempts import OutOfSteps, Pace
from reconciler.allocation.gangs.domains import Grouping
from reconciler.allocation.gangs.kinds import UNPLACED, AskedGroup, GangQuestion, GangUnsatisfied
from reconciler.allocation.gangs.places import Likeness
from reconciler.allocation.gangs.search import Field, Search, Taken
from reconciler.allocation.gangs.tree_domains import Met, Node, Spot, TreeDomains, both, inside
from reconciler.errors import counted
from reconciler.state.devices.readiness import readiness

MANY = 32
"""Groups in one group of which it is not worked out which numbers of pods can add up"""


class TreeDecision:
    """One decision."""

    def __init__(
        self, question: GangQuestion, tree: AskedGroup, field: Field, pace: Pace, steps: int
    ) -> None:
        """`steps` limit the search for places in one domain, `pace` all together."""
        self._tree, self._gang, self._field = tree, question.gang, field
        self._asked = len(question.members)
        self._pace, self._steps = pace, steps
        field.spare = [max(len(leaf.members) - leaf.least, 0) for leaf in tree.pod_groups()]
        self._domains = TreeDomains(question, tree, field, pace.budget)
        self._nodes = self._domains.nodes
        self._spots: list[Spot | None] = []
        """Of the groups that are decided; None for one that is left out"""
        self._at = [0] * len(self._nodes)
        """Of each of them: the position of the choice"""
        self._furthest = 0
        """The last group for which a domain was tried"""
        self.gave_up = False
        self.fits = 0
        """Members that were placed together, at most"""

    def run(self) -> tuple[Met, tuple[Taken, ...]] | None:
        """The domain of the tree, and the places, which are held in the trial; None if there are none."""
        totals = _totals(self._tree)
        sizes = [at for at in range(totals.bit_length() - 1, 0, -1) if totals >> at & 1]
        whole = self._domains.whole
        most = max((spot.most for spot in self._domains.options(self._nodes[0], whole)), default=0)
        try:
            for target in sizes:
                if target > most or (self.gave_up and target > sizes[-1]):
                    continue  # after the search gave up, only whether the least fits is asked
                for _ in self._assignments(target):
                    taken = self._place(target)
                    if taken is not None:
                        return self._spot(0).met, taken
        except OutOfSteps:
            self.gave_up = True
        return None

    # -- domains

    def _assignments(self, target: int) -> Iterator[None]:
        """Every way to choose domains that counting does not exclude, in `_spots`."""
        del self._spots[:]
        stack = [self._choices(0)]
        while stack:
            del self._spots[len(stack) - 1 :]
            try:
                choice = next(stack[-1])
            except StopIteration:  # None is a choice, too
                stack.pop()
                continue
            self._pace.step()
            self._spots.append(choice)
            self._furthest = max(self._furthest, len(self._spots) - 1)
            if not self._may_be(target):
                continue
            if len(self._spots) == len(self._nodes):
                yield
            else:
                stack.append(self._choices(len(stack)))

    def _choices(self, number: int) -> Iterator[Spot | None]:
        """The domains that a group may have beside those before it, the smallest first; or none."""
        node = self._nodes[number]
        above = self._domains.whole if node.parent < 0 else self._spots[node.parent]
        if above is None:
            yield None
            return
        options = self._domains.options(node, above)
        # Alike groups in one group are interchangeable: a later one never has an earlier domain.
        for at in range(self._at[node.twin] if node.twin >= 0 else 0, len(options)):
            self._at[number] = at
            yield options[at]
        if node.parent >= 0 and self._may_lack(number):
            self._at[number] = len(options)
            yield None

    def _may_lack(self, number: int) -> bool:
        """Whether the group above has enough groups without this one."""
        above = self._nodes[self._nodes[number].parent]
        have = sum(
            self._nodes[at].group.is_done or at > number or (at < number and self._spots[at] is not None)
            for at in above.inside
        )
        return have >= above.group.least

    def _may_be(self, target: int) -> bool:
        """Whether counting allows what is decided so far."""
        number = len(self._spots) - 1
        leaves = self._leaves()
        at = number if number in leaves else -1
        while at >= 0:
            spot = self._spot(at)
            here = [one for one in leaves if self._spot(one).path[: len(spot.path)] == spot.path]
            if self._domains.bound(spot, here) < sum(self._nodes[one].group.least for one in here):
                return False
            at = self._nodes[at].parent
        possible = self._most(leaves)
        lacking = {at for at, spot in enumerate(self._spots) if spot is None}
        for at in range(number + 1, len(self._nodes)):
            if self._nodes[at].parent in lacking:
                lacking.add(at)
            elif not self._nodes[at].inside:
                possible += self._nodes[at].size
        return possible >= target

    def _most(self, leaves: Sequence[int]) -> int:
        """Members of groups of pods that fit in their domains, at most."""
        together: dict[Hashable, list[int]] = {}
        for one in leaves:
            together.setdefault(self._spot(one).path, []).append(one)
        return sum(self._domains.bound(self._spot(here[0]), here) for here in together.values())

    def _leaves(self) -> list[int]:
        """The groups of pods that have a domain."""
        return [at for at, spot in enumerate(self._spots) if spot is not None and not self._nodes[at].inside]

    def _spot(self, number: int) -> Spot:
        spot = self._spots[number]
        assert spot is not None
        return spot

    # -- places

    def _place(self, target: int) -> tuple[Taken, ...] | None:
        """Places for so many members in the domains that are chosen; None if there are none."""
        leaves, field = self._leaves(), self._field
        parts, mark = self._parts(leaves), field.trial.mark()
        if len(parts) > 1 and (not field.apart or field.shares or field.company.crowding):
            taken = self._search(leaves, target)
            if taken is None and not field.company.ordered:
                for part in parts:  # what does not fit alone does not fit beside the others
                    self._search(part, max(self._least(part), 1))
                    field.trial.back_to(mark)
            return taken
        found: list[Taken] = []
        most = [self._most(part) for part in parts]
        for number, part in enumerate(parts):
            least = max(target - sum(most[:number]) - sum(most[number + 1 :]), self._least(part))
            taken, wanted = None, most[number]
            while taken is None and wanted >= max(least, 1):
                taken = self._search(part, wanted)
                wanted = min(wanted - 1, self._most(part))
            if taken is None and least > 0:
                field.trial.back_to(mark)
                return None
            found += taken or ()
            most[number] = len(taken or ())
        return tuple(found)

    def _least(self, leaves: Sequence[int]) -> int:
        return sum(self._nodes[at].group.least for at in leaves)

    def _parts(self, leaves: Sequence[int]) -> list[list[int]]:
        """The groups of pods, those whose domains overlap together."""
        found: list[tuple[Mask, list[int]]] = []
        for at in leaves:
            mask, mine = self._spot(at).mask, [at]
            apart = []
            for other, part in found:
                if (other & mask).any():
                    mask, mine = mask | other, part + mine
                else:
                    apart.append((other, part))
            found = [*apart, (mask, mine)]
        return [part for _, part in found]

    def _search(self, leaves: Sequence[int], target: int) -> tuple[Taken, ...] | None:
        """Places for so many members of some groups, which are held in the trial; None if there are none."""
        field = self._field
        of_kind = {kind: self._spot(at) for at in leaves for kind in self._nodes[at].kinds}
        limits, devices = self._domains.limits_of(of_kind), self._devices(of_kind)
        pace = Pace(self._pace.budget, max(min(self._steps, self._pace.remaining), 0))
        among = (np.flatnonzero(np.any([spot.mask for spot in of_kind.values()], axis=0)),)
        allowed = limits.each > 0
        likeness = Likeness(field.kinds, allowed, among, devices.values(), field.trial, joined=field.shares)
        others = [kind for kind in field.kinds if kind.number not in of_kind]
        search = Search(field, limits, likeness, devices, among, pace, but=others)
        try:
            found = search.run(target)
        except OutOfSteps:
            self.gave_up = True
            return None
        finally:
            self._pace.taken += pace.taken
            self._pace.remaining -= pace.taken
        self.fits = max(self.fits, found.fits)
        if found.taken is None and len({self._spot(at).path for at in leaves}) == 1:
            self._domains.lower(self._spot(leaves[0]), leaves, found.most)
        return found.taken

    def _devices(self, of_kind: Mapping[int, Spot]) -> dict[str, Mask]:
        """Uid of a claim -> (D,) the devices that it may use; only claims for which not all are."""
        found: dict[str, Mask] = {}
        for kind, spot in of_kind.items():
            if spot.devices is None:
                continue
            for uid in dict.fromkeys(
                claim.metadata.uid for member in self._field.kinds[kind].members for claim in member.claims
            ):
                mask = both(found.get(uid), spot.devices)
                assert mask is not None
                found[uid] = mask
        return found

    # -- why there are none

    @property
    def unknown(self) -> str:
        """A key without which too few groups have a domain, and which nothing has; or empty."""
        return "" if self._domains.is_known(self._nodes[0]) else self._domains.unknown[0]

    def refusal(self, left_out: str) -> GangUnsatisfied:
        """How many groups fit in the best domain, and which one finds no place. `left_out` ends the message:
        the nodes and pools that do not count.
        """
        root, domains = self._nodes[0], self._domains
        known = readiness(self._field.trial.snapshot.topology)
        ready = known.ready if known.problems else None
        found = []
        for grouping in root.groupings:
            codes = inside(domains.whole.mask, grouping)
            usable = both(grouping.devices, ready)
            possible = domains.groups_in(root, codes, len(grouping.names), usable)
            found += [(int(most), grouping, at) for at, most in enumerate(possible) if (codes == at).any()]
        if not found:
            keys = ", ".join(tier.key for tier in self._tree.tiers)
            what = f"nothing has all labels and attributes that {self._tree.name} requires: {keys}"
            return GangUnsatisfied(UNPLACED, what if keys else "there are no nodes", steps=self._pace.taken)
        most, grouping, best = max(found, key=lambda one: one[0])
        where = _where(grouping, best)
        message = (
            f"{most} of {len(root.inside)} groups of {self._gang} fit together at most{where}; "
            f"{self._tree.least} {'is' if self._tree.least == 1 else 'are'} needed"
        )
        if self._tree.is_done:
            message = f"{self._gang} has all groups that it needs, and no more pods of it fit{where}"
        if len(found) > 1:
            message += f"; {len(found)} domains were considered"
        codes = np.where(grouping.codes == best, 0, -1).astype(np.int32)
        message += f". {self._short(root, codes, both(grouping.devices, ready))}{left_out}"
        return GangUnsatisfied(UNPLACED, message, self.fits, steps=self._pace.taken)

    def _short(self, root: Node, codes: Codes, devices: Mask | None) -> str:
        """Which group in the domain of a group finds no place."""
        if lacking := self._lacking(root, codes, devices):
            return lacking
        if not self._furthest:
            most = self._domains.limits(devices).in_domains(codes, 1, self._domains.sizes)
            needed = "" if self._tree.is_done else f"; the groups need {self._tree.least_pods}"
            return f"{most[0]} of {self._asked} pods fit at most{needed}"
        stuck = self._nodes[self._furthest].group.name
        return f"By counting they fit; {stuck} finds no domain and devices beside the others"

    def _lacking(self, node: Node, codes: Codes, devices: Mask | None) -> str:
        """The same of the groups in a group, by counting; empty if all of them find a place."""
        for alike, copies in self._domains.copies_in(node, codes, 1, devices):
            number, group = int(copies[0]), alike[0].group
            if group.is_done:
                for one in alike:  # a group in it may be left out
                    there = np.any([grouping.codes >= 0 for grouping in one.groupings], axis=0)
                    if found := self._lacking(one, np.where(there, codes, -1).astype(np.int32), devices):
                        return found
            elif not group.groups and len(group.members) < group.least:
                needed, there = counted(group.least, "pod"), len(group.members)
                return f"{group.name} needs {needed} together; it has {there} to place"
            elif number < len(alike):
                what = counted(group.least, "group" if group.groups else "pod")
                keys = " and ".join(tier.key for tier in group.tiers)
                room = f"there is room for {counted(number, 'such group')}"
                where = f" in one {keys}" if keys else ""
                return f"{alike[number].group.name} needs {what} together{where}; {room}"
        return ""


def _where(grouping: Grouping, number: int) -> str:
    met = zip(grouping.met, grouping.names[number], strict=True)
    found = ", ".join(f"{tier.key}={value}" for tier, value in met)
    return f" in {found}" if found else ""


def _totals(group: AskedGroup) -> int:
    """How many members of a group may get a place, as bits of a number: what its groups add up to, if enough
    of them do. More of them if there are many groups.
    """
    size = sum(len(leaf.members) for leaf in group.pod_groups())
    if not group.groups or len(group.groups) > MANY:
        return max((1 << size + 1) - (1 << group.least_pods), 0)
    of_count = [1, *([0] * group.least)]
    """By how many groups have enough, at most as many as are needed"""
    for one in group.groups:
        bits, added = _totals(one), [0] * len(of_count)
        for count, known in enumerate(of_count):
            for at in range(bits.bit_length()):
                if bits >> at & 1:
                    added[min(count + 1, group.least)] |= known << at
            added[min(count + one.is_done, group.least)] |= known
        of_count = added
    return of_count[-1]
