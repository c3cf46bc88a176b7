"""Counters that limit which devices can be allocated together: drops redundant ones, packs them into sets."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity


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
