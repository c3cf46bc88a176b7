"""Kinds that are listed only when a pod needs them, such as namespaces for selectors of namespaces."""

from collections.abc import Callable, Iterable

from reconciler.errors import Unlisted

NOT_LISTED, NOT_READABLE = "ObjectsNotListed", "ObjectsNotReadable"
"""The reasons of a pod that waits for a listing, and of one that waits for the right to list."""


class KindsOnDemand:
    """Which of these kinds are wanted, and which are listed."""

    def __init__(self, on_wanted: Callable[[str], None] | None) -> None:
        """`on_wanted` is called with a kind when a pod needs it for the first time. None: the input has all
        objects there are, as manifests do.
        """
        self._on_wanted = on_wanted
        self._wanted: set[str] = set()
        self._listed: set[str] = set()
        self._unserved: set[str] = set()
        self._failures: dict[str, str] = {}

    def fork(self) -> "KindsOnDemand":
        """The same for another thread. What is required there is refused, but not wanted because of it."""
        other = KindsOnDemand(None if self._on_wanted is None else lambda _: None)
        other._wanted, other._listed = set(self._wanted), set(self._listed)
        other._failures = dict(self._failures)
        return other

    def require(self, kind: str, purpose: str) -> None:
        """Raise Unlisted if the objects of a kind are not known; they are wanted from now on."""
        if self._on_wanted is None or kind in self._listed:
            return
        self.want([kind])
        if (failure := self._failures.get(kind)) is not None:
            raise Unlisted(
                f"{purpose} needs {kind} objects, which cannot be listed: {failure}; "
                f"grant list and watch on them to the account of this controller",
                NOT_READABLE,
            )
        raise Unlisted(f"{purpose} needs {kind} objects, which are not listed yet", NOT_LISTED)

    @property
    def wanted(self) -> frozenset[str]:
        """The kinds that were required."""
        return frozenset(self._wanted)

    def want(self, kinds: Iterable[str]) -> None:
        """Let kinds be listed that a fork required."""
        for kind in kinds:
            if kind not in self._wanted and self._on_wanted is not None:
                self._wanted.add(kind)
                self._on_wanted(kind)

    def unserved(self, kind: str) -> bool:
        """The server does not serve a kind, so there are no such objects; return whether that is news."""
        news = self.listed(kind)
        self._unserved.add(kind)
        return news

    def is_served(self, kind: str) -> bool:
        """Whether the server serves a kind, as far as known."""
        return kind not in self._unserved

    def require_all(self, kinds: Iterable[str], purpose: str) -> None:
        """Like `require` for several kinds, which are listed at the same time."""
        missing: list[Unlisted] = []
        for kind in kinds:
            try:
                self.require(kind, purpose)
            except Unlisted as exc:
                missing.append(exc)
        if missing:
            raise next((one for one in missing if one.reason == NOT_READABLE), missing[0])

    def listed(self, kind: str) -> bool:
        """The objects of a kind are known; return whether a pod waited for them."""
        self._failures.pop(kind, None)
        self._unserved.discard(kind)
        if kind in self._listed:
            return False
        self._listed.add(kind)
        return kind in self._wanted

    def failed(self, kind: str, why: str) -> bool:
        """A kind cannot be listed; return whether that is news."""
        if kind in self._listed or self._failures.get(kind) == why:
            return False
        known = kind in self._failures
        self._failures[kind] = why
        return not known
