"""Units, which are decided as a whole: a claim on its own, or all claims of one pod."""

from collections.abc import Iterable, Iterator, Set
from enum import StrEnum
from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of, is_live


class Kind(StrEnum):
    """The kind of object that a unit is named after."""

    CLAIM = "claim"
    POD = "pod"


class Unit(NamedTuple):
    """The key of a reconcile."""

    kind: Kind
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Roster:
    """Which live pods name which claim, updated pod by pod."""

    def __init__(self) -> None:
        self._claims: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._pods: dict[ObjectKey, set[ObjectKey]] = {}

    def users(self, claim: ObjectKey) -> Set[ObjectKey]:
        """The live pods that name a claim."""
        return self._pods.get(claim, frozenset())

    def units(self, claim: ObjectKey) -> Iterator[Unit]:
        """Every unit that decides about a claim: itself, and its pods."""
        yield Unit(Kind.CLAIM, claim)
        for pod in self.users(claim):
            yield Unit(Kind.POD, pod)

    def note(self, key: ObjectKey, pod: Pod | None) -> Iterable[ObjectKey]:
        """Update a pod. Returns the claims that it no longer names."""
        before = self._claims.pop(key, ())
        now = claims_of(pod) if pod is not None and is_live(pod) else ()
        for claim in before:
            if claim not in now:
                self._pods[claim].discard(key)
                if not self._pods[claim]:
                    del self._pods[claim]
        for claim in now:
            self._pods.setdefault(claim, set()).add(key)
        if now:
            self._claims[key] = now
        return [claim for claim in before if claim not in now]
