"""ProvisioningRequests: of their resource definition in autoscaling.x-k8s.io/v1, what this project uses."""

from typing import Final

from reconciler.api.validation.structural import (
    CONDITION,
    DNS_SUBDOMAIN,
    AnyObject,
    Fields,
    Integer,
    Items,
    Text,
)

_NAME: Final = Text(253, pattern=DNS_SUBDOMAIN)
_POD_SET: Final = Fields(
    {"podTemplateRef": Fields({"name": _NAME}, required=("name",)), "count": Integer(1)},
    required=("podTemplateRef", "count"),
)
PROVISIONING_REQUEST: Final = Fields(
    {
        "apiVersion": Text(),
        "kind": Text(),
        "metadata": AnyObject(),
        "spec": Fields(
            {"provisioningClassName": _NAME, "podSets": Items(_POD_SET, most=32, fewest=1)},
            required=("provisioningClassName", "podSets"),
            immutable=("provisioningClassName", "podSets"),
        ),
        "status": Fields({"conditions": Items(CONDITION, key="type")}),
    },
    required=("spec",),
)
