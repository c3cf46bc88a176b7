"""Health of the tasks that must run until the process ends."""

import asyncio
from typing import Any


class TaskHealth:
    """Records tasks that end. At the end of the process that is no failure."""

    def __init__(self, stop: asyncio.Event) -> None:
        """`stop` is set when the process ends."""
        self._stop = stop
        self._ended: list[str] = []

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Record the end of a task; a callback for `Task.add_done_callback`."""
        self._ended.append(task.get_name())

    def problem(self) -> str:
        """The tasks that ended early; empty if none."""
        return f"ended: {', '.join(self._ended)}" if self._ended and not self._stop.is_set() else ""
