"""Limits and requests of containers that no server accepts."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import PODS, causes, ok
from tests.tools.small_fleet import pod

GPU, OWN = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"


def asking(part: str, resources: Any) -> Any:
    made = pod("p", gates=())
    made["spec"][part] = [{"name": part.lower(), "image": "i", "resources": resources}]
    return made


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("resources", "field", "reason"),
    [
        ({"requests": {GPU: "1"}}, "limits", "FieldValueRequired"),
        ({"requests": {GPU: "1"}, "limits": {"cpu": "1"}}, "limits", "FieldValueRequired"),
        ({"requests": {GPU: "1"}, "limits": {GPU: "2"}}, f"requests[{GPU}]", "FieldValueInvalid"),
        ({"limits": {GPU: "1500m"}}, f"limits[{GPU}]", "FieldValueInvalid"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}, "requests[cpu]", "FieldValueInvalid"),
    ],
    ids=str,
)
def test_a_pod_with_them_is_refused(part: str, resources: Any, field: str, reason: str):
    found = causes(ApiServer(), "POST", PODS, asking(part, resources))
    assert found == [(f"spec.{part}[0].resources.{field}", reason)]


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {GPU: 2}},
        {"limits": {GPU: "2"}, "requests": {GPU: "2000m"}},
        {"requests": {"cpu": "1500m", OWN: "1"}, "limits": {"memory": "1Gi"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}},
    ],
    ids=str,
)
def test_others_are_created(resources: Any):
    ok(ApiServer(), "POST", PODS, asking("containers", resources))
