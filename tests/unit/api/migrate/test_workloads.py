"""Objects of any shape: each is rewritten, or refused alone, by its name."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import Resources, Wanted
from reconciler.api.migrate.workloads import Migration, migrate
from tests.tools.disturbing import disturbed

GPU = "example.com/gpu"
KNOWN = Resources({GPU: Wanted("gpu")})
Json = dict[str, Any]


def pod(name: str = "p", **spec: Any) -> Json:
    main = {"name": "main", "image": "i", "resources": {"limits": {GPU: 1}, "requests": {GPU: "1"}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [main], **spec}}


def deployment() -> Json:
    gates: Json = {
        "schedulingGates": [{"name": "g"}],
        "resourceClaims": [{"name": "c", "resourceClaimName": "d"}],
    }
    template = pod(initContainers=[{"name": "i", "resources": {"limits": {GPU: 2}, "claims": []}}], **gates)
    spec = {"template": {"metadata": {}, "spec": template["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def template(spec: str = "{exactly: {deviceClassName: gpu}, name: r}", name: str = "gpu-1") -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [yaml.safe_load(spec)]}}},
    }


def problems(found: Migration) -> list[str]:
    return [str(one.problem) for one in found.changes if one.problem is not None]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{containers: [{image: i}]}", "containers[0].name: must be a text that is not empty"),
        ("{containers: [{name: 7}]}", "containers[0].name: must be a text that is not empty"),
        ("{resourceClaims: [{}]}", "resourceClaims[0].name: must be a text that is not empty"),
        ("{containers: [foo]}", "containers[0]: must be an object"),
        ("{containers: {name: a}}", "containers: must be a list"),
        ("{initContainers: foo}", "initContainers: must be a list"),
        ("{schedulingGates: [foo]}", "schedulingGates[0]: must be an object"),
        ("{containers: [{name: a, resources: foo}]}", "containers[0].resources: must be an object"),
        (
            "{containers: [{name: a, resources: {limits: [foo/bar]}}]}",
            "containers[0].resources.limits: must be an object",
        ),
        (
            "{containers: [{name: a, resources: {requests: {1: 2}}}]}",
            "containers[0].resources.requests: names of resources must be texts",
        ),
        (
            "{containers: [{name: a, resources: {claims: foo}}]}",
            "containers[0].resources.claims: must be a list",
        ),
    ],
)
def test_pods_of_another_shape_are_refused_alone(wrong: str, said: str):
    found = migrate([pod("wrong", **yaml.safe_load(wrong)), pod("right")], KNOWN)
    assert problems(found) == [f"Pod wrong: {said}"]
    assert [one.changed for one in found.changes] == [False, True]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"metadata": "foo"}, "Pod without a name: metadata: must be an object"),
        ({"metadata": {"name": ["x"]}}, "Pod ['x']: metadata.name: must be a text"),
        ({"metadata": {"name": "x", "namespace": {}}}, "Pod x: metadata.namespace: must be a text"),
        ({"spec": "foo"}, "Pod p: spec: must be an object"),
        ({"kind": "ResourceClaimTemplate", "metadata": 1}, "ResourceClaimTemplate without a name: metadata"),
    ],
)
def test_objects_of_another_shape_are_refused_alone(wrong: Json, said: str):
    found = migrate([pod() | wrong, pod("right")], KNOWN)
    (problem,) = problems(found)
    assert problem.startswith(said)
    assert [one.changed for one in found.changes] == [False, True]


def test_objects_without_a_name_are_no_problem():
    unnamed = pod()
    del unnamed["metadata"]
    generated = template() | {"metadata": {"generateName": "gpu-"}}
    found = migrate([unnamed, generated, {"kind": "ConfigMap", "metadata": "foo"}], KNOWN)
    assert problems(found) == []
    assert [one.changed for one in found.changes] == [True, False, False]


@given(
    disturbed([pod(), deployment(), template()], st.sampled_from(["spec", "name", "limits", "metadata", GPU]))
)
def test_whatever_the_shape_the_others_are_rewritten(raw: Any):
    wrong = raw if isinstance(raw, dict) else {}
    before = json.dumps(wrong)
    first, second = migrate([wrong, pod("right")], KNOWN).changes
    assert json.dumps(wrong) == before
    assert second.changed or second.problem is not None
    assert first.problem is None or not first.changed


@pytest.mark.parametrize(("limit", "request_"), [(2, "2000m"), ("2", 2), ("2e0", "2")])
def test_equal_quantities_do_not_differ(limit: object, request_: object):
    asked = pod()
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: limit}, "requests": {GPU: request_}}
    (template,) = migrate([asked], KNOWN).templates
    assert template["metadata"]["name"] == "gpu-2"
