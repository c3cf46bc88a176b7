"""Controllers for demos: claims from templates, running pods, deallocated claims, ready nodes, garbage.

Each change of the store maps to keys, and each key is reconciled in one step.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.embedded.api import ApiServer
from reconciler.embedded.claim_controllers import ClaimController, PodGroupController, TemplateController
from reconciler.embedded.pod_controllers import NodeController, PodController, Schedule
from reconciler.embedded.store import Change, Compacted, Record, key_of
from reconciler.embedded.writing import FOREGROUND, OF_POLICY, ORPHAN

Dependents = defaultdict[str, dict[tuple[ServedKind, str], None]]
"""uid -> kind and key of what has it as an owner; some may have changed since"""


def collectors(api: ApiServer) -> Iterator["GarbageCollector"]:
    """One for each kind; they share what they know."""
    dependents: Dependents = defaultdict(dict)
    return (GarbageCollector(api, kind_store.kind, dependents) for kind_store in api.store)


class GarbageCollector:
    """Collects the dependents of objects of one kind, and its objects that have lost their owners."""

    def __init__(self, api: ApiServer, kind: ServedKind, dependents: Dependents) -> None:
        self._api = api
        self._dependents = dependents
        self.subject = kind
        self.sources: Sequence[ServedKind] = (kind,)

    def keys(self, change: Change) -> Iterable[str]:
        """The object itself. What depends on a deleted one is collected at once."""
        if not change.deleted:
            return [change.record.key]
        for kind, key in self._dependents.pop(change.record.object["metadata"]["uid"], ()):
            self._collect(kind, key)
        for reference, owner in self._owners(change.record.object):
            self._dependents.get(reference["uid"], {}).pop((self.subject, change.record.key), None)
            if owner is not None:
                self._finish(owner)
        return ()

    def reconcile(self, key: str) -> None:
        """Note whose dependent an object is, and do what its deletion waits for."""
        record = self._api.store[self.subject].get(key)
        if record is None:
            return
        for reference, _ in self._owners(record.object):
            self._dependents[reference["uid"]][self.subject, key] = None
        self._collect(self.subject, key)
        if "deletionTimestamp" in record.object["metadata"]:
            self._finish(record)

    def _owners(self, obj: Object) -> Iterator[tuple[Object, Record | None]]:
        """Each reference to an owner that can be looked up, and the owner; None if it is gone.

        Others are of kinds that are not served, or, of a cluster-scoped object, in a namespace.
        """
        namespace = obj["metadata"].get("namespace", "")
        for reference in _references(obj):
            kind = self._api.kind_of(reference["apiVersion"], reference["kind"])
            if kind is not None and (namespace or not kind.namespaced):
                record = self._api.store[kind].get(key_of(kind, namespace, reference["name"]))
                is_same = record is not None and record.object["metadata"]["uid"] == reference["uid"]
                yield reference, record if is_same else None

    def _collect(self, kind: ServedKind, key: str) -> None:
        """Delete an object whose owners are all gone or wait for its deletion; else drop its references to
        those that do. Nothing is done if an owner cannot be looked up.
        """
        record = self._api.store[kind].get(key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        owners, references = list(self._owners(record.object)), _references(record.object)
        waiting = {one["uid"] for one, owner in owners if owner is not None and _waits(owner)}
        left = waiting | {one["uid"] for one, owner in owners if owner is None}
        if not left or len(owners) < len(references):
            return
        if any(one["uid"] not in left for one in references):
            self._disown(record, left)
            return
        finalizers = record.object["metadata"].get("finalizers", ())
        policy = next((one for one, (name,) in OF_POLICY.items() if name in finalizers), "Background")
        if waiting and (dependents := self._dependents_of(record)):
            policy = "Foreground"
            if any(map(_waits, dependents)):  # a cycle: let none wait for another
                free = [{**one, "blockOwnerDeletion": False} for one in references]
                self._update(record, {"ownerReferences": free})
        self._delete(record, policy)

    def _dependents_of(self, owner: Record) -> list[Record]:
        """Looks at all objects: some dependents may be so new that nothing is noted of them yet."""
        everything = (one for kind_store in self._api.store for one in kind_store.scan(""))
        uid = owner.object["metadata"]["uid"]
        return [one for one in everything if _blocks(one.object, uid) is not None]

    def _finish(self, owner: Record) -> None:
        """Do what keeps a deleted object: the deletion of its dependents, or their release."""
        metadata = owner.object["metadata"]
        finalizers = metadata.get("finalizers", ())
        if "deletionTimestamp" not in metadata or not {FOREGROUND, ORPHAN} & set(finalizers):
            return
        uid = metadata["uid"]
        dependents = self._dependents_of(owner)
        if ORPHAN in finalizers:
            for one in dependents:
                self._disown(one, [uid])
        else:
            for one in dependents:
                self._collect(one.kind, one.key)
            if any(
                _blocks(left.object, uid)
                for one in dependents
                if (left := self._api.store[one.kind].get(one.key)) is not None
            ):
                return
        kept = [one for one in finalizers if one not in (FOREGROUND, ORPHAN)]
        self._update(owner, {"finalizers": kept})

    def _disown(self, record: Record, uids: Iterable[str]) -> None:
        kept = [one for one in _references(record.object) if one["uid"] not in uids]
        self._update(record, {"ownerReferences": kept})

    def _update(self, record: Record, metadata: Object) -> None:
        namespace, name = _place(record)
        try:
            self._api.update(
                record.kind,
                namespace,
                name,
                lambda shown: {**shown, "metadata": {**shown["metadata"], **metadata}},
            )
        except Refusal:
            return  # gone or changed since: that change comes by here too

    def _delete(self, record: Record, policy: str) -> None:
        try:
            self._api.delete(record.kind, *_place(record), propagationPolicy=policy)
        except Refusal:
            return


def _place(record: Record) -> tuple[str, str]:
    metadata = record.object["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _waits(owner: Record) -> bool:
    """Whether an owner is deleted in the foreground."""
    metadata = owner.object["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())


def _references(obj: Object) -> list[Object]:
    found: list[Object] = obj["metadata"].get("ownerReferences", [])
    return found


def _blocks(obj: Object, uid: str) -> bool | None:
    """Whether a dependent blocks the deletion of an owner in the foreground; None if it is none of its."""
    return next((bool(one.get("blockOwnerDeletion")) for one in _references(obj) if one["uid"] == uid), None)


_BATCH = 256


class Controller(Protocol):
    """Reconciles the objects of one key."""

    @property
    def subject(self) -> ServedKind:
        """The kind of the keys to reconcile."""

    @property
    def sources(self) -> Sequence[ServedKind]:
        """The kinds to watch."""

    def keys(self, change: Change) -> Iterable[str]:
        """The keys that a change may affect."""

    def reconcile(self, key: str) -> None:
        """Reconcile one key."""


@asynccontextmanager
async def run_controllers(api: ApiServer, schedule: Schedule | None = None) -> AsyncIterator[None]:
    """Run the controllers during the block; `schedule` decides the claims for extended resources."""
    pods = PodController(api, schedule)
    others = (PodGroupController(api), TemplateController(api), ClaimController(api), NodeController(api))
    controllers: list[Controller] = [*others, pods, *collectors(api)]
    api.writer.has_kubelets = True
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _follow(api, controller, source), name=f"{controller.subject.plural} by {source.plural}"
            )
            for controller in controllers
            for source in controller.sources
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            api.writer.has_kubelets = False
            pods.stop()


async def _follow(api: ApiServer, controller: Controller, source: ServedKind) -> None:
    kind_store = api.store[source]
    position = -1  # compacted, so that everything is reconciled first
    while True:
        try:
            changes = kind_store.since(position, _BATCH)
        except Compacted:
            position = kind_store.end
            for record in api.store[controller.subject].scan(""):
                controller.reconcile(record.key)
            continue
        position += len(changes)
        for key in dict.fromkeys(key for change in changes for key in controller.keys(change)):
            controller.reconcile(key)
        # Requests use the same loop: a burst of changes must not starve them.
        await asyncio.sleep(0)
        await kind_store.wait(position)
