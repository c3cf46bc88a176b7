"""ResourceClaims, their templates, and device classes (CLM-*, CLS-*)."""

from datetime import datetime

from reconciler.api.validation.allocations import (
    ADMIN_LABEL,
    ADMIN_MISSING,
    check_status,
    default_status,
)
from reconciler.api.validation.encoding import same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.names import dns_subdomain
from reconciler.api.validation.requests import (
    check_configs,
    check_devices,
    check_selectors,
    default_devices,
)


def default_claim(obj: Object, _now: datetime) -> None:
    """Set the defaults of a claim. A claim always has a status, empty at first."""
    spec = obj.get("spec")
    if isinstance(spec, dict):
        default_devices(spec.get("devices"))
    default_status(obj.setdefault("status", {}))


def check_claim(review: Review) -> list[Cause]:
    """Check a claim at creation, at an update of spec, or at an update of status."""
    root = Field(review.new)
    if review.subresource == "status":
        check_status(root, review)
        return root.causes
    if review.old is None:
        _check_spec(root["spec"], review)
    elif not same(review.old.get("spec"), review.new.get("spec")):
        root["spec"].invalid("field is immutable")
    return root.causes


def default_template(obj: Object, _now: datetime) -> None:
    """Set the defaults of the claim in a template."""
    spec = obj.get("spec")
    inner = spec.get("spec") if isinstance(spec, dict) else None
    if isinstance(inner, dict):
        default_devices(inner.get("devices"))


def check_template(review: Review) -> list[Cause]:
    """Check a ResourceClaimTemplate: its spec is immutable."""
    root = Field(review.new)
    if review.old is None:
        root["spec"]["metadata"].object()
        _check_spec(root["spec"]["spec"], review)
    elif not same(review.old.get("spec"), review.new.get("spec")):
        root["spec"].invalid("field is immutable")
    return root.causes


def check_class(review: Review) -> list[Cause]:
    """Check a DeviceClass."""
    root = Field(review.new)
    spec = root["spec"]
    check_selectors(spec["selectors"])
    check_configs(spec["config"], set())
    if spec["extendedResourceName"].present:
        dns_subdomain(Field(*_last_part(spec["extendedResourceName"])))
    return root.causes


def _last_part(name: Field) -> tuple[str, str, list[Cause]]:
    return name.text().replace("/", "."), name.path, name.causes


def _check_spec(spec: Field, review: Review) -> None:
    check_devices(spec["devices"])
    # CLM-6: the label matters only at creation.
    if review.namespace_labels.get(ADMIN_LABEL) == "true":
        return
    for request in spec["devices"]["requests"].items():
        admin = request["exactly"]["adminAccess"]
        if admin.flag():
            admin.forbidden(ADMIN_MISSING)
