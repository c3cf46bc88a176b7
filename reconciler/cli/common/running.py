"""From the declaration of a command to what it does, which is imported only when the command runs."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any


def runs(target: str) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Make a declaration call the function `target`, `MODULE:NAME`, with the command's options.

    The declaration has the help as its docstring and no body. So help, completion and wrong options need
    none of the libraries that a command uses.
    """
    module, _, name = target.partition(":")

    def running(declaration: Callable[[], None]) -> Callable[..., Any]:
        @wraps(declaration)
        def run(*given: Any, **options: Any) -> Any:
            return getattr(import_module(module), name)(*given, **options)

        return run

    return running
