"""A refusal before the expression around it is known."""

from reconciler.cel.errors import CelRefused


class Refusal(Exception):
    """Raised inside a pass with an offset; the pass's entry turns it into CelRefused."""

    def __init__(self, at: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.remedy = remedy

    def of(self, expression: str) -> CelRefused:
        """The refusal with the text it speaks about."""
        return CelRefused(expression, self.at, self.reason, self.remedy)
