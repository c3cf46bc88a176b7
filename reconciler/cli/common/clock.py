"""The time of day, as commands read it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click


def _of_the_machine() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Tells the time. Whoever calls the command line may pass another one as `obj` of click's context."""

    now: Callable[[], datetime] = _of_the_machine


pass_clock = click.make_pass_decorator(Clock, ensure=True)
"""Passes the clock to a command, as its first argument"""
