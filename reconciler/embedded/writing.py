"""Create, update, delete and evict: preconditions, defaults, validation, then one change in the store."""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from reconciler.api.objects.selectors import LabelSelector
from reconciler.api.validation import bodies, writes
from reconciler.api.validation.fields import Cause, Field, timestamp
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.served_kinds import BUDGET, NAMESPACE, NODE, POD
from reconciler.cel.refusals import REFUSES
from reconciler.embedded.applying import after_applied_create
from reconciler.embedded.managers import Owner, after_create, after_update, only_times_differ
from reconciler.embedded.reading import get_object
from reconciler.embedded.routing import Target
from reconciler.embedded.store import Record, Store

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that suffixes are never words."""
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX


def new_uid(random: Random) -> str:
    """A random UUID."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def generated_name(base: str, random: Random) -> str:
    """`base` with a random suffix, short enough for a DNS label."""
    return base[:_MAX_BASE] + "".join(random.choices(_LETTERS, k=_SUFFIX))


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


Admission = Callable[[Target, Object | None, Object | None], None]
"""Gets the new object, None at a delete, and the old one, None at a create. Completes what is created, or
raises a Refusal."""


def _admit(_target: Target, _new: Object | None, _old: Object | None) -> None:
    """No admission."""


class Writer:
    """Applies writes to a store. Every method is atomic."""

    def __init__(self, store: Store, *, now: Callable[[], datetime], random: Random) -> None:
        self._store = store
        self.now = now
        self._random = random
        self.admit: Admission = _admit
        """Sees what is written after its defaults are set and before it is validated, and what is deleted"""
        self.has_kubelets = False
        """Whether controllers end pods that are deleted: without them, pods go at once"""

    def create(self, target: Target, body: Any, owner: Owner, *, dry_run: bool = False) -> Record:
        """Create an object with its own name, the target's name, or a generated name, for an owner."""
        new = writes.decode_object(target.kind, target.served, body)
        metadata = new["metadata"]
        writes.set_name_and_namespace(target.kind, target.namespace, target.name, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated_name(metadata["generateName"], self._random)
        name = metadata.get("name", "")
        key = f"{target.namespace}/{name}" if target.kind.namespaced else name
        if target.kind.namespaced:
            self._require_namespace(target, name)
        uid, created = new_uid(self._random), timestamp(self.now())
        # Nodes register their status at creation.
        writes.set_server_fields(target.kind, new, uid=uid, created=created, keeps_status=target.kind is NODE)
        target.kind.on_create(new)
        target.kind.defaults(new, self.now())
        self.admit(target, new, None)
        self._validate(target, new, None)
        if self._store[target.kind].get(key) is not None:
            raise bodies.already_exists(target.kind.plural, target.served.group, name)
        _set_managed(
            new,
            after_create(target, owner, new, created)
            if owner.applied
            else after_applied_create(target, owner, body, created),
        )
        if dry_run:
            return Record(target.kind, key, new, 0)
        return self._store.put(target.kind, key, new)

    def update(
        self, target: Target, change: Callable[[Object], Any], owner: Owner | None, *, dry_run: bool = False
    ) -> Record:
        """Replace an object by the result of `change`, which gets the object in the target's version.

        The owner gets what it changes; without one, or when it applies, owners are those that `change` gives.
        """
        record = get_object(self._store, target)
        shown = {
            "kind": target.kind.kind,
            "apiVersion": str(target.served),
            **target.kind.downgrade(record.object, target.served),
        }
        new = writes.decode_object(target.kind, target.served, change(shown))
        self._check_preconditions(target, new["metadata"], record)
        if target.subresource != "status":
            _check_mark(target, new["metadata"], record)
        given = new["metadata"].pop("managedFields", None)
        new = writes.merge_writable(target.kind, target.subresource, record.object, new)
        target.kind.defaults(new, self.now())
        # After the defaults: omitting a field that is filled in again is not a change.
        if target.kind.counts_generations and not bodies.same(record.object.get("spec"), new.get("spec")):
            new["metadata"]["generation"] = record.object["metadata"].get("generation", 0) + 1
        self.admit(target, new, record.object)
        self._validate(target, new, record.object)
        old_version = record.object["metadata"]["resourceVersion"]
        managed = record.object["metadata"].get("managedFields", [])
        given = managed if given is None else given
        _set_managed(new, managed)
        old = {**record.object, "metadata": writes.without_version(record.object["metadata"])}
        if bodies.same(new, old) and (given == managed or only_times_differ(given, managed)):
            return record
        if owner is not None and owner.applied:
            given = after_update(target, owner, given, old, new, timestamp(self.now()))
        _set_managed(new, given)
        if dry_run:
            new["metadata"]["resourceVersion"] = old_version
            return Record(target.kind, record.key, new, record.version)
        # A namespace is kept by its contents, not by metadata.finalizers.
        held = new["metadata"].get("finalizers") or target.kind is NAMESPACE
        if "deletionTimestamp" in new["metadata"] and not held:
            new["metadata"]["resourceVersion"] = old_version
            # The watch event has the last stored content; only this response has the finalizers removed.
            self._remove(record)
            return Record(target.kind, record.key, new, record.version)
        return self._store.put(target.kind, record.key, new)

    def delete(self, target: Target, options: Mapping[str, Any], *, dry_run: bool = False) -> Record:
        """Remove an object; if it has finalizers, set its deletionTimestamp."""
        record = get_object(self._store, target)
        self._check_options(target, options, record)
        self.admit(target, None, record.object)
        metadata = record.object["metadata"]
        if dry_run:
            return record
        if target.kind is NAMESPACE:
            return self._delete_namespace(record)
        finalizers = _with_policy(metadata.get("finalizers", []), options.get("propagationPolicy"))
        grace = self._grace(target, record.object, options)
        if not finalizers and not grace:
            return self._remove(record)
        is_marked = "deletionTimestamp" in metadata and (
            not grace or "deletionGracePeriodSeconds" in metadata
        )
        if is_marked and finalizers == metadata.get("finalizers", []):
            return record
        marked = writes.without_version(metadata)
        if finalizers:
            marked["finalizers"] = finalizers
        if not is_marked:
            marked["deletionTimestamp"] = timestamp(self.now() + timedelta(seconds=grace))
            marked["deletionGracePeriodSeconds"] = grace
            if target.kind.counts_generations:
                marked["generation"] = metadata.get("generation", 0) + 1
        return self._store.put(target.kind, record.key, {**record.object, "metadata": marked})

    def _grace(self, target: Target, obj: Object, options: Mapping[str, Any]) -> int:
        """The seconds that a pod has to end, if there is somebody to end it."""
        is_running = target.kind is POD and obj["spec"].get("nodeName") and not _has_ended(obj)
        if not self.has_kubelets or not is_running:
            return 0
        asked = options.get("gracePeriodSeconds")
        seconds = obj["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
        return 1 if seconds < 0 else min(seconds, MOST_GRACE)

    def _delete_namespace(self, record: Record) -> Record:
        """Mark a namespace as terminating, delete its contents, and remove it once it is empty."""
        name, metadata = record.key, record.object["metadata"]
        if "deletionTimestamp" not in metadata:
            marked = {**writes.without_version(metadata), "deletionTimestamp": timestamp(self.now())}
            terminating = {**record.object, "metadata": marked, "status": {"phase": "Terminating"}}
            record = self._store.put(NAMESPACE, name, terminating)
        for held in contents(self._store, name):
            self.delete(Target(held.kind, held.kind.stored, name, held.object["metadata"]["name"]), {})
        remove_if_empty(self._store, name)
        return record

    def _remove(self, record: Record) -> Record:
        last = self._store.remove(record)
        if record.kind.namespaced:
            remove_if_empty(self._store, record.object["metadata"]["namespace"])
        return last

    def _require_namespace(self, target: Target, new: str) -> None:
        name, resource = target.namespace, f"{target.kind.plural}.{target.served.group}".rstrip(".")
        namespace = self._store[NAMESPACE].get(name)
        if namespace is None:
            raise bodies.not_found("namespaces", "", name)
        if "deletionTimestamp" in namespace.object["metadata"]:
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {name} is being terminated"}
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise bodies.Refusal(
                403,
                "Forbidden",
                f'{resource} "{new}" is forbidden: {why}',
                details={"causes": [{**cause, "field": "metadata.namespace"}]},
            )

    def _check_preconditions(self, target: Target, metadata: Object, record: Record) -> None:
        current = record.object["metadata"]
        if not (name := metadata.get("name")):
            where = f"the name of the object ({target.name} based on URL)"
            raise bodies.bad_request(f"{where} was undeterminable: name must be provided")
        if name != target.name:
            raise bodies.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            )
        if target.kind.namespaced and metadata.get("namespace", target.namespace) != target.namespace:
            raise bodies.bad_request("the namespace of the object does not match the namespace on the URL")
        version = metadata.get("resourceVersion", "")
        if not version and not target.kind.unconditional:
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                "metadata.resourceVersion",
            )
            raise bodies.invalid(target.kind.kind, target.kind.group, target.name, [cause])
        if metadata.get("uid", current["uid"]) != current["uid"]:
            why = f"the precondition names uid {metadata['uid']}, the object has {current['uid']}"
            raise bodies.conflict(target.kind.plural, target.served.group, target.name, why)
        if version not in ("", "0", current["resourceVersion"]):
            raise bodies.conflict(target.kind.plural, target.served.group, target.name)

    def _validate(self, target: Target, new: Object, old: Object | None) -> None:
        namespace = self._store[NAMESPACE].get(target.namespace)
        labels = namespace.object["metadata"].get("labels", {}) if namespace else {}
        review = Review(new, old, target.served, target.subresource, labels, REFUSES)
        writes.validate(target.kind, review)

    def _check_options(self, target: Target, options: Mapping[str, Any], record: Record) -> None:
        preconditions = Field(options)["preconditions"]
        current = record.object["metadata"]
        for key in ("uid", "resourceVersion"):
            wanted = preconditions[key].text()
            if wanted and wanted != current[key]:
                why = f"the precondition names {key} {wanted}, the object has {current[key]}"
                raise bodies.conflict(target.kind.plural, target.served.group, target.name, why)


def _check_mark(target: Target, metadata: Object, record: Record) -> None:
    """Raise a 422 if a write marks its object as deleted; a time that is there already stays."""
    current = record.object["metadata"]
    causes = []
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        given, kept = metadata.get(field), current.get(field)
        if given not in (None, kept) and not (kept and field == "deletionTimestamp"):
            why = f"Invalid value: {bodies.encode(given).decode()}: field is immutable"
            causes.append(Cause("FieldValueInvalid", why, f"metadata.{field}"))
    if causes:
        raise bodies.invalid(target.kind.kind, target.kind.group, target.name, causes)


MOST_GRACE = 2**31
"""Seconds: a time that far in the future can still be written"""
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers of the garbage collector"""
OF_POLICY = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}


def _with_policy(finalizers: list[str], policy: str | None) -> list[str]:
    """The finalizers of an object that is deleted with a policy for its dependents."""
    if policy is None:
        return finalizers
    return [one for one in finalizers if one not in (FOREGROUND, ORPHAN)] + OF_POLICY.get(policy, [])


def _set_managed(obj: Object, managed: list[Object]) -> None:
    obj["metadata"].pop("managedFields", None)
    if managed:
        obj["metadata"]["managedFields"] = managed


def _has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


_ENDED = ("Succeeded", "Failed", "Pending")
"""Phases in which a pod counts for no budget"""


def evict(store: Store, writer: Writer, target: Target, body: Any, *, dry_run: bool) -> None:
    """Delete a pod, and count it for its budget. Raises a 429 if its budget allows no disruption.

    A pod that several budgets cover cannot be evicted, as upstream.
    """
    eviction = Field(body)
    if eviction["metadata"]["name"].text() not in ("", target.name):
        raise bodies.bad_request("the name of the eviction does not match the name on the URL")
    pod = get_object(store, target).object
    options: Mapping[str, Any] = eviction["deleteOptions"].object()
    if pod.get("status", {}).get("phase", "Pending") not in _ENDED:
        covering = [one for one in store[BUDGET].scan(target.prefix) if _covers(one.object, pod)]
        if len(covering) > 1:
            raise bodies.Refusal(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which is not supported.",
            )
        for budget in covering:
            if (
                _is_unhealthy(pod)
                and budget.object["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            ):
                continue
            _count(writer, target, budget, dry_run=dry_run)
    writer.delete(target, options, dry_run=dry_run)


def _is_unhealthy(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _covers(budget: Object, pod: Object) -> bool:
    selector = budget.get("spec", {}).get("selector")
    if selector is None:
        return False
    return LabelSelector.model_validate(selector).parsed.matches(pod["metadata"].get("labels") or {})


def _count(writer: Writer, target: Target, budget: Record, *, dry_run: bool) -> None:
    name = budget.object["metadata"]["name"]
    status = budget.object.get("status", {})
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 1:
        why = f"The disruption budget {name} allows no disruption now"
        cause = {"reason": "DisruptionBudget", "message": why}
        raise bodies.Refusal(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [cause]},
        )
    counted = Target(BUDGET, BUDGET.stored, target.namespace, name, "status")
    writer.update(counted, _with_one_less(target.name, writer.now), None, dry_run=dry_run)


def _with_one_less(pod: str, now: Callable[[], datetime]) -> Callable[[Object], Object]:
    def change(shown: Object) -> Object:
        status = shown.get("status", {})
        disrupted = {**status.get("disruptedPods", {}), pod: timestamp(now())}
        less = {"disruptionsAllowed": status.get("disruptionsAllowed", 0) - 1, "disruptedPods": disrupted}
        return {**shown, "status": {**status, **less}}

    return change
