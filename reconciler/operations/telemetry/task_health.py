"""Whether a task ended that must run for as long as the process."""

import asyncio
from typing import Any


class TaskHealth:
    """Remembers which tasks ended. The end of the whole process is no failure."""

    def __init__(self, stop: asyncio.Event) -> None:
        """`stop` is set when the process ends."""
        self._stop = stop
        self._ended: list[str] = []

    def ended(self, task: asyncio.Task[Any]) -> None:
        """A task is done. Made for `Task.add_done_callback`."""
        self._ended.append(task.get_name())

    def problem(self) -> str:
        """The tasks that ended too early; empty if there are none."""
        return f"ended: {', '.join(self._ended)}" if self._ended and not self._stop.is_set() else ""
