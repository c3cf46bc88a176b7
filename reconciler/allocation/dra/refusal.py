"""Ways out of a search besides a solution or a plain "does not fit"."""

from reconciler.api.objects.plan import Reason
from reconciler.errors import ReconcilerError


class Fatal(ReconcilerError):
    """An error that ends the attempt on a node. Carries the reason that the answer will give."""

    def __init__(self, reason: Reason, message: str, claim: int | None = None) -> None:
        """`claim` is the position of the claim that is at fault, where the message does not name it."""
        super().__init__(message)
        self.reason = reason
        self.claim = claim


class GaveUp(ReconcilerError):
    """The budget of steps is used up; whether a solution exists is not known."""
