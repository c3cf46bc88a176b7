"""What a check says: a finding, made by the rule that it is a case of."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from reconciler.manifests.bundle import Entry
from reconciler.manifests.origin import Origin
from reconciler.objects.validating import subject_of


class Severity(Enum):
    """How bad it is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at."""

    severity: Severity
    check: str
    """Id of the rule"""
    object: str
    field: str
    """Path below the object; empty where it is about the object as a whole"""
    what: str
    remedy: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Rule:
    """What a check looks for."""

    id: str
    severity: Severity
    summary: str
    remedy: str

    def at(self, origin: Origin, subject: str, field: str, what: str) -> Finding:
        """A case of this rule in something that may not be readable."""
        return Finding(self.severity, self.id, subject, field, what, self.remedy, origin)

    def found(self, entry: Entry, field: str, what: str) -> Finding:
        """A case of this rule in an object that was read."""
        return self.at(entry.origin, subject_of(entry.raw), field, what)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for a name that is almost one of those known, else nothing."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""


def some(names: Iterable[str], limit: int = 3) -> str:
    """The first few of some names, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
