"""What everything has in common that evicts pods."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from reconciler.control.decisions.declaration import Report
from reconciler.control.evicting.budgets import KnownBudgets
from reconciler.control.evicting.evictor import Evictor
from reconciler.control.evicting.turns import Turns
from reconciler.control.intake import Intake


class Means(Struct, frozen=True):
    """Shared by those who plan for different purposes."""

    intake: Intake
    budgets: KnownBudgets
    evictor: Evictor
    turns: Turns
    leads: Callable[[], bool]
    """Whether this process may write"""
    clock: Callable[[], float]
    """That of the loop"""
    now: Callable[[], datetime]
    report: Report
    written: Callable[[], Awaitable[None]] | None = None
    """Waits until held room is written down, where it is"""
