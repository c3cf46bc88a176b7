"""What containers of a pod request: resources by name, with limits.

Source: Kubernetes' `ValidateContainerResourceRequirements`. Units and names of Kubernetes' own resources are
not checked here.
"""

from reconciler.api.objects.quantity import NANO
from reconciler.api.validation.amounts import quantity
from reconciler.api.validation.fields import Field

_OWN = "kubernetes.io/"


def is_counted(resource: str) -> bool:
    """Whether a resource is counted in whole units that are not overcommitted: its domain is foreign."""
    return "/" in resource and _OWN not in resource


def check_resources(container: Field) -> None:
    """Check that amounts are not negative, counted ones whole, and that no request exceeds its limit."""
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    for part in (limits, requests):
        for name, amount in part.entries():
            found = quantity(amount)
            if found is not None and found.nanos < 0:
                amount.invalid("must be greater than or equal to 0")
            elif found is not None and is_counted(name) and found.nanos % NANO:
                amount.invalid("must be an integer")
    for name, amount in requests.entries():
        requested, limit = quantity(amount), quantity(limits[name])
        if requested is None:
            continue
        if limit is None:
            if is_counted(name):
                limits.required("Limit must be set for non overcommitable resources")
        elif is_counted(name) and requested != limit:
            amount.invalid(f"must be equal to {name} limit of {limit}")
        elif requested > limit:
            amount.invalid(f"must be less than or equal to {name} limit of {limit}")
