"""For validation, which compiles nothing by itself: why an expression does not compile.

Compiling is imported with the first expression: it needs numpy and lark, and most manifests have no selector.
"""

from collections.abc import Callable

from reconciler.api.validation.kinds import Refuses
from reconciler.cel.errors import CelRefused

# ruff: noqa: PLC0415


def _selector(expression: str) -> str:
    from reconciler.cel.program import compile_selector

    return _refusal(compile_selector, expression)


def _derived(expression: str) -> str:
    from reconciler.cel.derived import compile_derived

    return _refusal(compile_derived, expression)


def _extractor(expression: str) -> str:
    from reconciler.cel.extractor import compile_extractor

    return _refusal(compile_extractor, expression)


def _refusal(compiled: Callable[[str], object], expression: str) -> str:
    try:
        compiled(expression)
    except CelRefused as exc:
        return str(exc)
    return ""


REFUSES = Refuses(_selector, _derived, _extractor)
