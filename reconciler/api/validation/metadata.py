"""Validation of every object's metadata."""

from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.names import is_dns_label, is_dns_subdomain, is_label_name, is_label_value

MAX_ANNOTATIONS = 256 * 1024
"""Maximum bytes of an object's annotations."""


def check_types(metadata: Field) -> None:
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


def check(metadata: Field, old: Object | None, *, label_names: bool) -> None:
    """Check names, labels, annotations, finalizers and owners."""
    name = metadata["name"]
    if not name.text():
        name.required("name or generateName is required")
    elif not (is_dns_label if label_names else is_dns_subdomain)(name.text()):
        name.invalid(
            "must have only lower case letters, digits, '-' and '.', and be alphanumeric at both ends"
        )
    for key, value in metadata["labels"].entries():
        if not is_label_name(key):
            metadata["labels"].invalid(f"{key!r} must be a label name")
        if not is_label_value(value.text()):
            value.invalid("must be a label value: at most 63 letters, digits, '-', '_' and '.'")
    annotations = metadata["annotations"].object()
    if any(not is_label_name(key.lower()) for key in annotations):
        metadata["annotations"].invalid("keys must be label names")
    if sum(len(key) + len(value) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        metadata["annotations"].too_long(MAX_ANNOTATIONS)
    for finalizer in metadata["finalizers"].items():
        if not is_label_name(finalizer.text()):
            finalizer.invalid("must be a qualified name")
    if old is not None and "deletionTimestamp" in old["metadata"]:
        kept = old["metadata"].get("finalizers", [])
        if any(finalizer.text() not in kept for finalizer in metadata["finalizers"].items()):
            metadata["finalizers"].forbidden("no new finalizers can be added if the object is being deleted")
    _owners(metadata["ownerReferences"])


def _owners(owners: Field) -> None:
    controllers = 0
    for owner in owners.items():
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner[key].text():
                owner[key].required()
        controllers += owner["controller"].flag()
    if controllers > 1:
        owners.invalid("only one owner can be the controller")
