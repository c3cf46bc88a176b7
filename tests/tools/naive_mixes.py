"""Twins of the kernels for boxes: every assignment of devices to kinds, every vector."""

from collections.abc import Iterator, Sequence
from itertools import product

Counts = tuple[int, ...]


def fitting(
    left: Sequence[int], draws: Sequence[Sequence[int]], kinds: Sequence[Sequence[bool]], width: int
) -> set[Counts]:
    """The counts of each of `width` kinds of all sets of devices that fit together."""
    return {
        tuple(chosen.count(kind) for kind in range(width))
        for chosen in product(*[[None, *(k for k in range(width) if serves[k])] for serves in kinds])
        if all(
            total == 0 or total <= have
            for total, have in zip(_drawn(chosen, draws, len(left)), left, strict=True)
        )
    }


def _drawn(chosen: Sequence[int | None], draws: Sequence[Sequence[int]], width: int) -> Iterator[int]:
    for column in range(width):
        yield sum(draw[column] for draw, kind in zip(draws, chosen, strict=True) if kind is not None)


def cells(caps: Sequence[int]) -> Iterator[Counts]:
    """All vectors with counts from 0 to the caps."""
    return product(*[range(cap + 1) for cap in caps])


def below(one: Counts, other: Counts) -> bool:
    """Whether a vector is nowhere above another."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def largest(counts: set[Counts]) -> set[Counts]:
    """The vectors that are below no other."""
    return {one for one in counts if not any(other != one and below(one, other) for other in counts)}
