"""The claims whose allocation this process is withdrawing, so that it is not blamed on kube-scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager


class Withdrawals:
    """The uids of those claims. The writer adds them; the intake checks them."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    @contextmanager
    def of(self, uid: str) -> Iterator[None]:
        """Surrounds the withdrawal of a claim."""
        self._uids.add(uid)
        try:
            yield
        finally:
            self._uids.discard(uid)
