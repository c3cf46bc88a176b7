"""The `compatibleOnlyWith` expressions of a pool, each evaluated once on all devices. Source: GRP-11."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.slices import Device
from reconciler.cel.limits import COMPILING_COST, READING_COST, STATED_COST_LIMIT
from reconciler.cel.program import CelRefused, Selector, compile_selector
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.tables import DeviceColumns, cel_rows, join, table_of
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.exclusion.pairs import JudgedPairs, Statement
from reconciler.state.devices.pools.stepwise import Steps

_TOO_MUCH = (
    f"all expressions of the pool together take more than {STATED_COST_LIMIT} steps on its devices; "
    "use fewer or simpler expressions"
)


class Problem(Struct, frozen=True):
    """An expression that does not compile, or fails on a device. Such pairs are incompatible."""

    device: DeviceID
    """The device that states the expression"""
    message: str


def evaluate(
    pool: PoolID,
    blocks: Sequence[Block],
    devices: Sequence[Device],
    pairs: JudgedPairs,
    vocabulary: Vocabulary,
) -> Steps[tuple[list[Statement], tuple[Problem, ...]]]:
    """The distinct expressions, and those that fail. One step for each expression.

    Expressions without an answer are true for no device, so they are joined to one. Thus their number does
    not matter, and the cost limit bounds that of the others.
    """
    stating: dict[str, list[int]] = {}
    for row, device in enumerate(devices):
        if device.compatible_only_with is not None:
            stating.setdefault(device.compatible_only_with.expression, []).append(row)
    if not stating:
        return [], ()
    rows = cel_rows(DeviceColumns.of(join([table_of(block) for block in blocks])), vocabulary)
    stated: list[Statement] = []
    unanswered = _mask(len(devices), ())
    problems: list[Problem] = []
    left = STATED_COST_LIMIT
    for expression, at in stating.items():
        yield
        by = DeviceID(*pool, devices[at[0]].name)
        left -= COMPILING_COST + READING_COST * len(expression)
        selector = _compiled(expression) if left > 0 else _TOO_MUCH
        if isinstance(selector, str):
            unanswered[at] = True
            problems.append(Problem(by, f"compatibleOnlyWith: {selector}"))
            continue
        masks = selector.masks(rows, left)
        too_much = selector.spent > left
        left -= selector.spent
        one = Statement(_mask(len(devices), at), masks.true)
        stated.append(one)
        failing = pairs.with_any(one.by) & masks.error
        if failing.any():
            # Finding out why it fails would take as many steps again.
            why = f": {_TOO_MUCH}" if too_much else _failure(selector, rows, failing, devices)
            problems.append(Problem(by, f"compatibleOnlyWith{why}"))
    if unanswered.any():
        stated.append(Statement(unanswered, _mask(len(devices), ())))
    return stated, tuple(problems)


def _mask(size: int, rows: Sequence[int]) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def _compiled(expression: str) -> Selector | str:
    """The selector, or why there is none."""
    try:
        return compile_selector(expression)
    except CelRefused as refused:
        return str(refused)


def _failure(selector: Selector, rows: CelRows, failing: Mask, devices: Sequence[Device]) -> str:
    first = int(np.flatnonzero(failing)[0])
    more = int(np.count_nonzero(failing)) - 1
    others = f", and on {more} more" if more else ""
    return f" fails on {devices[first].name}{others}: {selector.explain(rows, first)}"
