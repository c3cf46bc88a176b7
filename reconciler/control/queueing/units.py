"""Units, which are decided as a whole: a claim on its own, all claims of one pod, or all pods of a gang."""

from collections.abc import Iterable, Iterator, Set
from enum import StrEnum
from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of, is_live


class Kind(StrEnum):
    """The kind of object that a unit is named after."""

    CLAIM = "claim"
    POD = "pod"
    GANG = "gang"
    """Gated pods of which enough run together, or none"""
    WORKLOAD = "workload"
    """What Kueue admits; one unit stands for all that wait for room"""


class Unit(NamedTuple):
    """The key of a reconcile."""

    kind: Kind
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @property
    def gang(self) -> GangKey:
        """The gang of a unit of that kind."""
        source, _, name = self.key.name.partition("/")
        return GangKey(self.key.namespace, GangSource(source), name)


def gang_unit(gang: GangKey) -> Unit:
    """The unit of a gang. Gangs of different sources with one name are different units."""
    return Unit(Kind.GANG, ObjectKey(gang.namespace, f"{gang.source}/{gang.name}"))


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
