"""Which devices of one pool can be held together.

Compatibility groups follow GRP-1 to GRP-7. In mode `kep-5963` all held devices of a scope need one name in
common; "no groups" is also a name. Everything else is a mark. A device can ask for a mark; the other held
devices must then meet it. An expression is a mark, met by the devices for which it is true. In mode
`pairwise` a list of groups is a mark, met by the devices that share one of them or have no groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from kernels.exclusion import ALL, pack_bits
from kernels.types import Bits, Codes, Mask
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, GroupMode, Semantics
from reconciler.api.objects.slices import Device
from reconciler.cel.limits import COMPILING_COST, READING_COST, STATED_COST_LIMIT
from reconciler.cel.program import CelRefused, Selector, compile_selector
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.tables import cel_rows, join, table_of
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.pools.counters import PoolCounters
from reconciler.state.devices.pools.stepwise import Steps

NO_GROUPS = ""
"""The name of devices without groups in mode `kep-5963`"""


class ScopeID(NamedTuple):
    """A scope of devices that draw from no counters."""

    generation: int
    node: str
    """Empty if the pool belongs to no node"""


@dataclass(frozen=True, slots=True)
class Problem:
    """An expression that does not compile, or fails on a device. Such pairs are incompatible."""

    device: DeviceID
    """The device that states the expression"""
    message: str


@dataclass(frozen=True, slots=True)
class PoolExclusion:
    """Columns of the n devices of a pool; K is at least 1."""

    scopes: Codes
    """(n, K) position among the pool's counter sets, or after them in `apart`; -1 for none"""
    apart: tuple[ScopeID, ...]
    names: Bits
    """(n, K, W) names; all held devices of the scope need one in common"""
    marks: int
    asks: Bits
    """(n, K, V) marks that the others must meet"""
    meets: Bits
    """(n, K, V) marks that the device meets"""
    problems: tuple[Problem, ...]


def compile_exclusion(
    pool: PoolID, blocks: Sequence[Block], counters: PoolCounters, vocabulary: Vocabulary, rules: Semantics
) -> Steps[PoolExclusion | None]:
    """The columns of a pool whose slices are `blocks`; None if no device declares anything.

    One step for each distinct expression: compiling and running it may take milliseconds.
    """
    if not any(block.exclusive for block in blocks):
        return None
    devices = [device for block in blocks for device in block.slice.spec.devices]
    scopes, apart = _scopes(blocks, counters)
    groups = _groups(devices, scopes, counters)
    mode = rules.group_mode(pool.driver)
    expressions, problems = yield from _expressions(pool, blocks, devices, scopes, vocabulary)
    pairwise = mode == "pairwise" and rules.has(COMPATIBILITY_GROUPS)
    marks = [*expressions, *_group_marks(groups, scopes)] if pairwise else expressions
    shape = (*scopes.shape, max(len(marks), 1))
    asks, meets = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    for number, mark in enumerate(marks):
        asks[:, :, number], meets[:, :, number] = mark
    asks &= (scopes >= 0)[:, :, None]
    asks, meets = _numbered_by_scope(scopes, asks, meets)
    return PoolExclusion(
        scopes=scopes,
        apart=apart,
        names=_names(groups, scopes, mode, on=rules.has(COMPATIBILITY_GROUPS)),
        marks=asks.shape[2] if marks else 0,
        asks=pack_bits(asks),
        meets=pack_bits(meets),
        problems=problems,
    )


def _numbered_by_scope(scopes: Codes, asks: Mask, meets: Mask) -> tuple[Mask, Mask]:
    """The same marks (n, K, M), numbered within each scope; M is the largest number that one scope asks for.

    A pool may have one expression for each physical device, but a scope uses only a few of them.
    """
    known = {
        scope: np.flatnonzero(asks[scopes == scope].any(axis=0))
        for scope in np.unique(scopes[scopes >= 0]).tolist()
    }
    width = max((len(marks) for marks in known.values()), default=0)
    shape = (*scopes.shape, max(width, 1))
    fewer_asks, fewer_meets = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    for scope, marks in known.items():
        rows, k = np.nonzero(scopes == scope)
        fewer_asks[rows, k, : len(marks)] = asks[rows, k][:, marks]
        fewer_meets[rows, k, : len(marks)] = meets[rows, k][:, marks]
    return fewer_asks, fewer_meets


def _scopes(blocks: Sequence[Block], counters: PoolCounters) -> tuple[Codes, tuple[ScopeID, ...]]:
    """(n, K) scopes: counter sets, or for devices that draw from none a scope of their own."""
    drawn = counters.of_device
    scopes = np.full((len(drawn), max(drawn.shape[1], 1)), -1, dtype=np.int32)
    scopes[:, : drawn.shape[1]] = drawn
    for k in range(1, drawn.shape[1]):  # two draws from one set are one scope
        scopes[(drawn[:, :k] == drawn[:, k : k + 1]).any(axis=1), k] = -1
    local = all(block.slice.spec.node_name for block in blocks)
    apart: dict[ScopeID, int] = {}
    start = 0
    for block in blocks:
        place = ScopeID(block.generation, block.slice.spec.node_name or "" if local else "")
        alone = np.flatnonzero((block.sets < 0).all(axis=1)) + start
        if len(alone):
            scopes[alone, 0] = len(counters.sets) + apart.setdefault(place, len(apart))
        start += len(block.names)
    return scopes, tuple(apart)


Groups = Mapping[tuple[int, int], frozenset[str]]
"""(row, k) -> the groups that a device declares in a counter set; only where it draws from one"""


def _groups(devices: Sequence[Device], scopes: Codes, counters: PoolCounters) -> Groups:
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


def _names(groups: Groups, scopes: Codes, mode: GroupMode, *, on: bool) -> Bits:
    """(n, K, W) names, numbered within each scope; W fits the largest number of names."""
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


_TOO_MUCH = (
    f"all expressions of the pool together take more than {STATED_COST_LIMIT} steps on its devices; "
    "use fewer or simpler expressions"
)
Mark = tuple[Mask, Mask]
"""(n, K) the devices that ask for it, and (n, K) those that meet it"""


def _group_marks(groups: Groups, scopes: Codes) -> Iterator[Mark]:
    """One mark for each distinct list of groups."""
    distinct = sorted({declared for declared in groups.values() if declared}, key=sorted)
    for wanted in distinct:
        asks, meets = np.zeros(scopes.shape, dtype=np.bool_), np.ones(scopes.shape, dtype=np.bool_)
        for at, declared in groups.items():
            asks[at] = declared == wanted
            meets[at] = not declared or not declared.isdisjoint(wanted)
        yield asks, meets


def _expressions(
    pool: PoolID, blocks: Sequence[Block], devices: Sequence[Device], scopes: Codes, vocabulary: Vocabulary
) -> Steps[tuple[list[Mark], tuple[Problem, ...]]]:
    """A mark for each distinct expression: evaluated once, on all devices."""
    stating: dict[str, list[int]] = {}
    for row, device in enumerate(devices):
        if device.compatible_only_with is not None:
            stating.setdefault(device.compatible_only_with.expression, []).append(row)
    if not stating:
        return [], ()
    rows = cel_rows(join([table_of(block) for block in blocks]), vocabulary)
    marks: list[Mark] = []
    problems: list[Problem] = []
    left = STATED_COST_LIMIT
    for expression, stated in stating.items():
        yield
        asks = np.zeros(scopes.shape, dtype=np.bool_)
        asks[stated] = True
        by = DeviceID(*pool, devices[stated[0]].name)
        left -= COMPILING_COST + READING_COST * len(expression)
        selector = _compiled(expression) if left > 0 else _TOO_MUCH
        if isinstance(selector, str):
            marks.append((asks, np.zeros(scopes.shape, dtype=np.bool_)))
            problems.append(Problem(by, f"compatibleOnlyWith: {selector}"))
            continue
        masks = selector.masks(rows, left)
        too_much = selector.spent > left
        left -= selector.spent
        marks.append((asks, np.repeat(masks.true[:, None], scopes.shape[1], axis=1)))
        failing = _applies_to(scopes, stated) & masks.error
        if failing.any():
            # Finding out why it fails would take as many steps again.
            why = f": {_TOO_MUCH}" if too_much else _failure(selector, rows, failing, devices)
            problems.append(Problem(by, f"compatibleOnlyWith{why}"))
    return marks, tuple(problems)


def _compiled(expression: str) -> Selector | str:
    """The selector, or why there is none."""
    try:
        return compile_selector(expression)
    except CelRefused as refused:
        return str(refused)


def _applies_to(scopes: Codes, stated: Sequence[int]) -> Mask:
    """(n,) devices that an expression applies to: those in a scope of a device that states it."""
    affected = np.unique(scopes[stated])
    found: Mask = np.any(np.isin(scopes, affected[affected >= 0]), axis=1)
    if len(stated) == 1:
        found[stated] = False
    return found


def _failure(selector: Selector, rows: CelRows, failing: Mask, devices: Sequence[Device]) -> str:
    first = int(np.flatnonzero(failing)[0])
    more = int(np.count_nonzero(failing)) - 1
    others = f", and on {more} more" if more else ""
    return f" fails on {devices[first].name}{others}: {selector.explain(rows, first)}"
