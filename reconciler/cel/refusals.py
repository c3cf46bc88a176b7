"""For validation, which compiles nothing by itself: why an expression does not compile, and what it costs.

Compiling is imported with the first expression: it needs lark, and most manifests have no selector.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from reconciler.api.validation.kinds import Judged, Refuses
from reconciler.cel.errors import CelRefused

if TYPE_CHECKING:
    from reconciler.cel.check import Environment

# ruff: noqa: PLC0415


def _selector(expression: str) -> Judged:
    from reconciler.cel.check import DEVICE_SELECTOR

    return _judged(expression, DEVICE_SELECTOR)


def _derived(expression: str) -> Judged:
    from reconciler.cel.check import DERIVED_ATTRIBUTE

    return _judged(expression, DERIVED_ATTRIBUTE)


@lru_cache(2048)
def _judged(expression: str, environment: "Environment") -> Judged:
    from reconciler.cel.compiling import emitted
    from reconciler.cel.estimate import worst_cost

    try:
        emitted(expression, environment)
        return Judged(cost=worst_cost(expression))
    except CelRefused as exc:
        return Judged(str(exc))


def _extractor(expression: str) -> Judged:
    from reconciler.cel.extractor import compile_extractor

    try:
        compile_extractor(expression)
    except CelRefused as exc:
        return Judged(str(exc))
    return Judged()


REFUSES = Refuses(_selector, _derived, _extractor)
