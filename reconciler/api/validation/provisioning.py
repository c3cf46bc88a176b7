"""ProvisioningRequests: of their resource definition in v1, what this project uses."""

import re

from reconciler.api.validation.encoding import same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Review

MAX_SETS = 32
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def check_request(review: Review) -> list[Cause]:
    """Check class and sets of pods, which are immutable."""
    root = Field(review.new)
    if review.subresource == "status":
        return root.causes
    spec = root["spec"]
    _name(spec["provisioningClassName"])
    sets = spec["podSets"]
    if not sets.items():
        sets.required()
    sets.at_most(MAX_SETS)
    for one in sets.items():
        _name(one["podTemplateRef"]["name"])
        if one["count"].integer() < 1:
            one["count"].invalid("should be greater than or equal to 1")
    if review.old is not None and not same(review.old.get("spec"), review.new.get("spec")):
        spec.invalid("Value is immutable")
    return root.causes


def _name(field: Field) -> None:
    if not _NAME.fullmatch(field.text()):
        field.invalid("must be a lowercase RFC 1123 subdomain")
