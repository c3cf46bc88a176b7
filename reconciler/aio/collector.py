"""How often Python collects circular garbage: seldom, since the process holds many long-lived objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

COLLECTIONS = (5_000, 16, 250)
"""Arguments of `gc.set_threshold`: new objects before a collection of the youngest generation, which takes
half a millisecond; such collections before one of the middle generation, which looks at all that is left of
them and so holds the loop for up to 30 ms; and those before a full collection."""


_lock = Lock()
_postponed = 0


@contextmanager
def postponed() -> Iterator[None]:
    """No collection starts during the block. Several threads may enter it at once.

    For work in a thread that makes hundreds of thousands of objects and drops them again: a collection that
    looks at all of them stops the event loop for as long.
    """
    global _postponed  # noqa: PLW0603 - the collector is of the whole process
    with _lock:
        if not _postponed:
            gc.disable()
        _postponed += 1
    try:
        yield
    finally:
        with _lock:
            _postponed -= 1
            if not _postponed:
                gc.enable()
