"""What `&&`, `||`, `all` and `exists` have in common: an error counts only if no term decides (CEL-8)."""

from collections.abc import Callable, Iterable

from reconciler.cel.errors import CelError
from reconciler.cel.frames import Frame
from reconciler.cel.values import Value, truth


def decide(terms: Iterable[Callable[[Frame], Value]], frame: Frame, ends_on: bool) -> bool:
    """Evaluate terms until one equals `ends_on`. Raises the first error if none does."""
    failure: CelError | None = None
    for term in terms:
        try:
            if truth(term(frame)) is ends_on:
                return ends_on
        except CelError as exc:
            failure = failure or exc
    if failure is not None:
        raise failure
    return not ends_on
