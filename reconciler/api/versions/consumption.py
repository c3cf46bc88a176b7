"""Converts devices that consume capacity from others to counters. Source: CCF-1 to CCF-6, TRN-1 to TRN-4.

A source is a device that others consume from; a sink is a device that consumes. A device can be allocated
if none of its direct and indirect sources and sinks is allocated, and if each source has enough capacity
remaining. A sink consumes from every source above it. So each source has one counter for each capacity:
the source itself draws the total, and all sinks below it draw their part. For sinks that draw nothing from
a source, one more counter excludes the source. Redundant counters are dropped, the others packed into
sets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.errors import Malformed


class CounterLimit(Struct, frozen=True):
    """One counter: devices can be allocated together if the sum of their draws does not exceed the total."""

    name: str
    total: Quantity
    draws: Mapping[str, Quantity]
    """Device -> amount, above zero"""


def drop_redundant(tallies: Sequence[CounterLimit]) -> list[CounterLimit]:
    """The same limits with fewer counters, in their order. The same devices can be allocated together.

    The result differs only if another allocator has already allocated more than the counters allow.
    """
    return _without_idle(_without_implied(tallies))


def _without_implied(tallies: Sequence[CounterLimit]) -> list[CounterLimit]:
    """Drop every counter that is implied by another one, from which each device draws a larger share."""
    bit = {device: 1 << at for at, device in enumerate({d: None for t in tallies for d in t.draws})}
    masks = [sum(bit[device] for device in tally.draws) for tally in tallies]
    kept = list(range(len(tallies)))
    for at in reversed(range(len(tallies))):
        if any(
            other != at and not masks[at] & ~masks[other] and _implies(tallies[other], tallies[at])
            for other in kept
        ):
            kept.remove(at)
    return [tallies[at] for at in kept]


def _implies(stronger: CounterLimit, weaker: CounterLimit) -> bool:
    if stronger.total.nanos <= 0 or weaker.total.nanos <= 0:
        return False
    return all(
        amount.nanos * stronger.total.nanos <= stronger.draws[device].nanos * weaker.total.nanos
        for device, amount in weaker.draws.items()
    )


def _without_idle(tallies: Sequence[CounterLimit]) -> list[CounterLimit]:
    """Drop every counter that cannot be exceeded because of the others."""
    kept = list(tallies)
    for tally in tallies:
        others = [other for other in kept if other is not tally]
        if _never_exceeded(tally, others):
            kept = others
    return kept


def _never_exceeded(tally: CounterLimit, others: Sequence[CounterLimit]) -> bool:
    """Split its devices into groups that exclude each other by other counters; sum up the largest draws."""
    if any(amount.nanos > tally.total.nanos for amount in tally.draws.values()):
        return False
    near = [other for other in others if len(other.draws.keys() & tally.draws.keys()) > 1]
    groups: list[list[str]] = []
    for device in sorted(tally.draws, key=lambda device: -tally.draws[device].nanos):
        home = next((g for g in groups if all(_exclude(device, member, near) for member in g)), None)
        if home is None:
            groups.append([device])
        else:
            home.append(device)
    return sum(tally.draws[group[0]].nanos for group in groups) <= tally.total.nanos


def _exclude(one: str, other: str, tallies: Iterable[CounterLimit]) -> bool:
    return any(
        one in tally.draws
        and other in tally.draws
        and tally.draws[one].nanos + tally.draws[other].nanos > tally.total.nanos
        for tally in tallies
    )


class Packed(Struct, frozen=True):
    """Counters in sets, and the devices that draw from too many sets."""

    sets: tuple[tuple[CounterLimit, ...], ...]
    too_many: Mapping[str, int]
    """Device -> the number of sets that it draws from"""


def pack(groups: Iterable[Sequence[CounterLimit]], *, size: int, most: int) -> Packed:
    """Fill sets of at most `size` counters so that, if possible, no device draws from more than `most`.

    The counters of a group stay together if they fit into one set. A group that shares no device with earlier
    groups starts a new set, so that the groups below it have room there.
    """
    sets: list[list[CounterLimit]] = []
    of_device: dict[str, set[int]] = {}
    for group in groups:
        for start in range(0, len(group), size):
            part = group[start : start + size]
            devices = {device for tally in part for device in tally.draws}
            room = [at for at, members in enumerate(sets) if len(members) + len(part) <= size]
            added = {
                at: sum(at not in of_device.get(device, ()) for device in devices)
                for at in (len(sets), *room)
            }
            fitting = [
                at for at in added if all(len(of_device.get(d, set()) | {at}) <= most for d in devices)
            ]
            at = min(fitting or added, key=added.__getitem__)
            if at == len(sets):
                sets.append([])
            sets[at] += part
            for device in devices:
                of_device.setdefault(device, set()).add(at)
    return Packed(
        tuple(tuple(members) for members in sets),
        {device: len(used) for device, used in of_device.items() if len(used) > most},
    )


def connected(names: Iterable[str], together: Iterable[Sequence[str]]) -> list[list[str]]:
    """The names in groups, in their order: those that are together, also by way of others."""
    home = {name: name for name in names}

    def root(name: str) -> str:
        while home[name] != name:
            home[name] = home[home[name]]
            name = home[name]
        return name

    for one in together:
        for name in one[1:]:
            home[root(name)] = root(one[0])
    found: dict[str, list[str]] = {}
    for name in home:
        found.setdefault(root(name), []).append(name)
    return list(found.values())


NOTHING = Quantity(0)
ONE = Quantity.of(1)


class Member(Struct, frozen=True):
    """A device of a slice, and the devices of the slice that it consumes from."""

    name: str
    sources: tuple[str, ...]
    """In their listed order; the device's own name ends the recursion"""
    capacity: Mapping[str, Quantity]


class Forest:
    """All devices of one slice. Raises Malformed for a source that does not exist, and for a cycle."""

    def __init__(self, members: Sequence[Member], subject: str) -> None:
        self.members = {member.name: member for member in members}
        self.parents = {
            member.name: tuple(dict.fromkeys(source for source in member.sources if source != member.name))
            for member in members
        }
        for member in members:
            for source in self.parents[member.name]:
                if source not in self.members:
                    reason = f"names {source}, which is not a device of this slice"
                    raise Malformed(subject, f"device {member.name}: consumesCapacityFrom", reason)
        self.above = self._ancestors(subject)

    def _ancestors(self, subject: str) -> Mapping[str, frozenset[str]]:
        """Device -> every source above it. Without recursion: chains may be long."""
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
                    raise Malformed(subject, "consumesCapacityFrom", f"has a cycle: {cycle}")
                else:
                    path.append(unknown)
        return above

    def trees(self) -> list[list[str]]:
        """Groups of connected devices; devices without sinks and sources are omitted."""
        together = [(name, *parents) for name, parents in self.parents.items()]
        return [names for names in connected(self.members, together) if len(names) > 1]

    def tallies(self, tree: Sequence[str]) -> list[CounterLimit]:
        """The counters of one tree. The counters of a source come before those of the sources below it."""
        below: dict[str, list[str]] = {name: [] for name in tree}
        for name in tree:
            for source in self.above[name]:
                below[source].append(name)
        sources = sorted((name for name in tree if below[name]), key=self._path_from_root)
        drawn = self._drawn(tree)
        found = [
            CounterLimit(
                _spelled(source, capacity, alone=len(sources) == 1),
                total,
                {source: total} | draws if total.nanos else draws,
            )
            for source in sources
            for capacity, total, draws in self._capacities(source, drawn)
        ]
        found += self._exclusions(tree, sources, below, drawn)
        return found

    def _path_from_root(self, name: str) -> list[str]:
        """The path from the root to a device, along the first source of each device."""
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
        """The sources that a capacity of a device is consumed from, up to the root.

        The last listed source that has the capacity provides it. If none has it, the last one is charged:
        its total is zero, so that the device can never be allocated (CCF-4).
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
    ) -> list[CounterLimit]:
        """Counters for sinks that draw nothing from a source, so that no other counter excludes the pair."""
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
                    CounterLimit(f"{leaf}:", ONE, dict.fromkeys([leaf, *sorted(self.above[leaf])], ONE))
                    for leaf in leaves
                ]
        found: list[CounterLimit] = []
        for source, names in together.items():
            count = Quantity.of(len(names))
            found.append(CounterLimit(f"{source}:", count, {source: count, **dict.fromkeys(names, ONE)}))
        return found

    def _leaf(self, name: str, below: Mapping[str, Sequence[str]]) -> str:
        """The deepest device below a device; the device itself if nothing consumes from it."""
        return max(below[name], key=lambda sink: len(self.above[sink]), default=name)


def source_of_counter(counter: str) -> str:
    """The source of a counter; empty if the tree has only one source."""
    return counter.rpartition(":")[0]


def _spelled(source: str, capacity: str, *, alone: bool) -> str:
    return capacity if alone else f"{source}:{capacity}"
