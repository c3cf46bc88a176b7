"""A task that runs from the start of a process to its end."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


class Job(NamedTuple):
    """The name of the task and its function, which runs until cancelled."""

    name: str
    run: Callable[[], Coroutine[Any, Any, object]]
