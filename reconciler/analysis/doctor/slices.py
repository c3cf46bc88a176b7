"""Checks of pools: their slices, counter sets, order of devices, node names and node selectors.

Source: SL-2, DEV-7, RES-13, NM-1, NM-2.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from kernels.types import Amounts
from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding, Slices
from reconciler.api.manifests.bundle import Entry
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.quantity import ZERO, Quantity
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.slices import CounterConsumption, ResourceSlice
from reconciler.errors import Rejected, shortened


def generations(slices: Slices) -> dict[int, Slices]:
    """The slices of each generation of one pool."""
    found: dict[int, Slices] = {}
    for entry, source in slices:
        found.setdefault(source.spec.pool.generation, []).append((entry, source))
    return found


def by_generation(data: DoctorInput) -> Iterator[tuple[PoolID, Slices]]:
    """Each pool, with the slices of each of its generations."""
    for pool, slices in data.pools().items():
        yield from ((pool, peers) for peers in generations(slices).values())


def newest(slices: Slices) -> Slices:
    """The slices of the newest generation of one pool."""
    return max(generations(slices).items())[1]


def is_complete(slices: Slices) -> bool:
    """Whether the number of slices of one generation equals resourceSliceCount of each."""
    return all(source.spec.pool.resource_slice_count == len(slices) for _, source in slices)


def incomplete(data: DoctorInput) -> Iterator[Finding]:
    """Pools with too few slices, or too many."""
    for pool, slices in data.pools().items():
        current = newest(slices)
        entry, first = current[0]
        wanted = first.spec.pool.resource_slice_count
        if (
            len(current) != wanted
            and len({source.spec.pool.resource_slice_count for _, source in current}) == 1
        ):
            generation = first.spec.pool.generation
            what = f"pool {pool} has {len(current)} of {wanted} slices of generation {generation}"
            yield findings.POOL_INCOMPLETE.finding(entry, "spec.pool.resourceSliceCount", what)


def obsolete(data: DoctorInput) -> Iterator[Finding]:
    """Slices of an older generation than the newest of their pool."""
    for pool, slices in data.pools().items():
        latest = max(source.spec.pool.generation for _, source in slices)
        for entry, source in slices:
            generation = source.spec.pool.generation
            if generation < latest:
                what = f"pool {pool} is at generation {latest}, but this slice is at {generation}"
                yield findings.POOL_OBSOLETE.finding(entry, "spec.pool.generation", what)


def disagreeing(data: DoctorInput) -> Iterator[Finding]:
    """Slices of one generation with different resourceSliceCount."""
    for pool, peers in by_generation(data):
        first, wanted = peers[0][0], peers[0][1].spec.pool.resource_slice_count
        for entry, source in peers[1:]:
            count = source.spec.pool.resource_slice_count
            if count != wanted:
                what = f"pool {pool}: the count is {count}, but {wanted} in {first.origin}"
                yield findings.POOL_DISAGREES.finding(entry, "spec.pool.resourceSliceCount", what)


def duplicate_devices(data: DoctorInput) -> Iterator[Finding]:
    """Duplicate device names in one generation of a pool, on one node or on two."""
    for pool, peers in by_generation(data):
        yield from _duplicates(pool, peers)


def _duplicates(pool: PoolID, peers: Slices) -> Iterator[Finding]:
    first: dict[str, tuple[int, int, str]] = {}
    for number, (entry, source) in enumerate(peers):
        for index, device in enumerate(source.spec.devices):
            here = number, index, source.spec.node_name or device.node_name or ""
            earlier = first.setdefault(device.name, here)
            if earlier == here:
                continue
            field, node, other = f"spec.devices[{index}].name", here[2], earlier[2]
            if node and other and node != other:
                what = f"{pool}/{device.name} is on node {other} and on node {node}"
                yield findings.DEVICE_ON_TWO_NODES.finding(entry, field, what)
            else:
                place = (
                    "twice in this slice"
                    if earlier[0] == number
                    else f"also in slice {peers[earlier[0]][1].key}"
                )
                yield findings.DUPLICATE_DEVICE.finding(entry, field, f"{pool}/{device.name} is {place}")


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
            amounts = {name: counter.get("value", ZERO) for name, counter in counters.counters.items()}
            found.setdefault(counters.name, Published(entry, f"spec.sharedCounters[{index}]", amounts))
    return found


def _draws(slices: Slices) -> Iterator[tuple[Entry, str, str, CounterConsumption]]:
    """Slice, path, device and its draw from one set."""
    for entry, source in slices:
        for index, device in enumerate(source.spec.devices):
            for number, draw in enumerate(device.consumes_counters):
                yield entry, f"spec.devices[{index}].consumesCounters[{number}]", device.name, draw


def counter_problems(data: DoctorInput) -> Iterator[Finding]:
    """What makes the counter sets of a generation unusable, and with them the pool."""
    invalid = {pool.id: pool.counters.problems for pool in data.snapshot.fleet.pools}
    for pool, slices in data.pools().items():
        for generation, peers in generations(slices).items():
            found = [*_duplicate_sets(pool, peers), *_bad_draws(pool, peers)]
            yield from found
            problem = invalid.get(pool, {}).get(generation)
            if problem and not found:
                yield findings.POOL_INVALID.finding(peers[0][0], "spec.pool", f"pool {pool}: {problem}")


def _duplicate_sets(pool: PoolID, peers: Slices) -> Iterator[Finding]:
    """Counter sets of one name in one generation."""
    first = published(peers)
    for entry, source in peers:
        for index, counters in enumerate(source.spec.shared_counters):
            path, other = f"spec.sharedCounters[{index}]", first[counters.name]
            if other.entry is not entry or other.path != path:
                what = f"pool {pool} also has set {counters.name} at {other.entry.origin}"
                yield findings.DUPLICATE_COUNTER_SET.finding(entry, f"{path}.name", what)


def _bad_draws(pool: PoolID, peers: Slices) -> Iterator[Finding]:
    """Draws from sets and counters that do not exist, and draws of negative amounts."""
    sets = published(peers)
    for entry, path, device, draw in _draws(peers):
        known = sets.get(draw.counter_set)
        if known is None:
            hint = suggestion(draw.counter_set, sets)
            what = f"{device} draws from {draw.counter_set}, which pool {pool} does not have{hint}"
            yield findings.DANGLING_COUNTER_SET.finding(entry, f"{path}.counterSet", what)
            continue
        for name, counter in draw.counters.items():
            if name not in known.counters:
                hint = suggestion(name, known.counters)
                what = f"{device} draws {name}, which set {draw.counter_set} does not have{hint}"
                yield findings.DANGLING_COUNTER.finding(entry, f"{path}.counters[{name}]", what)
            elif (amount := counter.get("value", ZERO)) < ZERO:
                what = f"{device} draws {amount} of {name} from set {draw.counter_set}"
                yield findings.NEGATIVE_DRAW.finding(entry, f"{path}.counters[{name}].value", what)


def never_fits(data: DoctorInput) -> Iterator[Finding]:
    """Devices that draw more than the counter set holds."""
    for _, peers in by_generation(data):
        sets = published(peers)
        for entry, path, device, draw in _draws(peers):
            known = sets[draw.counter_set].counters if draw.counter_set in sets else {}
            for name, counter in draw.counters.items():
                amount = counter.get("value", ZERO)
                if name in known and amount > known[name]:
                    what = (
                        f"{device} draws {amount} of {name}, but set {draw.counter_set} holds {known[name]}"
                    )
                    yield findings.DEVICE_NEVER_FITS.finding(entry, f"{path}.counters[{name}].value", what)


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
                yield findings.UNUSED_COUNTER.finding(known.entry, f"{known.path}.counters", what)


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
                used[key] = used.get(key, Quantity.of(0)) + counter.get("value", ZERO)
                by.setdefault(key, {}).update(dict.fromkeys(held[(*pool, device)]))
        for (set_name, name), amount in used.items():
            known = sets.get(set_name)
            total = known.counters.get(name) if known else None
            if known is not None and total is not None and amount.nanos > total.nanos:
                claims = shortened(by[set_name, name])
                what = f"{claims} draw {amount} of {name} from set {set_name}, which holds {total}"
                path = f"{known.path}.counters[{name}]"
                yield findings.COUNTERS_OVERCOMMITTED.finding(known.entry, path, what)


class _Drawing(NamedTuple):
    """A device that draws from a counter set."""

    place: tuple[int, int]
    """Index of the slice, and of the device in it, in first-fit order"""
    name: str
    node: str
    """The only node that reaches it, if it is named"""
    amounts: dict[str, int]
    """Counter -> nanos"""
    alone: bool
    """Whether it draws from no other set"""


def larger_first(data: DoctorInput) -> Iterator[Finding]:
    """Devices before others that draw no more of any counter and less of one; one finding for each pool."""
    for slices in data.pools().values():
        current = sorted(newest(slices), key=lambda one: one[1].key.name.encode())
        early = sorted(
            (place, name, of_set, smaller)
            for of_set, members in _by_set(current).items()
            for place, name, smaller in _early(members)
        )
        if early:
            (at, index), name, of_set, smaller = early[0]
            entry: Entry = current[at][0]
            others = len({place for place, *_ in early}) - 1
            verb = "device of the pool precedes" if others == 1 else "devices of the pool precede"
            more = f"; {others} more {verb} smaller ones" if others else ""
            what = f"{name} precedes smaller devices of set {of_set}: {shortened(smaller)}{more}"
            yield findings.LARGER_FIRST.finding(entry, f"spec.devices[{index}]", what)


def _by_set(slices: Slices) -> dict[str, list[_Drawing]]:
    """The devices that draw from each counter set, in first-fit order."""
    found: dict[str, list[_Drawing]] = {}
    for at, (_, source) in enumerate(slices):
        for index, device in enumerate(source.spec.devices):
            node = source.spec.node_name or device.node_name or ""
            alone = len(device.consumes_counters) == 1
            for draw in device.consumes_counters:
                amounts = {name: counter.get("value", ZERO).nanos for name, counter in draw.counters.items()}
                drawing = _Drawing((at, index), device.name, node, amounts, alone)
                found.setdefault(draw.counter_set, []).append(drawing)
    return found


def _early(members: list[_Drawing]) -> Iterator[tuple[tuple[int, int], str, list[str]]]:
    """Place and name of each device that precedes smaller ones, and their names."""
    ranks = _ranks(members)
    nodes = np.array([member.node for member in members])
    alone = np.array([member.alone for member in members])
    for at, member in enumerate(members[:-1]):
        mine, later = ranks[at], ranks[at + 1 :]
        smaller = (later <= mine).all(axis=1) & (later < mine).any(axis=1) & alone[at + 1 :]
        if member.node:
            others = nodes[at + 1 :]
            smaller &= (others == member.node) | (others == "")
        if smaller.any():
            yield member.place, member.name, [members[at + 1 + row].name for row in np.flatnonzero(smaller)]


def _ranks(members: list[_Drawing]) -> Amounts:
    """(members, counters) the rank of each amount among those of its counter: nanos may exceed 64 bits."""
    names = sorted({name for member in members for name in member.amounts})
    ranks = np.zeros((len(members), len(names)), dtype=np.int64)
    for column, name in enumerate(names):
        amounts = [member.amounts.get(name, 0) for member in members]
        rank = {amount: number for number, amount in enumerate(sorted(set(amounts)))}
        ranks[:, column] = [rank[amount] for amount in amounts]
    return ranks


_OPERATORS = {name.lower(): name for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")}

Place = tuple[Entry, str, str | None, NodeSelector | None]
"""Slice, path before `nodeName` or `nodeSelector`, and these two"""


def no_selection(data: DoctorInput) -> Iterator[Finding]:
    """Slices without a node selection; devices without one in a slice with perDeviceNodeSelection."""
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        placed = spec.node_name or spec.all_nodes or spec.per_device_node_selection
        if not placed and spec.node_selector is None:
            hint = "" if spec.devices or not spec.shared_counters else "; slices of counters need one too"
            yield findings.NO_NODE_SELECTION.finding(entry, "spec", f"has no node selection{hint}")
        for index, device in enumerate(spec.devices if spec.per_device_node_selection else ()):
            if not (device.node_name or device.all_nodes) and device.node_selector is None:
                what = f"device {device.name} has no node selection; perDeviceNodeSelection requires one"
                yield findings.NO_NODE_SELECTION.finding(entry, f"spec.devices[{index}]", what)


def bad_selector(data: DoctorInput) -> Iterator[Finding]:
    """Invalid requirements of node selectors."""
    for entry, path, _, selector in _places(data):
        for term_at, term in enumerate(selector.node_selector_terms if selector else ()):
            where = f"{path}nodeSelector.nodeSelectorTerms[{term_at}]"
            for number, one in enumerate(term.match_expressions):
                alone = NodeSelectorTerm(match_expressions=(one,))
                yield from _unreadable(entry, f"{where}.matchExpressions[{number}]", one, alone)
            for number, one in enumerate(term.match_fields):
                alone = NodeSelectorTerm(match_fields=(one,))
                yield from _unreadable(entry, f"{where}.matchFields[{number}]", one, alone)


def _unreadable(
    entry: Entry, path: str, one: NodeSelectorRequirement, alone: NodeSelectorTerm
) -> Iterator[Finding]:
    try:
        NodeSelector(node_selector_terms=(alone,)).check()
    except Rejected as exc:
        meant = _OPERATORS.get(one.operator.lower())
        wrong = meant != one.operator
        hint = f"; did you mean {meant}?" if wrong and meant else ""
        yield findings.BAD_NODE_SELECTOR.finding(entry, f"{path}.operator" if wrong else path, f"{exc}{hint}")


def several_terms(data: DoctorInput) -> Iterator[Finding]:
    """Selectors that a claim cannot carry (SL-2, RES-13). A claim carries the node for `bindsToNode`."""
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        selectors = [("spec", spec.node_selector)]
        if spec.per_device_node_selection:
            selectors += [
                (f"spec.devices[{index}]", device.node_selector)
                for index, device in enumerate(spec.devices)
                if not device.binds_to_node
            ]
        for path, selector in selectors:
            count = len(selector.node_selector_terms) if selector is not None else 0
            if count > 1:
                what = f"has {count} terms; a claim can carry 1"
                yield findings.SEVERAL_TERMS.finding(entry, f"{path}.nodeSelector.nodeSelectorTerms", what)


def matches_no_node(data: DoctorInput) -> Iterator[Finding]:
    """Node names and selectors that match no Node. Only if the input has Nodes."""
    labels = {node.key.name: node.metadata.labels for _, node in data.of(Node)}
    if not labels:
        return
    for entry, path, name, selector in _places(data):
        if name and name not in labels:
            yield findings.MATCHES_NO_NODE.finding(entry, f"{path}nodeName", f"node {name} does not exist")
        elif selector is not None and not _matches_any(selector, labels):
            what = f"matches 0 of {len(labels)} nodes"
            yield findings.MATCHES_NO_NODE.finding(entry, f"{path}nodeSelector", what)


def _matches_any(selector: NodeSelector, labels: dict[str, dict[str, str]]) -> bool:
    try:
        return any(selector.matches(name, of_node) for name, of_node in labels.items())
    except Rejected:  # another check reports it
        return True


def _places(data: DoctorInput) -> Iterator[Place]:
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        yield entry, "spec.", spec.node_name, spec.node_selector
        for index, device in enumerate(spec.devices if spec.per_device_node_selection else ()):
            yield entry, f"spec.devices[{index}].", device.node_name, device.node_selector
