"""The objects of Kueue, and the templates of claims, as their watches show them."""

import asyncio
from collections.abc import Callable
from typing import Any

from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaimTemplate
from reconciler.api.objects.kueue import AdmissionCheck, ResourceFlavor, Workload
from reconciler.api.objects.meta import ObjectKey

KINDS = ("Workload", "AdmissionCheck", "ResourceFlavor", "ResourceClaimTemplate")


class KueueObjects:
    """Nothing here awaits."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change."""
        self.workloads: dict[ObjectKey, Workload] = {}
        self.checks: dict[ObjectKey, AdmissionCheck] = {}
        self.flavors: dict[ObjectKey, ResourceFlavor] = {}
        self.templates: dict[ObjectKey, ResourceClaimTemplate] = {}
        self.serial = 0
        """Number of changes of objects that Workloads refer to"""
        self.listed = asyncio.Event()
        """Set when each kind was listed once"""
        self._unlisted = set(KINDS)
        self._changed = changed

    def take(self, change: Notice) -> None:
        """The sink of the watches of `KINDS`."""
        shelf = self._shelf(change.kind)
        match change:
            case Changed(object=thing):
                shelf[thing.key] = thing
            case Removed(key=key) | Refused(key=key):
                shelf.pop(key, None)
            case Replaced(objects=objects):
                shelf.clear()
                shelf |= {thing.key: thing for thing in objects}
                self._unlisted.discard(change.kind)
                if not self._unlisted:
                    self.listed.set()
        if change.kind != "Workload":
            self.serial += 1
        self._changed()

    def _shelf(self, kind: str) -> dict[ObjectKey, Any]:
        shelves: dict[str, dict[ObjectKey, Any]] = {
            "Workload": self.workloads,
            "AdmissionCheck": self.checks,
            "ResourceFlavor": self.flavors,
            "ResourceClaimTemplate": self.templates,
        }
        return shelves[kind]
