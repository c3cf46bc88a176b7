"""Remove a terminating namespace when it is empty."""

from reconciler.api.validation.served_kinds import NAMESPACE
from reconciler.embedded.server.kind_store import Record
from reconciler.embedded.server.store import Store


def contents(store: Store, name: str) -> list[Record]:
    """All objects in a namespace."""
    return [
        record for kind_store in store if kind_store.kind.namespaced for record in kind_store.scan(f"{name}/")
    ]


def remove_if_empty(store: Store, name: str) -> Record | None:
    """Remove a namespace if it is terminating and empty. Returns its last content, or None."""
    record = store[NAMESPACE].get(name)
    if record is None or "deletionTimestamp" not in record.object["metadata"] or contents(store, name):
        return None
    return store.remove(record)
