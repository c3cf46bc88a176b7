"""What policies think of sets of partitions, and all sets that fit, one by one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from tests.tools.naive_policies import PARTS, SIZES, Parts, slots_of

Part = tuple[int, str]
"""(GPU, part)"""
Loss = tuple[int, int]


def feasible(
    parts: Parts, node: str, asked: Sequence[tuple[str, int]], *, together: bool
) -> list[tuple[Part, ...]]:
    """The parts for all requests, each a size and a count; `together`: all on one GPU."""
    return [
        chosen
        for chosen in _choices(parts, node, asked, ())
        if not together or len({gpu for gpu, _ in chosen}) == 1
    ]


def _choices(
    parts: Parts, node: str, asked: Sequence[tuple[str, int]], chosen: tuple[Part, ...]
) -> Iterator[tuple[Part, ...]]:
    if not asked:
        yield chosen
        return
    (size, count), *others = asked
    open_parts = [(gpu, part) for name, gpu, part in parts.candidates(size) if name == node]
    for picked in combinations(open_parts, count):
        if _apart((*chosen, *picked)):
            yield from _choices(parts, node, others, (*chosen, *picked))


def _apart(chosen: Sequence[Part]) -> bool:
    slots = [(gpu, slot) for gpu, part in chosen for slot in slots_of(part)]
    return len(slots) == len(set(slots))


def least_loss(
    parts: Parts, node: str, chosen: Sequence[Part], demand: Mapping[str, tuple[int, int]]
) -> Loss:
    """The value that is lost, then the free slots of the GPUs now. Demand: size -> (weight, count)."""
    taken = {(gpu, slot) for gpu, part in chosen for slot in slots_of(part)}
    before, after = dict.fromkeys(SIZES.values(), 0), dict.fromkeys(SIZES.values(), 0)
    for gpu in range(len(parts.held[node])):
        for part in parts.open_parts(node, gpu):
            before[SIZES[PARTS[part][1]]] += 1
            after[SIZES[PARTS[part][1]]] += not taken & {(gpu, slot) for slot in slots_of(part)}
    lost = sum(w * (before[size] // count - after[size] // count) for size, (w, count) in demand.items())
    return lost, sum(len(parts.free_slots(node, gpu)) for gpu, _ in chosen)


def best_fit(parts: Parts, node: str, chosen: Sequence[Part], _: object = None) -> Loss:
    """The free slots that are left of the GPUs, for each part."""
    taken = {(gpu, slot) for gpu, part in chosen for slot in slots_of(part)}
    left = [len(parts.free_slots(node, gpu)) - sum(at == gpu for at, _ in taken) for gpu, _ in chosen]
    return sum(left), 0


def spread(parts: Parts, node: str, chosen: Sequence[Part], _: object = None) -> Loss:
    """Its opposite."""
    return -best_fit(parts, node, chosen)[0], 0
