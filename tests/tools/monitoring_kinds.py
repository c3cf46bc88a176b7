"""ServiceMonitor and PrometheusRule of the Prometheus operator: the fields that our manifests use."""

from typing import Any

import jsonschema

from reconciler.api.validation.structural import (
    AnyObject,
    Fields,
    Flag,
    Items,
    Schema,
    Text,
    Texts,
    check,
    unknown,
)
from tests.tools.definitions import dropped, published

GROUP = "monitoring.coreos.com"
DURATION = Text(
    1_000, 1, "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
)
_OBJECT: dict[str, Schema] = {
    "apiVersion": Text(words=(f"{GROUP}/v1",)),
    "kind": Text(),
    "metadata": AnyObject(),
}
_ENDPOINT = Fields(
    {
        "port": Text(),
        "path": Text(),
        "scheme": Text(words=("http", "https", "HTTP", "HTTPS")),
        "interval": DURATION,
        "bearerTokenFile": Text(),
        "tlsConfig": Fields({"insecureSkipVerify": Flag()}),
    }
)
_RULE = Fields(
    {"alert": Text(), "expr": Text(1_000_000, 1), "for": DURATION, "labels": Texts(), "annotations": Texts()},
    required=("expr",),
)
SCHEMAS: dict[str, Fields] = {
    "ServiceMonitor": Fields(
        {
            **_OBJECT,
            "spec": Fields(
                {"selector": Fields({"matchLabels": Texts()}), "endpoints": Items(_ENDPOINT)},
                required=("selector", "endpoints"),
            ),
        },
        required=("spec",),
    ),
    "PrometheusRule": Fields(
        {
            **_OBJECT,
            "spec": Fields(
                {
                    "groups": Items(
                        Fields({"name": Text(200, 1), "rules": Items(_RULE)}, ("name",)), key="name"
                    )
                }
            ),
        },
        required=("spec",),
    ),
}


def assert_valid(document: dict[str, Any]) -> None:
    """It fits our schema of its kind and the published ones, where these are, and has no other fields."""
    schema = SCHEMAS[document["kind"]]
    assert check(schema, document) == []
    assert list(unknown(schema, document)) == []
    for one in published():
        found = one.definition["spec"]
        if (found["names"]["kind"], found["group"]) == (document["kind"], GROUP):
            jsonschema.Draft202012Validator(one.schema).validate(document)
            assert list(dropped(one.schema, document)) == []
