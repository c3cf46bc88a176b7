"""A refusal with an offset, raised where the expression's text is not known."""

from reconciler.cel.errors import CelRefused


class Refusal(Exception):
    """Raised by the compiler's passes; their entry points turn it into CelRefused."""

    def __init__(self, at: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.remedy = remedy

    def with_text(self, expression: str) -> CelRefused:
        """The refusal with the text of the expression."""
        return CelRefused(expression, self.at, self.reason, self.remedy)
