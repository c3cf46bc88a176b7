"""What the demonstration shows: who got what, who waits and why. Fed by the server and by the reconciler."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.control.decisions.decisions import Allocated, Decision, Waits
from reconciler.embedded.controllers.pods import RUN_SECONDS

KINDS = ("ResourceClaim", "Pod")
"""What has to be watched for `take`"""


@dataclass(frozen=True, slots=True)
class Line:
    """One claim that was allocated."""

    claim: ObjectKey
    devices: tuple[str, ...]
    node: str
    seconds: float
    """Since the reconciler was started"""


class Board:
    """The state of the show. `news` is set whenever something on it changed."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.lines: list[Line] = []
        self.reasons: dict[ObjectKey, Waits] = {}
        """Claim -> why it was refused last; gone once it is allocated"""
        self.pods: dict[ObjectKey, Pod] = {}
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        self._listed: set[str] = set()
        self._began = asyncio.get_running_loop().time()

    def on_decision(self, decision: Decision) -> None:
        """Note a decision."""
        match decision:
            case Allocated():
                self.reasons.pop(decision.claim, None)
                devices = tuple(device.device for device in decision.devices)
                seconds = asyncio.get_running_loop().time() - self._began
                self.lines.append(Line(decision.claim, devices, decision.node, seconds))
            case Waits():
                self.reasons.update(dict.fromkeys(decision.claims, decision))
        self.news.set()

    def take(self, change: Change) -> None:
        """Note what the server shows."""
        match change:
            case Replaced(kind=kind, objects=objects):
                self._listed.add(kind)
                for thing in objects:
                    self._put(thing)
            case Changed(object=thing):
                self._put(thing)
            case Removed(key=key) | Refused(key=key):
                (self.pods if change.kind == "Pod" else self.claims).pop(key, None)
        self.news.set()

    @property
    def settled(self) -> bool:
        """Whether every claim is allocated or was told why not, and every pod is where it will stay."""
        return (
            self._listed.issuperset(KINDS)
            and all(claim.allocation or key in self.reasons for key, claim in self.claims.items())
            and all(map(self._stays, self.pods.values()))
        )

    def waiting(self) -> list[tuple[ObjectKey, Waits]]:
        """The claims without devices, by name."""
        return sorted((key, why) for key, why in self.reasons.items() if key in self.claims)

    def users(self, claim: ObjectKey) -> list[str]:
        """The pods that an allocated claim is reserved for."""
        found = self.claims.get(claim)
        return sorted(user.name for user in found.status.reserved_for) if found else []

    def phases(self) -> Counter[str]:
        """How many pods are how far."""
        return Counter("Gated" if pod.gated else pod.status.phase for pod in self.pods.values())

    def _put(self, thing: ApiObject) -> None:
        match thing:
            case Pod():
                self.pods[thing.key] = thing
            case ResourceClaim():
                self.claims[thing.key] = thing

    def _stays(self, pod: Pod) -> bool:
        if pod.finished:
            return True
        if pod.status.phase == "Running":
            return RUN_SECONDS not in pod.metadata.annotations
        names = pod.claim_names().values()
        return any(name and ObjectKey(pod.key.namespace, name) in self.reasons for name in names)
