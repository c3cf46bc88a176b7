"""Deleting a namespace empties it; it goes when nothing is left inside."""

from reconciler.embedded.builtin import CORE, NAMESPACE
from reconciler.embedded.kinds import Object
from reconciler.embedded.routing import Target
from reconciler.embedded.shelf import Record
from reconciler.embedded.store import Store
from reconciler.embedded.timestamps import timestamp
from reconciler.embedded.writing import Writer

START = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that exist from the beginning."""


def ensure(store: Store, writer: Writer, name: str) -> None:
    """Create a namespace unless it exists."""
    if store[NAMESPACE].get(name) is None:
        writer.create(Target(NAMESPACE, CORE), {"metadata": {"name": name}}, dry_run=False)


def empty(store: Store, writer: Writer, name: str) -> Record:
    """Mark a namespace as terminating and delete what is in it. Returns its last content."""
    record = store[NAMESPACE].get(name)
    assert record is not None
    held = _contents(store, name)
    for inside in held:
        kind = inside.kind
        writer.delete(Target(kind, kind.stored, name, inside.object["metadata"]["name"]), {})
    if not _contents(store, name) or "deletionTimestamp" in record.object["metadata"]:
        return sweep(store, name) or record
    marked: Object = {
        **record.object,
        "metadata": dict(record.object["metadata"]),
        "status": {"phase": "Terminating"},
    }
    marked["metadata"]["deletionTimestamp"] = timestamp(writer.now())
    return store.put(NAMESPACE, name, marked)


def sweep(store: Store, name: str) -> Record | None:
    """Remove a namespace that nothing is left in."""
    record = store[NAMESPACE].get(name)
    if record is None or _contents(store, name):
        return None
    return store.remove(record)


def is_terminating(store: Store, name: str) -> bool:
    """Whether a namespace waits for its last object to go."""
    record = store[NAMESPACE].get(name)
    return record is not None and "deletionTimestamp" in record.object["metadata"]


def _contents(store: Store, name: str) -> list[Record]:
    return [record for shelf in store if shelf.kind.namespaced for record in shelf.scan(f"{name}/")]
