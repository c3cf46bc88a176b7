"""Who is served first: the pod with the higher priority, then the older object, then by name."""

from reconciler.inventory.store import Store
from reconciler.objects.meta import ApiObject
from reconciler.reconcile.units import Kind, Unit

Place = tuple[int, str, str, str]
"""Sorts units; the smallest goes first."""


def place(unit: Unit, store: Store) -> Place:
    """Where a unit stands in the queue. A claim without a pod has priority 0, like a pod that states none.

    Creation times have whole seconds, so names settle what is left: the same cluster, the same order.
    """
    if unit.kind is Kind.POD:
        pod = store.pods.get(unit.key)
        return _place(unit, pod, -(pod.spec.priority or 0) if pod else 0)
    return _place(unit, store.claims.get(unit.key), 0)


def _place(unit: Unit, thing: ApiObject | None, urgency: int) -> Place:
    created = thing.metadata.creation_timestamp or "" if thing else ""
    return urgency, created, unit.key.namespace, unit.key.name
