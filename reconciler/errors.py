"""The error vocabulary. Each class says what the catcher does next.

ReconcilerError
├── Retry            busy or away: the same key again, later
│   ├── Conflict     409: someone wrote first; read, then decide afresh
│   ├── Undecided    no answer: the write may or may not have happened
│   └── Paused       writes are switched off: the key gets its turn when they go on
├── Relist           410: the watch lost its place; list again
├── Gone             404: the object is no longer there; nothing left to do
├── Rejected         the object or the write is invalid: trying again cannot help
│   └── Malformed    input that does not fit its declared shape; refused alone
└── Inconsistent     a promise of our own broke: stop, never patch over
"""


class ReconcilerError(Exception):
    """Root of everything raised on purpose by this project."""


class Retry(ReconcilerError):
    """Busy or away. The same key may be tried again, not before `after` seconds have passed."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class Conflict(Retry):
    """409: someone wrote first. Read the object, then decide afresh."""


class Undecided(Retry):
    """No answer arrived: the write may or may not have been applied. A read settles it."""


class Paused(Retry):
    """Writes are switched off. Nothing was sent."""


class Relist(ReconcilerError):
    """410: the watch lost its place. The kind must be listed again."""


class Gone(ReconcilerError):
    """404: the object does not exist any more."""


class Rejected(ReconcilerError):
    """Invalid: the server or a rule of ours refuses it, and will refuse it again."""


class Malformed(Rejected):
    """Input that does not fit its declared shape.

    Names the object, the field and the reason in one line, so that a user can mend it;
    the object is refused alone and everything around it goes on.
    """

    def __init__(self, subject: str, field: str, reason: str) -> None:
        super().__init__(f"{subject}: {field}: {reason}" if field else f"{subject}: {reason}")
        self.subject = subject
        self.field = field
        self.reason = reason


class Inconsistent(ReconcilerError):
    """A promise of our own broke. Carries the evidence; ends the run."""
