"""Breaks in a long piece of work on the event loop, so that other tasks run in between."""

import asyncio

LONGEST = 0.004
"""Seconds of work without a break"""
MOST = 64
"""Steps without a break, however short"""


class Breaks:
    """Call `after_step` after each short step of the work.

    For work that may wait between its steps, call `before_step` too: what it waits does not count.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        """`longest` are the seconds of work without a break: less where several do such work at once, since
        others wait for all of them.
        """
        self._longest = longest
        self._now = asyncio.get_running_loop().time
        self._steps = 0
        self._worked = 0.0
        self._since = self._now()

    def before_step(self) -> None:
        """A step begins now."""
        self._since = self._now()

    async def after_step(self) -> None:
        """Let other tasks run if a break is due. A break costs more than a short step."""
        self._steps += 1
        now = self._now()
        self._worked += now - self._since
        self._since = now
        if self._steps >= MOST or self._worked >= self._longest:
            self._steps, self._worked = 0, 0.0
            await asyncio.sleep(0)
            self._since = self._now()
