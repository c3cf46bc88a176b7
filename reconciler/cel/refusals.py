"""For validation, which compiles nothing by itself: why an expression does not compile.

Compiling is imported with the first expression: it needs numpy and lark, and most manifests have no selector.
"""

from reconciler.api.validation.kinds import Refuses
from reconciler.cel.errors import CelRefused


def _selector(expression: str) -> str:
    from reconciler.cel.program import compile_selector  # noqa: PLC0415

    try:
        compile_selector(expression)
    except CelRefused as exc:
        return str(exc)
    return ""


def _derived(expression: str) -> str:
    from reconciler.cel.derived import compile_derived  # noqa: PLC0415

    try:
        compile_derived(expression)
    except CelRefused as exc:
        return str(exc)
    return ""


def _extractor(expression: str) -> str:
    from reconciler.cel.extractor import compile_extractor  # noqa: PLC0415

    try:
        compile_extractor(expression)
    except CelRefused as exc:
        return str(exc)
    return ""


REFUSES = Refuses(_selector, _derived, _extractor)
