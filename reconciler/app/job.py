"""A task that runs from the start of a process to its end."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


class Job(NamedTuple):
    """What the task is called, and what starts it: runs until cancelled."""

    name: str
    run: Callable[[], Coroutine[Any, Any, object]]
