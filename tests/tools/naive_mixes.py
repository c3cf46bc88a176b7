"""Twins of the kernels for mixes: every assignment of devices to kinds, every combination of sets."""

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


def enough(tables: Sequence[Sequence[Counts]], wanted: Counts) -> bool:
    """Whether one row of each table together reaches what is wanted."""
    return any(
        all(sum(column) >= need for column, need in zip(zip(*rows, strict=True), wanted, strict=True))
        for rows in product(*tables)
        if rows
    ) or not any(wanted)
