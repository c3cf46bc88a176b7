"""Compatibility groups of a pool's devices as names and marks. Source: GRP-1 to GRP-7."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from kernels.exclusion import ALL, pack_bits
from kernels.types import Bits, Codes
from reconciler.api.objects.semantics import GroupMode
from reconciler.api.objects.slices import Device
from reconciler.state.devices.exclusion.marks import Mark
from reconciler.state.devices.pools.counters import PoolCounters

NO_GROUPS = ""
"""The name of devices without groups in mode `kep-5963`"""

Groups = Mapping[tuple[int, int], frozenset[str]]
"""(row, k) -> the groups that a device declares in a counter set; only where it draws from one"""


def groups_of(devices: Sequence[Device], scopes: Codes, counters: PoolCounters) -> Groups:
    """The groups of all devices in each of their counter sets."""
    found: dict[tuple[int, int], frozenset[str]] = {}
    for row, k in np.argwhere((scopes >= 0) & (scopes < len(counters.sets))).tolist():
        name = counters.sets[int(scopes[row, k])].id.name
        found[row, k] = frozenset(
            chain.from_iterable(
                draw.compatibility_groups
                for draw in devices[row].consumes_counters
                if draw.counter_set == name
            )
        )
    return found


def group_names(groups: Groups, scopes: Codes, mode: GroupMode, *, on: bool) -> Bits:
    """(n, K, W) names, numbered within each scope; W fits the largest number of names.

    `on` is whether the feature gate is on.
    """
    if on and mode == "pairwise":
        return np.full((*scopes.shape, 1), ALL, dtype=np.uint64)
    if not on:  # GRP-7: a device that declares groups is compatible with none
        names = np.full((*scopes.shape, 1), ALL, dtype=np.uint64)
        for at, declared in groups.items():
            names[at] = 0 if declared else ALL
        return names
    numbers: dict[int, dict[str, int]] = {}
    for (row, k), declared in groups.items():
        of_scope = numbers.setdefault(int(scopes[row, k]), {NO_GROUPS: 0})
        for name in sorted(declared):
            of_scope.setdefault(f"group {name}", len(of_scope))
    width = max((len(of_scope) for of_scope in numbers.values()), default=1)
    single = np.zeros((*scopes.shape, width), dtype=np.bool_)
    for (row, k), declared in groups.items():
        of_scope = numbers[int(scopes[row, k])]
        wanted = [of_scope[f"group {name}"] for name in declared] or [of_scope[NO_GROUPS]]
        single[row, k, wanted] = True
    names = pack_bits(single)
    undeclared = np.ones(scopes.shape, dtype=np.bool_)
    undeclared[tuple(np.array(list(groups), dtype=np.intp).reshape(-1, 2).T)] = False
    names[undeclared] = ALL
    return names


def group_marks(groups: Groups, scopes: Codes) -> list[Mark]:
    """Marks for the lists of groups, in mode `pairwise`: the first list of every set, the second, and so on.

    As many as one set has distinct lists, not as many as the pool has.
    """
    of_set: dict[int, list[tuple[tuple[int, int], frozenset[str]]]] = {}
    for at, declared in groups.items():
        of_set.setdefault(int(scopes[at]), []).append((at, declared))
    marks: list[Mark] = []
    for members in of_set.values():
        wanted = sorted({declared for _, declared in members if declared}, key=sorted)
        for number, one in enumerate(wanted):
            if number == len(marks):
                shape = scopes.shape
                marks.append(Mark(np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)))
            for at, declared in members:
                marks[number].asks[at] = declared == one
                marks[number].meets[at] = not declared or not declared.isdisjoint(one)
    return marks
