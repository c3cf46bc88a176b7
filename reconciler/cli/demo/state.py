"""The state of the demonstration: allocations, pending claims and pods, from server and reconciler."""

import asyncio
from collections import Counter

from msgspec import Struct

from reconciler.api.objects.changes import Changed, Listed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded.pod_controllers import RUN_SECONDS

KINDS = ("ResourceClaim", "Pod")
"""The kinds to watch for `on_change`"""


class Line(Struct, frozen=True):
    """An allocated claim."""

    claim: ObjectKey
    devices: tuple[str, ...]
    node: str
    seconds: float
    """Since the start of the reconciler"""


class DemoState:
    """What the demonstration shows. `changed` is set after every change."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.lines: list[Line] = []
        self.reasons: dict[ObjectKey, Waits] = {}
        """Claim -> why it is pending; removed when it is allocated"""
        self.pods: dict[ObjectKey, Pod] = {}
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        self._listed: set[str] = set()
        self._start = asyncio.get_running_loop().time()

    def on_decision(self, decision: Decision) -> None:
        """Record a decision of the reconciler."""
        match decision:
            case Allocated():
                self.reasons.pop(decision.claim, None)
                devices = tuple(device.device for device in decision.devices)
                seconds = asyncio.get_running_loop().time() - self._start
                self.lines.append(Line(decision.claim, devices, decision.node, seconds))
            case Waits():
                self.reasons.update(dict.fromkeys(decision.claims, decision))
        self.changed.set()

    def on_change(self, change: Notice) -> None:
        """Record a change on the server."""
        match change:
            case Replaced(kind=kind, objects=objects):
                self._listed.add(kind)
                for obj in objects:
                    self._put(obj)
            case Listed(kind=kind):
                self._listed.add(kind)
            case Changed(object=obj):
                self._put(obj)
            case Removed(key=key) | Refused(key=key):
                (self.pods if change.kind == "Pod" else self.claims).pop(key, None)
        self.changed.set()

    @property
    def settled(self) -> bool:
        """Whether every claim is allocated or refused, and no pod will change any more."""
        return (
            self._listed.issuperset(KINDS)
            and all(claim.allocation or key in self.reasons for key, claim in self.claims.items())
            and all(map(self._is_final, self.pods.values()))
        )

    def pending(self) -> list[tuple[ObjectKey, Waits]]:
        """The pending claims with their reasons, by name."""
        return sorted((key, why) for key, why in self.reasons.items() if key in self.claims)

    def users(self, claim: ObjectKey) -> list[str]:
        """The pods for which an allocated claim is reserved."""
        known = self.claims.get(claim)
        return sorted(user.name for user in known.status.reserved_for) if known else []

    def phases(self) -> Counter[str]:
        """The number of pods in each phase."""
        return Counter("Gated" if pod.gated else pod.status.phase for pod in self.pods.values())

    def _put(self, obj: ApiObject) -> None:
        match obj:
            case Pod():
                self.pods[obj.key] = obj
            case ResourceClaim():
                self.claims[obj.key] = obj

    def _is_final(self, pod: Pod) -> bool:
        if pod.finished:
            return True
        if pod.status.phase == "Running":
            return RUN_SECONDS not in pod.metadata.annotations
        names = pod.claim_names().values()
        return any(name and ObjectKey(pod.key.namespace, name) in self.reasons for name in names)
