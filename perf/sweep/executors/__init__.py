"""Where batches are played. Each executor hands over every batch with its results, in any order."""

from collections.abc import Callable, Sequence

from perf.sweep.results import Result, Task

Done = Callable[[Sequence[Task], Sequence[Result]], None]
"""Called in the thread that started the executor"""
AHEAD = 2
"""Batches for each worker that are sent at once, so that none is idle while results are kept"""
