"""Findings, and the rules that they violate."""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from reconciler.api.manifests.bundle import Entry
from reconciler.api.manifests.origin import Origin
from reconciler.api.objects.similar_names import closest
from reconciler.api.objects.validating import subject_of


class Severity(Enum):
    """Severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One problem."""

    severity: Severity
    check: str
    """Id of the rule"""
    object: str
    field: str
    """Path in the object; empty for the object as a whole"""
    what: str
    remedy: str
    origin: Origin


class Rule(Struct, frozen=True):
    """A rule that a check tests."""

    id: str
    severity: Severity
    summary: str
    remedy: str

    def finding_at(self, origin: Origin, subject: str, field: str, what: str) -> Finding:
        """A violation of this rule at a place in the input, which may be unreadable."""
        return Finding(self.severity, self.id, subject, field, what, self.remedy, origin)

    def finding(self, entry: Entry, field: str, what: str) -> Finding:
        """A violation of this rule in an object."""
        return self.finding_at(entry.origin, subject_of(entry.raw), field, what)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for a name that is similar to a known one in any case, else empty."""
    close = closest(name, known, most=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""


def shortened(names: Iterable[str], limit: int = 3) -> str:
    """The first names, and the number of the others."""
    found = list(names)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
