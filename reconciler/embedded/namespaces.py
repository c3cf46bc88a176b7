"""A namespace that is being deleted goes when nothing is left inside."""

from reconciler.embedded.builtin import NAMESPACE
from reconciler.embedded.shelf import Record
from reconciler.embedded.store import Store


def contents(store: Store, name: str) -> list[Record]:
    """Everything inside a namespace."""
    return [record for shelf in store if shelf.kind.namespaced for record in shelf.scan(f"{name}/")]


def sweep(store: Store, name: str) -> Record | None:
    """Remove a namespace that is being deleted and empty; its last content if it went."""
    record = store[NAMESPACE].get(name)
    if record is None or "deletionTimestamp" not in record.object["metadata"] or contents(store, name):
        return None
    return store.remove(record)
