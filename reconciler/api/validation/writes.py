"""Prepare a written object before it is stored: decode, merge, validate.

No store, clock or randomness: the caller passes their values.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.api.validation import fields
from reconciler.api.validation.bodies import bad_request, invalid, tidy
from reconciler.api.validation.kinds import GroupVersion, Object, Review, ServedKind

MAX_ANNOTATIONS = 256 * 1024
"""Maximum bytes of an object's annotations."""


def check_types(metadata: fields.Field) -> None:
    """Raise WrongType unless metadata has the declared shape. All other code depends on it."""
    for key in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        metadata[key].text()
    for key in ("labels", "annotations"):
        for _, value in metadata[key].entries():
            value.text()
    for item in metadata["finalizers"].items():
        item.text()
    for owner in metadata["ownerReferences"].items():
        for key in ("apiVersion", "kind", "name", "uid"):
            owner[key].text()
        owner["controller"].flag()


def check(metadata: fields.Field, old: Object | None, *, label_names: bool) -> None:
    """Check names, labels, annotations, finalizers and owners."""
    name = metadata["name"]
    if not name.text():
        name.required("name or generateName is required")
    elif not (fields.is_dns_label if label_names else fields.is_dns_subdomain)(name.text()):
        name.invalid(
            "must have only lower case letters, digits, '-' and '.', and be alphanumeric at both ends"
        )
    for key, value in metadata["labels"].entries():
        if not fields.is_label_name(key):
            metadata["labels"].invalid(f"{key!r} must be a label name")
        if not fields.is_label_value(value.text()):
            value.invalid("must be a label value: at most 63 letters, digits, '-', '_' and '.'")
    annotations = metadata["annotations"].object()
    if any(not fields.is_label_name(key.lower()) for key in annotations):
        metadata["annotations"].invalid("keys must be label names")
    if sum(len(key) + len(value) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        metadata["annotations"].too_long(MAX_ANNOTATIONS)
    for finalizer in metadata["finalizers"].items():
        if not fields.is_label_name(finalizer.text()):
            finalizer.invalid("must be a qualified name")
    if old is not None and "deletionTimestamp" in old["metadata"]:
        kept = old["metadata"].get("finalizers", [])
        if any(finalizer.text() not in kept for finalizer in metadata["finalizers"].items()):
            metadata["finalizers"].forbidden("no new finalizers can be added if the object is being deleted")
    _owners(metadata["ownerReferences"])


def _owners(owners: fields.Field) -> None:
    controllers = []
    for item in owners.items():
        texts = {key: item[key].text() for key in ("apiVersion", "kind", "name", "uid")}
        # The paths upstream have no index, and what is missing is printed as an empty text.
        owner = fields.Field(item.object() | texts, owners.path, owners.causes)
        version, kind = owner["apiVersion"].text(), owner["kind"].text()
        if not version.rpartition("/")[2] or version.count("/") > 1:
            owner["apiVersion"].invalid("version must not be empty")
        for key in ("kind", "name", "uid"):
            if not owner[key].text():
                owner[key].invalid("must not be empty")
        if (version, kind) == ("v1", "Event"):
            owner.invalid("/v1, Kind=Event is disallowed from being an owner")
        if owner["controller"].flag():
            controllers.append(f"{kind}/{owner['name'].text()}")
    for other in controllers[1:]:
        owners.invalid(
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {other}'
        )


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
    check_types(fields.Field(new)["metadata"])
    metadata = new.setdefault("metadata", {})
    # Empty values of metadata are not stored; clients write them to mean "none". No managers is a command.
    new["metadata"] = {
        key: value for key, value in metadata.items() if value not in ("", [], {}) or key == "managedFields"
    }
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
    if kind.has_status and subresource != "binding":
        found.pop("status", None)
        if "status" in old:
            found["status"] = old["status"]
    return found


def validate(kind: ServedKind, review: Review) -> None:
    """Validate a write. Raises Refusal with every violated rule, WrongType for a wrong type."""
    metadata = fields.Field(review.new)["metadata"]
    check(metadata, review.old, label_names=kind.label_names)
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
