"""The claims whose allocation we are withdrawing now, so that nobody else is held responsible for it."""

from collections.abc import Iterator
from contextlib import contextmanager


class Withdrawals:
    """Holds the uids of those claims. The writer adds them; whoever takes in changes asks."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    @contextmanager
    def of(self, uid: str) -> Iterator[None]:
        """While a claim is being withdrawn."""
        self._uids.add(uid)
        try:
            yield
        finally:
            self._uids.discard(uid)
