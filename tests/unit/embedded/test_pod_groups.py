"""PodGroups of both API groups: what the server refuses."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import MERGE, call, causes, ok
from tests.tools.gangs import coscheduling_group, pod_group

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


def spec(**parts: Any) -> dict[str, Any]:
    made = pod_group(claim="t", topology="rack")
    made["spec"] |= parts
    return made


def test_both_groups_have_a_kind_of_that_name():
    api = ApiServer()
    ok(api, "POST", GROUPS, spec())
    ok(api, "POST", COSCHEDULING, coscheduling_group())
    assert len(ok(api, "GET", GROUPS)["items"]) == 1
    assert ok(api, "GET", f"{COSCHEDULING}/g")["spec"] == {"minMember": 2}


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"resourceClaims": [{"name": "c"}]}, "spec.resourceClaims[0]"),
        (
            {"schedulingConstraints": {"topology": [{"key": "no label"}]}},
            "spec.schedulingConstraints.topology[0].key",
        ),
    ],
)
def test_a_spec_that_means_nothing_is_refused(parts: dict[str, Any], field: str):
    assert field in [path for path, _ in causes(ApiServer(), "POST", GROUPS, spec(**parts))]


def test_the_spec_is_immutable():
    api = ApiServer()
    ok(api, "POST", GROUPS, spec())
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    status, _ = call(api, "PATCH", f"{GROUPS}/g", patch, media=MERGE)
    assert status == 422


def test_a_coscheduling_group_needs_a_positive_minimum():
    assert causes(ApiServer(), "POST", COSCHEDULING, coscheduling_group(least=0)) == [
        ("spec.minMember", "FieldValueInvalid")
    ]
