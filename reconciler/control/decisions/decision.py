"""What every kind of decision has. Its class declares what operators see of it; see `declaration`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar, get_args

from reconciler.control.decisions.declaration import Counted, Line, Logged, LoggedField


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, or a finding."""

    LINES: ClassVar[tuple[Line, ...]]
    """Its log line. Where there are several, `line` chooses."""
    METRICS: ClassVar[tuple[Counted, ...]] = ()

    decision_id: Annotated[
        str, Logged("names one decision in log lines, Events, metric exemplars and the journal")
    ] = field(default="", compare=False)
    """Allocations that were decided together share it. Empty until the decision is reported, unless the
    handler sets it."""

    @property
    def line(self) -> Line:
        """The log line of this decision."""
        return self.LINES[0]

    @classmethod
    def logged_fields(cls) -> Iterator[LoggedField]:
        """The fields in the order of the log line: its own, then those of every decision."""
        for one in sorted(fields(cls), key=lambda one: one.kw_only is True):
            _, logged = get_args(one.type)
            yield LoggedField(one.name, logged.name or one.name, logged)

    @classmethod
    def meaning(cls) -> str:
        """What happened, in a sentence or two: the first paragraph of the docstring."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())


Report = Callable[[Decision], None]
"""Reports a decision, or gets one that is reported"""
