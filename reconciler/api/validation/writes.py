"""Prepare a written object before it is stored: decode, merge, validate.

No store, clock or randomness: the caller passes their values.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.api.validation import metadata as metadata_rules
from reconciler.api.validation.encoding import tidy
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import GroupVersion, Object, Review, ServedKind
from reconciler.api.validation.status import bad_request, invalid

SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_KEPT = (*SERVER_OWNED, "name", "namespace", "generateName")
_DROPPED = ("managedFields", "selfLink", "resourceVersion")


def decode_object(kind: ServedKind, served: GroupVersion, body: Any) -> Object:
    """A deep copy of a request's object, converted to the stored version.

    Raises Refusal if it is not an object of the kind, WrongType if its metadata has another shape.
    """
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    _check_type(kind, served, body)
    new = {key: value for key, value in tidy(body).items() if key not in ("kind", "apiVersion")}
    metadata_rules.check_types(Field(new)["metadata"])
    metadata = new.setdefault("metadata", {})
    # Empty values of metadata are not stored; clients write them to mean "none".
    new["metadata"] = {key: value for key, value in metadata.items() if value not in ("", [], {})}
    return kind.upgrade(new, served)


def set_name_and_namespace(kind: ServedKind, namespace: str, name: str, metadata: Object) -> None:
    """Set the namespace and name of the URL on a new object. Raises Refusal if it has others."""
    if name and metadata.setdefault("name", name) != name:
        raise bad_request("the name of the object does not match the name on the URL")
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def set_server_fields(kind: ServedKind, new: Object, *, uid: str, created: str, keeps_status: bool) -> None:
    """Set the fields that only the server sets. A new object has no status, unless `keeps_status`."""
    metadata = new["metadata"]
    for key in (*SERVER_OWNED, *_DROPPED):
        metadata.pop(key, None)
    metadata |= {"uid": uid, "creationTimestamp": created}
    if kind.counts_generations:
        metadata["generation"] = 1
    if kind.has_status and not keeps_status:
        new.pop("status", None)


def merge_writable(kind: ServedKind, subresource: str, old: Object, new: Object) -> Object:
    """`old` with the fields of `new` that the endpoint may write."""
    if subresource == "status":
        return {**old, "metadata": without_version(old["metadata"]), "status": new.get("status", {})}
    metadata = {key: value for key, value in new["metadata"].items() if key not in (*_KEPT, *_DROPPED)}
    metadata |= {key: old["metadata"][key] for key in _KEPT if key in old["metadata"]}
    found = {**new, "metadata": metadata}
    if kind.has_status:
        found.pop("status", None)
        if "status" in old:
            found["status"] = old["status"]
    return found


def validate(kind: ServedKind, review: Review) -> None:
    """Validate a write. Raises Refusal with every violated rule, WrongType for a wrong type."""
    metadata = Field(review.new)["metadata"]
    metadata_rules.check(metadata, review.old, label_names=kind.label_names)
    causes = metadata.causes + kind.validate(review)
    if causes:
        raise invalid(kind.kind, kind.group, review.new["metadata"].get("name", ""), causes)


def without_version(metadata: Mapping[str, Any]) -> Object:
    """Metadata without resourceVersion, which differs in each stored version."""
    return {key: value for key, value in metadata.items() if key != "resourceVersion"}


def _check_type(kind: ServedKind, served: GroupVersion, body: Object) -> None:
    given_kind, given_version = body.get("kind", kind.kind), body.get("apiVersion", str(served))
    if given_kind != kind.kind:
        raise bad_request(f'{given_kind} in version "{given_version}" cannot be handled as a {kind.kind}')
    if given_version != str(served):
        raise bad_request(
            f"the API version in the data ({given_version}) does not match the expected one ({served})"
        )
