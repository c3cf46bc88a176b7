"""The clock that commands read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click


def _system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of the current time. A caller can pass another one as `obj` of click's context."""

    now: Callable[[], datetime] = _system_time


pass_clock = click.make_pass_decorator(Clock, ensure=True)
"""Passes the clock to a command, as its first argument"""
