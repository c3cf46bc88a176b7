"""Checks counter sets and the devices that draw from them. Source: POOL-11, CTR-1 to CTR-6."""

from collections.abc import Iterator

from msgspec import Struct, field

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding, shortened, suggestion
from reconciler.analysis.doctor.input import DoctorInput, Slices
from reconciler.analysis.doctor.pools import generations, is_complete, newest
from reconciler.api.manifests.bundle import Entry
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.slices import CounterConsumption


class Published(Struct, frozen=True):
    """One counter set, and its place."""

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
    """Slice, path, device and its draw from one set."""
    for entry, source in slices:
        for index, device in enumerate(source.spec.devices):
            for number, draw in enumerate(device.consumes_counters):
                yield entry, f"spec.devices[{index}].consumesCounters[{number}]", device.name, draw


def duplicate_sets(data: DoctorInput) -> Iterator[Finding]:
    """Counter sets of one name in one generation."""
    for pool, slices in data.pools().items():
        for peers in generations(slices).values():
            first = published(peers)
            for entry, source in peers:
                for index, counters in enumerate(source.spec.shared_counters):
                    path, other = f"spec.sharedCounters[{index}]", first[counters.name]
                    if other.entry is not entry or other.path != path:
                        what = f"pool {pool} also has set {counters.name} at {other.entry.origin}"
                        yield rules.DUPLICATE_COUNTER_SET.finding(entry, f"{path}.name", what)


def dangling(data: DoctorInput) -> Iterator[Finding]:
    """References to sets and counters that do not exist."""
    for pool, slices in data.pools().items():
        for peers in generations(slices).values():
            sets = published(peers)
            for entry, path, device, draw in _draws(peers):
                known = sets.get(draw.counter_set)
                if known is None:
                    hint = suggestion(draw.counter_set, sets)
                    what = f"{device} draws from {draw.counter_set}, which pool {pool} does not have{hint}"
                    yield rules.DANGLING_COUNTER_SET.finding(entry, f"{path}.counterSet", what)
                    continue
                for name in draw.counters:
                    if name not in known.counters:
                        hint = suggestion(name, known.counters)
                        what = f"{device} draws {name}, which set {draw.counter_set} does not have{hint}"
                        yield rules.DANGLING_COUNTER.finding(entry, f"{path}.counters[{name}]", what)


def never_fits(data: DoctorInput) -> Iterator[Finding]:
    """Devices that draw more than the counter set holds."""
    for slices in data.pools().values():
        for peers in generations(slices).values():
            sets = published(peers)
            for entry, path, device, draw in _draws(peers):
                known = sets[draw.counter_set].counters if draw.counter_set in sets else {}
                for name, counter in draw.counters.items():
                    if name in known and counter.value.nanos > known[name].nanos:
                        what = (
                            f"{device} draws {counter.value} of {name}, "
                            f"but set {draw.counter_set} holds {known[name]}"
                        )
                        yield rules.DEVICE_NEVER_FITS.finding(entry, f"{path}.counters[{name}].value", what)


def unused(data: DoctorInput) -> Iterator[Finding]:
    """Counters that no device draws. Only for complete pools."""
    for slices in data.pools().values():
        current = newest(slices)
        if not is_complete(current):
            continue
        drawn = {(draw.counter_set, name) for *_, draw in _draws(current) for name in draw.counters}
        for set_name, known in published(current).items():
            undrawn = [name for name in known.counters if (set_name, name) not in drawn]
            if undrawn:
                what = f"no device draws {shortened(undrawn)} from set {set_name}"
                yield rules.UNUSED_COUNTER.finding(known.entry, f"{known.path}.counters", what)


def overcommitted(data: DoctorInput) -> Iterator[Finding]:
    """Sets from which the allocated devices draw too much. A shared device draws once."""
    held: dict[tuple[str, str, str], list[str]] = {}
    for _, claim in data.of(ResourceClaim):
        for result in claim.allocation.devices.results if claim.allocation else ():
            if not result.admin_access:
                held.setdefault(result.id, []).append(str(claim.key))
    for pool, slices in data.pools().items():
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
                claims = shortened(by[set_name, name])
                what = f"{claims} draw {amount} of {name} from set {set_name}, which holds {total}"
                path = f"{known.path}.counters[{name}]"
                yield rules.COUNTERS_OVERCOMMITTED.finding(known.entry, path, what)
