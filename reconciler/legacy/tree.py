"""Devices that consume capacity from others, as counters. Source: rules CCF-1 to CCF-6, TRN-1 to TRN-4.

A device can be held as long as no device that it consumes from, at any distance, is held, none that consumes
from it is, and each source above it has what it lists left. What a sink takes is taken from every source
above it. So every source has a counter for each capacity, which it takes whole itself, and which its sinks
and their sinks draw from; and sinks that draw nothing exclude their sources by a counter for that alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Malformed
from reconciler.legacy.tallies import Tally
from reconciler.objects.quantity import Quantity

NOTHING = Quantity(0)
ONE = Quantity.of(1)


@dataclass(frozen=True, slots=True)
class Member:
    """A device of a slice, and which others of that slice it consumes from."""

    name: str
    sources: tuple[str, ...]
    """As listed; its own name ends the recursion"""
    capacity: Mapping[str, Quantity]


class Forest:
    """All devices of one slice. Raises Malformed for sources that do not exist or go in a circle."""

    def __init__(self, members: Sequence[Member], subject: str) -> None:
        self.members = {member.name: member for member in members}
        self.parents = {
            member.name: tuple(dict.fromkeys(source for source in member.sources if source != member.name))
            for member in members
        }
        for member in members:
            for source in self.parents[member.name]:
                if source not in self.members:
                    reason = f"names {source}, which is no device of this slice"
                    raise Malformed(subject, f"device {member.name}: consumesCapacityFrom", reason)
        self.above = self._ancestors(subject)

    def _ancestors(self, subject: str) -> Mapping[str, frozenset[str]]:
        """Device -> every source above it. Walked without recursion: chains may be long."""
        above: dict[str, frozenset[str]] = {}
        for start in self.members:
            path = [start] if start not in above else []
            while path:
                parents = self.parents[path[-1]]
                unknown = next((parent for parent in parents if parent not in above), None)
                if unknown is None:
                    known = (above[parent] | {parent} for parent in parents)
                    above[path.pop()] = frozenset().union(*known)
                elif unknown in path:
                    cycle = " -> ".join([*path[path.index(unknown) :], unknown])
                    raise Malformed(subject, "consumesCapacityFrom", f"goes in a circle: {cycle}")
                else:
                    path.append(unknown)
        return above

    def trees(self) -> list[list[str]]:
        """Devices that have to do with each other, those without sinks and sources left out."""
        home = {name: name for name in self.members}

        def root(name: str) -> str:
            while home[name] != name:
                home[name] = home[home[name]]
                name = home[name]
            return name

        for name, parents in self.parents.items():
            for parent in parents:
                home[root(name)] = root(parent)
        found: dict[str, list[str]] = {}
        for name in self.members:
            found.setdefault(root(name), []).append(name)
        return [names for names in found.values() if len(names) > 1]

    def tallies(self, tree: Sequence[str]) -> list[Tally]:
        """The counters of one tree, those of a source before those of the sources below it."""
        below: dict[str, list[str]] = {name: [] for name in tree}
        for name in tree:
            for source in self.above[name]:
                below[source].append(name)
        sources = sorted((name for name in tree if below[name]), key=self._way)
        drawn = self._drawn(tree)
        found = [
            Tally(
                _spelled(source, capacity, alone=len(sources) == 1),
                total,
                {source: total} | draws if total.nanos else draws,
            )
            for source in sources
            for capacity, total, draws in self._capacities(source, drawn)
        ]
        found += self._exclusions(tree, sources, below, drawn)
        return found

    def _way(self, name: str) -> list[str]:
        """The way down to a device, by the first source of each."""
        way = [name]
        while self.parents[way[-1]]:
            way.append(self.parents[way[-1]][0])
        return way[::-1]

    def _drawn(self, tree: Iterable[str]) -> dict[tuple[str, str], dict[str, Quantity]]:
        """(source, capacity) -> sink -> amount."""
        drawn: dict[tuple[str, str], dict[str, Quantity]] = {}
        for name in tree:
            for capacity, amount in self.members[name].capacity.items():
                if amount.nanos:
                    for source in self._chain(name, capacity):
                        drawn.setdefault((source, capacity), {})[name] = amount
        return drawn

    def _chain(self, name: str, capacity: str) -> Iterator[str]:
        """The sources that a capacity of a device is taken from, up to the root.

        Of several sources the last that has the capacity gives it. Where none has it the last one is
        charged all the same: it has nothing of it, so that the device can never be had (CCF-4).
        """
        while self.parents[name]:
            listed = self.members[name].sources
            having = [source for source in listed if capacity in self.members[source].capacity]
            if not having:
                yield self.parents[name][-1]
                return
            if having[-1] == name:
                return
            name = having[-1]
            yield name

    def _capacities(
        self, source: str, drawn: Mapping[tuple[str, str], dict[str, Quantity]]
    ) -> Iterator[tuple[str, Quantity, dict[str, Quantity]]]:
        own = self.members[source].capacity
        missing = [capacity for at, capacity in drawn if at == source and capacity not in own]
        for capacity in (*own, *missing):
            if (source, capacity) in drawn:
                yield capacity, own.get(capacity, NOTHING), drawn[source, capacity]

    def _exclusions(
        self,
        tree: Sequence[str],
        sources: Sequence[str],
        below: Mapping[str, Sequence[str]],
        drawn: Mapping[tuple[str, str], Mapping[str, Quantity]],
    ) -> list[Tally]:
        """Counters for sinks that draw nothing of a source, so that no other counter keeps them apart."""
        apart: dict[str, set[str]] = {source: set() for source in sources}
        for (source, capacity), draws in drawn.items():
            if self.members[source].capacity.get(capacity, NOTHING).nanos:
                apart[source].update(draws)
        together = {s: [name for name in below[s] if name not in apart[s]] for s in sources}
        together = {source: names for source, names in together.items() if names}
        if all(len(self.parents[name]) < 2 for name in tree):
            leaves = {self._leaf(name, below): None for names in together.values() for name in names}
            if len(leaves) < len(together):
                return [
                    Tally(f"{leaf}:", ONE, dict.fromkeys([leaf, *sorted(self.above[leaf])], ONE))
                    for leaf in leaves
                ]
        found: list[Tally] = []
        for source, names in together.items():
            count = Quantity.of(len(names))
            found.append(Tally(f"{source}:", count, {source: count, **dict.fromkeys(names, ONE)}))
        return found

    def _leaf(self, name: str, below: Mapping[str, Sequence[str]]) -> str:
        """A device at the end of the branch that a device begins; itself if nothing consumes from it."""
        return max(below[name], key=lambda sink: len(self.above[sink]), default=name)


def owner(counter: str) -> str:
    """The source whose counter this is; empty where a tree has only one."""
    return counter.rpartition(":")[0]


def _spelled(source: str, capacity: str, *, alone: bool) -> str:
    return capacity if alone else f"{source}:{capacity}"
