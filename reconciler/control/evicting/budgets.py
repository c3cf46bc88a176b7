"""The PodDisruptionBudgets of the cluster, as the watch shows them."""

import asyncio

from reconciler.api.objects.budgets import PodDisruptionBudget
from reconciler.api.objects.changes import Changed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey


class KnownBudgets:
    """The sink of their watch. Plans are made only once they are listed."""

    def __init__(self) -> None:
        self.listed = False
        self.serial = 0
        """Number of changes so far"""
        self.asked = asyncio.Event()
        """Set by the first plan: until then nobody needs the watch"""
        self.unknown = False
        """Whether this account may not read budgets, so that none is known"""
        self.unreadable: set[ObjectKey] = set()
        """Budgets that cannot be parsed: nobody knows which pods they cover, so nothing is evicted"""
        self._known: dict[ObjectKey, PodDisruptionBudget] = {}

    @property
    def known(self) -> tuple[PodDisruptionBudget, ...]:
        """The newest version of each."""
        return tuple(self._known.values())

    def take(self, change: Notice) -> None:
        """Apply a change."""
        self.serial += 1
        match change:
            case Changed(object=PodDisruptionBudget() as budget):
                self._known[budget.key] = budget
                self.unreadable.discard(budget.key)
            case Removed(key=key):
                self._known.pop(key, None)
                self.unreadable.discard(key)
            case Refused(key=key):
                self.unreadable.add(key)
            case Replaced(objects=objects, refused=refused):
                budgets = (one for one in objects if isinstance(one, PodDisruptionBudget))
                self._known = {one.key: one for one in budgets}
                self.unreadable = {one.key for one in refused}
                self.listed = True

    def go_without(self) -> None:
        """Plan without budgets: they cannot be read. For advice only."""
        self.listed = self.unknown = True

    def go_with(self) -> None:
        """Wait for the list of budgets, which can be read."""
        if self.unknown:
            self.listed = self.unknown = False
