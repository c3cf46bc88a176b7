"""`top --by namespace`: what each namespace holds, and how long its claims have been pending."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from reconciler.analysis.capacity.grouping import NamespaceHoldings, NamespaceUse, PendingClaims
from reconciler.api.validation.fields import age
from reconciler.cli.output import Table
from reconciler.cli.top_tables import NONE
from reconciler.cli.top_view import StoreView, TopOptions
from reconciler.state.store import Store


class NamespaceView(StoreView[NamespaceUse]):
    """A line for each namespace."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]] = {
        "held": lambda one: -one.held,
        "pending": lambda one: -one.pending,
    }

    def __init__(self, options: TopOptions, now: Callable[[], datetime]) -> None:
        super().__init__(options)
        self._now = now
        self._holdings = NamespaceHoldings()

    def measuring(self, store: Store) -> Callable[[], list[NamespaceUse]]:
        """Measures at once, because holders are looked up in the store."""
        found = self._holdings.look(store.snapshot(), pending_claims(store))
        return lambda: found

    def selected(self, line: NamespaceUse) -> bool:  # noqa: ARG002
        """All are."""
        return True

    def tables(self) -> list[Table]:
        """One table."""
        numbers = ("HELD", "USE", "PENDING")
        made = Table(("NAMESPACE", *numbers, "OLDEST"), right=numbers, names=1)
        for one in self.found:
            oldest = age(one.oldest, self._now()) if one.oldest else NONE
            made.add((one.namespace, str(one.held), f"{one.use:.0%}", str(one.pending), oldest))
        return [made]

    def value(self) -> dict[str, Any]:
        """All figures."""
        return {"by": self.options.by, "items": [_line(one) for one in self.found]}


def pending_claims(store: Store) -> dict[str, PendingClaims]:
    """The claims of each namespace without devices, of any allocator."""
    found: dict[str, PendingClaims] = {}
    for claim in store.claims.values():
        if claim.allocation is None and not claim.deleting:
            created = claim.metadata.creation_timestamp or ""
            found.setdefault(claim.key.namespace, PendingClaims()).add(created)
    return found


def _line(one: NamespaceUse) -> dict[str, Any]:
    return {
        "namespace": one.namespace,
        "held": one.held,
        "use": round(one.use, 4),
        "pending": one.pending,
        "oldestPending": one.oldest or None,
    }
