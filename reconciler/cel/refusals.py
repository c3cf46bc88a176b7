"""For validation, which compiles nothing by itself: why an expression does not compile, and what it costs.

Compiling is imported with the first expression: it needs numpy and lark, and most manifests have no selector.
"""

from collections.abc import Callable

from reconciler.api.validation.kinds import Judged, Refuses
from reconciler.cel.errors import CelRefused

# ruff: noqa: PLC0415


def _selector(expression: str) -> Judged:
    from reconciler.cel.estimate import worst_cost
    from reconciler.cel.program import compile_selector

    return _judged(compile_selector, expression, worst_cost)


def _derived(expression: str) -> Judged:
    from reconciler.cel.derived import compile_derived
    from reconciler.cel.estimate import worst_cost

    return _judged(compile_derived, expression, worst_cost)


def _extractor(expression: str) -> Judged:
    from reconciler.cel.extractor import compile_extractor

    return _judged(compile_extractor, expression, lambda _: 0)


def _judged(compiled: Callable[[str], object], expression: str, cost: Callable[[str], int]) -> Judged:
    try:
        compiled(expression)
        return Judged(cost=cost(expression))
    except CelRefused as exc:
        return Judged(str(exc))


REFUSES = Refuses(_selector, _derived, _extractor)
