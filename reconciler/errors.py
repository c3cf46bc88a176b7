"""All errors of this project. Each class says what the caller does next.

ReconcilerError
├── Retry            the server is busy or unreachable: retry the same key later
│   ├── Conflict     409: another writer was first; read the object and decide again
│   ├── Protected    429 of a budget: the pod is not evicted now, nor was it before
│   ├── Undecided    no answer: the write may or may not have been applied
│   └── Paused       writes are disabled: requeue the key when they are enabled
├── Relist           410: the watch has expired; list again
├── Gone             404: the object does not exist; nothing to do
├── Rejected         the object or the write is invalid: a retry cannot help
│   ├── Malformed    input does not have the declared shape; only this object is rejected
│   └── Unlisted     objects of a kind are not known yet: ask again when they are listed
└── Inconsistent     an invariant of this project is broken: stop, never work around it
"""

from collections.abc import Iterable, Sequence


def counted(count: int, noun: str) -> str:
    """For messages: `1 claim`, `2 claims`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shortened(names: Iterable[object], limit: int = 3) -> str:
    """The first names, and the number of the others."""
    found = list(map(str, names))
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more


class ReconcilerError(Exception):
    """Base class of all errors that this project raises."""


class Retry(ReconcilerError):
    """The server is busy or unreachable. Retry the same key, but not before `after` seconds have passed.

    `busy`: the server can be reached, but has no time, fails or is late.
    """

    def __init__(self, message: str, *, after: float = 0.0, busy: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.busy = busy


class Conflict(Retry):
    """409: another writer was first. Read the object and decide again."""


class Protected(Retry):
    """429: a PodDisruptionBudget does not allow an eviction now. Servers ask no budget about pods that leave
    already, so no earlier eviction of the pod was granted.
    """


class Undecided(Retry):
    """No answer: the write may or may not have been applied. Read the object to find out."""


class Paused(Retry):
    """Writes are disabled. Nothing was sent."""


class Relist(ReconcilerError):
    """410: the watch has expired. List the kind again."""


class Gone(ReconcilerError):
    """404: the object does not exist."""


class Rejected(ReconcilerError):
    """The server, or a rule of this project, rejects the object or the write. A retry cannot help."""


class Malformed(Rejected):
    """Input does not have the declared shape.

    The message names the object, the field and the reason in one line, so that a user can fix it.
    Only this object is rejected.
    """

    def __init__(self, subject: str, field: str, reason: str, others: Sequence[tuple[str, str]] = ()) -> None:
        """`others`: further mistakes of the object, as field and reason; the message names the first only."""
        super().__init__(f"{subject}: {field}: {reason}" if field else f"{subject}: {reason}")
        self.others = others
        self.subject = subject
        self.field = field
        self.reason = reason


class Unlisted(Rejected):
    """Objects are needed of a kind that is not listed. Ask again when it is."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Inconsistent(ReconcilerError):
    """An invariant of this project is broken. The message holds the evidence. The program stops."""
