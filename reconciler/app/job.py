"""A task that runs from the start of a process to its end."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

Work = Callable[[], Coroutine[Any, Any, object]]


class Job(NamedTuple):
    """The name of the task and its function, which runs until cancelled."""

    name: str
    run: Work
    finish: Work | None = None
    """Called after `run` has ended and the last write is done, at an ordinary stop. Must not take long"""
