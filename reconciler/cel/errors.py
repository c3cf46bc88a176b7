"""The errors and limits of selectors: refused at compile time, an error on a device, or too many steps."""

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


class Fatal(Rejected):
    """The evaluation failed as a whole. Not a CelError: no operator ignores it."""


class RefusedAt(Exception):
    """Raised by the compiler's passes; their entry points turn it into CelRefused."""

    def __init__(self, at: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.remedy = remedy

    def with_text(self, expression: str) -> CelRefused:
        """The refusal with the text of the expression."""
        return CelRefused(expression, self.at, self.reason, self.remedy)


MAX_LENGTH = 10 * 1024
"""Characters; the API server has the same limit."""
MAX_NESTING = 250
"""Nested brackets, counted before parsing."""
MAX_DEPTH = 120
"""Levels of the tree. A level takes up to three interpreter frames; Python allows 1,000 by default."""
COST_LIMIT = 1_000_000
"""Steps of one evaluation (CEL-14)."""
MASK_COST_LIMIT = 5 * COST_LIMIT
"""Steps of one pass over all devices: some seconds. Devices beyond the limit are errors."""
DECISION_COST_LIMIT = 4 * MASK_COST_LIMIT
"""Steps of all selectors of one decision on all devices. Claims that need more are not decided."""
STATED_COST_LIMIT = COST_LIMIT // 10
"""Steps of all `compatibleOnlyWith` of a pool on its devices: they run on the event loop, before the next
decision."""
COMPILING_COST = 500
"""Steps charged to compile one expression, where many are compiled."""
READING_COST = 5
"""Steps charged per character to compile an expression, where many are compiled."""
MAX_REGEX_LENGTH = MAX_LENGTH
"""Characters of a pattern. A computed pattern can be longer than any expression."""
REGEX_MEMORY = 1 << 18
"""Bytes of a compiled pattern: any plain text of 10 KiB fits and compiles in 2 ms."""
PATTERN_STEPS = 2000
"""Steps of a search for a computed pattern, which is compiled at run time."""
MAX_INCLUDED = 48
"""Elements that `includes` compares (CEL-17)."""
