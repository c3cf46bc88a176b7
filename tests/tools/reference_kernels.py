"""The definition of each kernel, in plain loops over plain integers. Slow and simple."""

from collections.abc import Sequence
from itertools import product

Row = Sequence[int]
Table = Sequence[Row]


def fits(left: Table, table: Table, sets: Table, draws: Table) -> list[bool]:
    """Whether every set that a device draws from has enough of every counter."""
    answers = []
    for of_device, rows in zip(sets, draws, strict=True):
        fine = True
        for chosen, row in zip(of_device, rows, strict=True):
            if chosen < 0:
                continue
            for wanted, there in zip(table[row], left[chosen], strict=True):
                if wanted != 0 and wanted > there:
                    fine = False
        answers.append(fine)
    return answers


def total_draw(size: int, table: Table, sets: Table, draws: Table) -> list[list[int]]:
    """The sum of all draws, set by set and counter by counter."""
    width = len(table[0]) if table else 0
    total = [[0] * width for _ in range(size)]
    for of_device, rows in zip(sets, draws, strict=True):
        for chosen, row in zip(of_device, rows, strict=True):
            if chosen >= 0:
                for counter in range(width):
                    total[chosen][counter] += table[row][counter]
    return total


def held_back(free: Table, kept: Table) -> list[list[int]]:
    """What remains for others: nothing is taken below zero."""
    return [
        [max(there - held, min(there, 0)) for there, held in zip(*rows, strict=True)]
        for rows in zip(free, kept, strict=True)
    ]


def draw_one(left: Table, table: Table, sets: Row, draws: Row) -> list[list[int]]:
    """What is free after one device has drawn."""
    after = [list(row) for row in left]
    for chosen, row in zip(sets, draws, strict=True):
        if chosen >= 0:
            for counter, amount in enumerate(table[row]):
                after[chosen][counter] -= amount
    return after


def rows_of(codes: Sequence[Row], code: int) -> list[int]:
    """The rows in which a code occurs, once per occurrence."""
    return [row for row, entries in enumerate(codes) for entry in entries if entry == code]


def group_min(values: Table, groups: Row, size: int, width: int) -> list[list[int]]:
    """The least of each column in each group, zero for groups without rows."""
    members = [[row for row, group in zip(values, groups, strict=True) if group == g] for g in range(size)]
    return [[min((row[c] for row in rows), default=0) for c in range(width)] for rows in members]


def group_code(codes: Row, groups: Row, size: int) -> list[int]:
    """The one code of each group, -1 where there is none or more than one."""
    members = [{code for code, group in zip(codes, groups, strict=True) if group == g} for g in range(size)]
    return [next(iter(found)) if len(found) == 1 else -1 for found in members]


Names = Sequence[Sequence[frozenset[int]]]
"""The names of each device in each of its scopes."""


def shared_by_all(size: int, scopes: Table, names: Names) -> list[set[int] | None]:
    """The names that all devices in a scope have; None for an empty scope."""
    found: list[set[int] | None] = [None] * size
    for places, sets in zip(scopes, names, strict=True):
        for scope, declared in zip(places, sets, strict=True):
            if scope >= 0:
                before = found[scope]
                found[scope] = set(declared if before is None else before & declared)
    return found


def shares_a_name(common: Sequence[set[int] | None], scopes: Table, names: Names) -> list[bool]:
    """Whether each device shares a name with all devices in each of its scopes."""

    def fine(scope: int, declared: frozenset[int]) -> bool:
        there = common[scope] if scope >= 0 else None
        return scope < 0 or bool(declared if there is None else declared & there)

    return [all(map(fine, places, sets)) for places, sets in zip(scopes, names, strict=True)]


def count_marks(size: int, marks: int, scopes: Table, names: Names) -> list[list[int]]:
    """How often each mark occurs in each scope."""
    found = [[0] * marks for _ in range(size)]
    for places, sets in zip(scopes, names, strict=True):
        for scope, declared in zip(places, sets, strict=True):
            for mark in declared if scope >= 0 else ():
                found[scope][mark] += 1
    return found


def compatible_with(one: int, scopes: Table, asks: Names, meets: Names) -> list[bool]:
    """Whether each device is compatible with one device, in both directions, in every scope they share."""
    answers = []
    for other in range(len(scopes)):
        fine = True
        for k, scope in enumerate(scopes[one]):
            for j, same in enumerate(scopes[other]):
                if scope == same >= 0 and other != one:
                    fine &= asks[one][k] <= meets[other][j] and asks[other][j] <= meets[one][k]
        answers.append(fine)
    return answers


def compatible(scopes: Table, asks: Names, meets: Names, held: Sequence[bool]) -> list[bool]:
    """Whether each device is compatible with every other held device."""
    going = [compatible_with(one, scopes, asks, meets) for one in range(len(scopes))]
    return [
        all(going[one][other] or not held[one] for one in range(len(scopes))) for other in range(len(scopes))
    ]


def max_worth(draws: Table, copies: Row, worth: Row, left: Row) -> int:
    """The highest worth over all choices of items."""
    best = 0
    for taken in product(*(range(number + 1) for number in copies)):
        total = [sum(n * row[c] for n, row in zip(taken, draws, strict=True)) for c in range(len(left))]
        used = [any(n and row[c] for n, row in zip(taken, draws, strict=True)) for c in range(len(left))]
        if all(not any_ or want <= rest for want, rest, any_ in zip(total, left, used, strict=True)):
            best = max(best, sum(n * value for n, value in zip(taken, worth, strict=True)))
    return best


def taken_in_turn(free: Table, table: Table, sets: Row, draws: Row) -> list[bool]:
    """Each device in turn draws, if all that it draws is still free."""
    left = [list(row) for row in free]
    answers = []
    for chosen, row in zip(sets, draws, strict=True):
        wanted = table[row] if chosen >= 0 else []
        fine = all(amount == 0 or amount <= left[chosen][at] for at, amount in enumerate(wanted))
        for at, amount in enumerate(wanted if fine else []):
            left[chosen][at] -= amount
        answers.append(fine)
    return answers


def groups_in_turn(groups: Row, count: int) -> list[list[int]]:
    """Time after time, the first row whose group has enough rows from there on, and the next rows of it."""
    left = list(range(len(groups)))
    taken: list[list[int]] = []
    while True:
        chances = ([other for other in left if other >= row and groups[other] == groups[row]] for row in left)
        found = next((alike[:count] for alike in chances if len(alike) >= count), None)
        if found is None:
            return taken
        taken.append(found)
        left = [row for row in left if row not in found]
