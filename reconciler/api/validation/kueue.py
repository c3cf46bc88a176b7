"""The kinds of Kueue: of its resource definitions in v1beta2, the fields that this project uses.

v1beta1 has the same fields with fewer limits. `retryCount` and `requeueAfterSeconds` are of Kueue 0.14: older
servers drop them.
"""

from typing import Final

from reconciler.api.validation.structural import (
    CONDITION,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    MAX_MESSAGE,
    AnyObject,
    Fields,
    Flag,
    Integer,
    Items,
    Schema,
    Text,
    Texts,
    Time,
)

_MOST_SETS: Final = 18
_CONDITIONS: Final = Items(CONDITION, most=16, key="type")
_NAME: Final = Text(63, pattern=DNS_LABEL)
_OBJECT: Final[dict[str, Schema]] = {"apiVersion": Text(), "kind": Text(), "metadata": AnyObject()}
_TOLERATION: Final = Fields(
    {
        "key": Text(),
        "operator": Text(),
        "value": Text(),
        "effect": Text(),
        "tolerationSeconds": Integer(),
    }
)
_LEVEL: Final = Text(63)
_POD_SET: Final = Fields(
    {
        "name": _NAME,
        "count": Integer(0),
        "template": AnyObject(),
        "topologyRequest": Fields({"required": _LEVEL, "preferred": _LEVEL}),
    },
    required=("template",),
)
_ASSIGNMENT: Final = Fields(
    {"name": _NAME, "flavors": Texts(Text(253, pattern=DNS_SUBDOMAIN)), "count": Integer(0)}
)
_UPDATE: Final = Fields(
    {"name": _NAME, "labels": Texts(), "annotations": Texts(), "nodeSelector": Texts()}, required=("name",)
)
CHECK_STATE: Final = Fields(
    {
        "name": Text(316, 1),
        "state": Text(words=("Pending", "Ready", "Retry", "Rejected")),
        "lastTransitionTime": Time(),
        "message": Text(MAX_MESSAGE),
        "requeueAfterSeconds": Integer(0),
        "retryCount": Integer(0),
        "podSetUpdates": Items(_UPDATE, most=_MOST_SETS),
    },
    required=("name", "state", "lastTransitionTime", "message"),
)
"""The state of one admission check of a Workload"""

WORKLOAD: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields(
            {
                "podSets": Items(_POD_SET, most=_MOST_SETS, fewest=1, key="name"),
                "queueName": Text(253, pattern=DNS_SUBDOMAIN),
                "priority": Integer(),
                "active": Flag(),
            }
        ),
        "status": Fields(
            {
                "conditions": _CONDITIONS,
                "admission": Fields(
                    {
                        "clusterQueue": Text(253, pattern=DNS_SUBDOMAIN),
                        "podSetAssignments": Items(_ASSIGNMENT, most=_MOST_SETS, key="name"),
                    }
                ),
                "admissionChecks": Items(CHECK_STATE, most=8, key="name"),
            }
        ),
    }
)
ADMISSION_CHECK: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields(
            {"controllerName": Text(253, 1)}, required=("controllerName",), immutable=("controllerName",)
        ),
        "status": Fields({"conditions": _CONDITIONS}),
    }
)
RESOURCE_FLAVOR: Final = Fields(
    {
        **_OBJECT,
        "spec": Fields({"nodeLabels": Texts(most=8), "tolerations": Items(_TOLERATION, most=8)}),
    }
)
