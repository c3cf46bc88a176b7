"""Counter sets and what draws from them. Source: POOL-11, CTR-1 to CTR-6."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding, nearest, some
from reconciler.doctor.picture import Picture, Slices
from reconciler.doctor.pools import generations, is_complete, newest
from reconciler.manifests.bundle import Entry
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.quantity import Quantity
from reconciler.objects.slices import CounterConsumption


@dataclass(frozen=True, slots=True)
class Published:
    """One counter set, and where it is."""

    entry: Entry
    path: str
    counters: dict[str, Quantity] = field(default_factory=dict)


def published(slices: Slices) -> dict[str, Published]:
    """The counter sets of one generation, the first of each name."""
    found: dict[str, Published] = {}
    for entry, source in slices:
        for index, counters in enumerate(source.spec.shared_counters):
            amounts = {name: counter.value for name, counter in counters.counters.items()}
            found.setdefault(counters.name, Published(entry, f"spec.sharedCounters[{index}]", amounts))
    return found


def _draws(slices: Slices) -> Iterator[tuple[Entry, str, str, CounterConsumption]]:
    """Slice, path, device and what it draws from one set."""
    for entry, source in slices:
        for index, device in enumerate(source.spec.devices):
            for number, draw in enumerate(device.consumes_counters):
                yield entry, f"spec.devices[{index}].consumesCounters[{number}]", device.name, draw


def duplicate_sets(picture: Picture) -> Iterator[Finding]:
    """Counter sets of one name in one generation."""
    for pool, slices in picture.pools().items():
        for peers in generations(slices).values():
            first = published(peers)
            for entry, source in peers:
                for index, counters in enumerate(source.spec.shared_counters):
                    path, other = f"spec.sharedCounters[{index}]", first[counters.name]
                    if other.entry is not entry or other.path != path:
                        what = f"pool {pool} has set {counters.name} also at {other.entry.origin}"
                        yield rules.DUPLICATE_COUNTER_SET.found(entry, f"{path}.name", what)


def dangling(picture: Picture) -> Iterator[Finding]:
    """References to sets and counters that are not there."""
    for pool, slices in picture.pools().items():
        for peers in generations(slices).values():
            sets = published(peers)
            for entry, path, device, draw in _draws(peers):
                known = sets.get(draw.counter_set)
                if known is None:
                    hint = nearest(draw.counter_set, sets)
                    what = f"{device} draws from {draw.counter_set}, which pool {pool} does not have{hint}"
                    yield rules.DANGLING_COUNTER_SET.found(entry, f"{path}.counterSet", what)
                    continue
                for name in draw.counters:
                    if name not in known.counters:
                        hint = nearest(name, known.counters)
                        what = f"{device} draws {name}, which set {draw.counter_set} does not have{hint}"
                        yield rules.DANGLING_COUNTER.found(entry, f"{path}.counters[{name}]", what)


def never_fits(picture: Picture) -> Iterator[Finding]:
    """Devices that draw more than there is, also by drawing from one set twice."""
    for slices in picture.pools().values():
        for peers in generations(slices).values():
            sets = published(peers)
            for entry, path, device, draw in _draws(peers):
                known = sets[draw.counter_set].counters if draw.counter_set in sets else {}
                for name, counter in draw.counters.items():
                    if name in known and counter.value.nanos > known[name].nanos:
                        what = (
                            f"{device} draws {counter.value} of {name}, "
                            f"set {draw.counter_set} holds {known[name]}"
                        )
                        yield rules.DEVICE_NEVER_FITS.found(entry, f"{path}.counters[{name}].value", what)


def unused(picture: Picture) -> Iterator[Finding]:
    """Counters that nobody draws, where all slices of the pool are there to tell."""
    for slices in picture.pools().values():
        current = newest(slices)
        if not is_complete(current):
            continue
        drawn = {(draw.counter_set, name) for *_, draw in _draws(current) for name in draw.counters}
        for set_name, known in published(current).items():
            left = [name for name in known.counters if (set_name, name) not in drawn]
            if left:
                what = f"no device draws {some(left)} from set {set_name}"
                yield rules.UNUSED_COUNTER.found(known.entry, f"{known.path}.counters", what)


def overcommitted(picture: Picture) -> Iterator[Finding]:
    """Sets from which the devices that are held draw too much. A shared device draws once."""
    held: dict[tuple[str, str, str], list[str]] = {}
    for _, claim in picture.of(ResourceClaim):
        for result in claim.allocation.devices.results if claim.allocation else ():
            if not result.admin_access:
                held.setdefault(result.id, []).append(str(claim.key))
    for pool, slices in picture.pools().items():
        current = newest(slices)
        sets = published(current)
        used: dict[tuple[str, str], Quantity] = {}
        by: dict[tuple[str, str], dict[str, None]] = {}
        for _, _, device, draw in _draws(current):
            for name, counter in draw.counters.items() if (*pool, device) in held else ():
                key = draw.counter_set, name
                used[key] = used.get(key, Quantity.of(0)) + counter.value
                by.setdefault(key, {}).update(dict.fromkeys(held[(*pool, device)]))
        for (set_name, name), amount in used.items():
            known = sets.get(set_name)
            total = known.counters.get(name) if known else None
            if known is not None and total is not None and amount.nanos > total.nanos:
                claims = some(by[set_name, name])
                what = f"{amount} of {name} are drawn from {set_name}, which holds {total}; for {claims}"
                path = f"{known.path}.counters[{name}]"
                yield rules.COUNTERS_OVERCOMMITTED.found(known.entry, path, what)
