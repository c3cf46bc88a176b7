"""The kernels of `fgd` and `expected-fill` again, machine by machine and need by need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of demand."""

    cores: int
    units: int
    count: int
    models: frozenset[int]
    weight: int = 1


def fits(kind: Kind, cores: int, model: int, free: Sequence[int]) -> bool:
    enough = sum(left >= max(kind.units, 1) for left in free)
    return kind.cores <= cores and model in kind.models and enough >= kind.count


def fragmentation(kinds: Sequence[Kind], cores: int, model: int, free: Sequence[int]) -> int:
    """Sum of weight x what the kind cannot use of what is free."""
    total = 0
    for kind in kinds:
        usable = kind.count > 0 and fits(kind, cores, model, free)
        total += kind.weight * sum(left for left in free if not usable or left < kind.units)
    return total


def after(need: Kind, free: Sequence[int], device: int) -> list[int]:
    """What is free once the need is placed, on a device or on the first that are free."""
    left = list(free)
    chosen = (
        [device] if device >= 0 else [at for at, one in enumerate(free) if one >= need.units][: need.count]
    )
    for at in chosen if need.count else []:
        left[at] -= need.units
    return left


def points(
    kinds: Sequence[Kind], need: Kind, cores: int, model: int, free: Sequence[int]
) -> tuple[int, int] | None:
    """(points, device) of the best way to place the need; None if it does not fit."""
    if not fits(need, cores, model, free):
        return None
    shared = need.count == 1 and need.units < 1000
    devices = [at for at, one in enumerate(free) if one >= need.units] if shared else [-1]
    total = sum(kind.weight for kind in kinds)
    before = fragmentation(kinds, cores, model, free)
    found = []
    for device in devices:
        left = after(need, free, device)
        change = before - fragmentation(kinds, cores - need.cores, model, left)
        found.append((math.floor(100 / (1 + math.exp(-change / total / 1000)) + 1e-9), device))
    return max(found, key=lambda one: one[0])


def filled(sequences: Sequence[Sequence[Kind]], cores: int, model: int, free: Sequence[int]) -> int:
    """The thousandths that the sequences fill, by best fit."""
    total = 0
    for sequence in sequences:
        now, room = list(free), cores
        for kind in sequence:
            if kind.count == 1:
                enough = [(one, at) for at, one in enumerate(now) if one >= kind.units]
            else:
                enough = [(one, at) for at, one in enumerate(now) if one == 1000]
            if len(enough) < kind.count or kind.cores > room or model not in kind.models:
                continue
            for _, at in sorted(enough)[: kind.count]:
                now[at] -= kind.units
            room -= kind.cores
            total += kind.units * kind.count
    return total
