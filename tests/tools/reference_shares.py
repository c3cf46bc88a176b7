"""The definition of the kernels for shares and overlapping sets, in plain loops."""

from collections.abc import Sequence

Row = Sequence[int]
Table = Sequence[Row]
Flags = Sequence[bool]


def unused(total: Table, used: Table) -> list[list[int]]:
    """What is free of each, never negative."""
    found = []
    for there, taken in zip(total, used, strict=True):
        found.append([t - u if t > u else 0 for t, u in zip(there, taken, strict=True)])
    return found


def share_fits(free: Table, reported: Sequence[Flags], some: Flags, wanted: Row) -> list[bool]:
    """Whether something is free, and enough of every reported resource."""
    found = []
    for there, known, any_free in zip(free, reported, some, strict=True):
        fine = any_free
        for amount, is_known, asked in zip(there, known, wanted, strict=True):
            if is_known and asked > amount:
                fine = False
        found.append(fine)
    return found


def enough(ok: Flags, owners: Row, needed: Row) -> list[bool]:
    """Whether each owner has as many as it needs."""
    return [
        sum(1 for fine, of in zip(ok, owners, strict=True) if fine and of == owner) >= least
        for owner, least in enumerate(needed)
    ]


def group_held(held: Flags, groups: Row) -> list[bool]:
    """Whether a device, or one of its group, is held."""
    return [
        held[i] or any(held[j] and groups[j] == group >= 0 for j in range(len(held)))
        for i, group in enumerate(groups)
    ]


def remaining_sets(sets: Sequence[set[int]], alive: Flags, picks: Row) -> list[list[bool]]:
    """Which sets can still be picked after each pick."""
    return [
        [ok and not (sets[pick] & other) for ok, other in zip(alive, sets, strict=True)] for pick in picks
    ]


def total_weight(left: Sequence[Flags], weights: Row) -> list[int]:
    """The sum of the remaining weights."""
    return [sum(w for ok, w in zip(row, weights, strict=True) if ok) for row in left]


def rank_by_remaining(left: Sequence[Flags], sizes: Row, worth: Row) -> list[int]:
    """Ranks by the largest remaining set, its worth, then the number of sets of each size, large to small."""

    def value(row: Flags) -> tuple[int, ...]:
        kept = [(size, w) for ok, size, w in zip(row, sizes, worth, strict=True) if ok]
        largest = max((size for size, _ in kept), default=0)
        best = max((w for size, w in kept if size == largest), default=-1)
        counts = (sum(1 for s, _ in kept if s == size) for size in sorted(set(sizes), reverse=True))
        return largest, best, *counts

    values = [value(row) for row in left]
    return [sorted(set(values), reverse=True).index(found) for found in values]


def largest_group(ok: Flags, groups: Row, owners: Row, size: int) -> list[int]:
    """The largest group of each owner."""
    found = [0] * size
    for group in {group for fine, group in zip(ok, groups, strict=True) if fine and group >= 0}:
        count = sum(fine and of == group for fine, of in zip(ok, groups, strict=True))
        found[owners[group]] = max(found[owners[group]], count)
    return found


def may_serve_together(
    lead: Flags, beside: Sequence[Flags], groups: Row, owners: Row, needed: Row, wanted: Sequence[Row]
) -> list[bool]:
    """Only groups with a device of every kind count."""
    found = []
    for owner, least in enumerate(needed):
        totals = [0] * (1 + len(beside))
        for group in {group for group in groups if group >= 0 and owners[group] == owner}:
            here = [sum(ok[at] for at in range(len(groups)) if groups[at] == group) for ok in (lead, *beside)]
            if all(here):
                totals = [total + count for total, count in zip(totals, here, strict=True)]
        least_of_each = (least, *(of_kind[owner] for of_kind in wanted))
        found.append(all(total >= count for total, count in zip(totals, least_of_each, strict=True)))
    return found
