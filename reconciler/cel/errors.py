"""The errors of selectors: refused at compile time, or an error on a device."""

from reconciler.errors import Rejected

EXCERPT = 48
"""Characters of the expression that a refusal quotes."""


class CelRefused(Rejected):
    """The expression is invalid: syntax, names, types or limits. The message has place, reason and remedy."""

    def __init__(self, expression: str, at: int, reason: str, remedy: str) -> None:
        self.line = expression.count("\n", 0, at) + 1
        self.column = at - (expression.rfind("\n", 0, at) + 1) + 1
        quoted = expression[at : at + EXCERPT].split("\n", 1)[0].rstrip() or "end of expression"
        super().__init__(f"{self.line}:{self.column}: {reason}, at {quoted!r}; {remedy}")
        self.reason = reason


class CelError(Rejected):
    """The evaluation failed on this device. Logical operators may ignore it (CEL-8)."""


class Exhausted(Rejected):
    """The evaluation exceeded its step limit. Not a CelError: no operator ignores it."""
