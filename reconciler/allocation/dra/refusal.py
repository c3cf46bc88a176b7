"""How a search ends, other than with a solution or a plain "does not fit"."""

from reconciler.api.objects.plan import Reason
from reconciler.errors import ReconcilerError


class Fatal(ReconcilerError):
    """An error that ends the attempt on a node, with the reason for the answer."""

    def __init__(self, reason: Reason, message: str, claim: int | None = None) -> None:
        """`claim` is the position of the faulty claim, where the message does not name it."""
        super().__init__(message)
        self.reason = reason
        self.claim = claim


class GaveUp(ReconcilerError):
    """The steps are used up. Whether a solution exists is not known."""
