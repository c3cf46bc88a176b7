"""Objects of any shape: each is rewritten, or refused alone, by its name."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.pods import Template, template_named
from reconciler.api.migrate.special_claims import Resources, Wanted, mapping
from reconciler.api.migrate.workloads import Migration, migrate
from reconciler.api.objects.claims import DeviceClass
from reconciler.errors import Malformed
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
        ({"metadata": {"name": "x", "annotations": 1}}, "Pod x: metadata.annotations: must be an object"),
        ({"kind": "ResourceClaimTemplate", "metadata": 1}, "ResourceClaimTemplate without a name: metadata"),
    ],
)
def test_objects_of_another_shape_are_refused_alone(wrong: Json, said: str):
    found = migrate([pod() | wrong, pod("right")], KNOWN)
    (problem,) = problems(found)
    assert problem.startswith(said)
    assert [one.changed for one in found.changes] == [False, True]


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("Deployment", "foo", "spec: must be an object"),
        ("Deployment", {"template": "foo"}, "spec.template: must be an object"),
        ("Deployment", {"template": {"spec": []}}, "spec.template.spec: must be an object"),
        ("JobSet", {"replicatedJobs": {"name": "j"}}, "spec.replicatedJobs: must be a list"),
        ("JobSet", {"replicatedJobs": ["foo"]}, "spec.replicatedJobs[0]: must be an object"),
        (
            "JobSet",
            {"replicatedJobs": [{}, {"template": {"spec": {"template": {"spec": 1}}}}]},
            "spec.replicatedJobs[1].template.spec.template.spec: must be an object",
        ),
    ],
)
def test_what_makes_pods_of_another_shape_is_refused_alone(kind: str, spec: Any, said: str):
    group = {"Deployment": "apps/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}[kind]
    wrong = {"apiVersion": group, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    found = migrate([wrong, pod("right")], KNOWN)
    assert problems(found) == [f"{kind} w: {said}"]
    assert [one.changed for one in found.changes] == [False, True]


@pytest.mark.parametrize("spec", [None, {"template": None}, {"template": {"spec": None}}])
def test_what_makes_pods_without_a_pod_spec_is_no_problem(spec: Any):
    found = migrate([deployment() | {"spec": spec}], KNOWN)
    assert problems(found) == []


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


@pytest.mark.parametrize(
    "request_",
    [
        "{name: r, exactly: {deviceClassName: other}}",
        "{name: r, exactly: {deviceClassName: gpu, count: 2}}",
        "{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}",
        "{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'false'}}]}}",
        "{name: r, firstAvailable: [{name: s, deviceClassName: gpu}]}",
        "{name: r, exactly: {deviceClassName: gpu, count: x}}",
        "{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}",
        "{name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 80Gi}}}}",
    ],
)
def test_a_template_of_the_input_for_other_devices_is_not_used(request_: str):
    found = migrate([pod(), template(request_)], KNOWN)
    assert found.templates == ()
    assert problems(found) == [
        "Pod p: ResourceClaimTemplate gpu-1 must be for 1 of class gpu, but the one of the input is not; "
        "give one of the two another name: that of a resource is in the file of --map"
    ]
    with pytest.raises(Malformed, match="--templates: ResourceClaimTemplate gpu-1 must be"):
        migrate([template(request_)], KNOWN, ahead=[Template(Wanted("gpu"), 1)], namespace="default")


@pytest.mark.parametrize(
    "request_",
    [
        "{name: mine, exactly: {deviceClassName: gpu, count: 1, allocationMode: ExactCount}}",
        "{name: r, exactly: {deviceClassName: gpu, tolerations: [{operator: Exists}]}}",
    ],
)
def test_a_template_of_the_input_for_the_same_devices_is_used(request_: str):
    ahead = [Template(Wanted("gpu"), 1), Template(Wanted("gpu"), 2)]
    found = migrate([pod(), template(request_)], KNOWN, ahead=ahead, namespace="default")
    assert [one.changed for one in found.changes] == [True, False]
    assert [one["metadata"]["name"] for one in found.templates] == ["gpu-2"]


def test_a_template_of_the_input_with_a_constraint_is_not_used():
    several, tied = pod(), template("{name: r, exactly: {deviceClassName: gpu, count: 2}}", "gpu-2")
    several["spec"]["containers"][0]["resources"] = {"limits": {GPU: 2}}
    assert problems(migrate([several, tied], KNOWN)) == []
    tied["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "example.com/board"}]
    (problem,) = problems(migrate([several, tied], KNOWN))
    assert "ResourceClaimTemplate gpu-2 must be for 2 of class gpu" in problem


def test_two_resources_whose_templates_share_names_are_refused():
    """One name is in a mapping, the other that of a class."""
    implicit = "deviceclass.resource.kubernetes.io/x"
    first, second = pod("first"), pod("second")
    second["spec"]["containers"][0]["resources"] = {"limits": {implicit: 1}}
    known = Resources({GPU: Wanted("gpu", name="x")})
    found = migrate([first, second], known)
    assert [one.changed for one in found.changes] == [True, False]
    assert "Pod second: ResourceClaimTemplate x-1 must be for 1 of class x" in problems(found)[0]
    assert "another of Pod first is not" in problems(found)[0]
    first["spec"]["containers"] += [second["spec"]["containers"][0] | {"name": "b"}]
    (problem,) = problems(migrate([first], known))
    assert problem.startswith("Pod first: ResourceClaimTemplate x-1 must be")


def test_a_mapping_gives_one_name_to_one_kind_of_devices():
    entries = {
        "a.com/x": {"class": "A", "name": "x", "selector": "true"},
        "b.com/x": {"class": "B", "name": "x"},
    }
    with pytest.raises(Malformed, match=r"resources\[b.com/x\]: .*resources\[a.com/x\]"):
        mapping([], {"resources": entries}, "map.yaml")
    same = {name: {"class": "A", "name": "x"} for name in ("a.com/x", "b.com/x")}
    assert {"a.com/x", "b.com/x"} <= mapping([], {"resources": same}).named.keys()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpu.nvidia.com", "nvidia.com/gpu"),
        ("npu.example.com", "example.com/npu"),
        ("mig.nvidia.com-1g.5gb", "nvidia.com/mig-1g.5gb"),
    ],
    ids=["device plugin", "class", "MIG"],
)
def test_a_mapping_gives_no_name_that_other_devices_have(name: str, other: str):
    """Unless it says that these stand for something else."""
    metadata = {"name": "npu.example.com"}
    spec = {"extendedResourceName": "example.com/npu"}
    classes = [DeviceClass.model_validate({"metadata": metadata, "spec": spec})]
    entries = {"a.com/x": {"class": "A", "selector": "true", "name": name}}
    with pytest.raises(Malformed, match=rf"resources\[a.com/x\]: .* by {name}, as those of {other}, which"):
        mapping(classes, {"resources": entries}, "map.yaml")
    entries[other] = {"class": "B"}
    found = mapping(classes, {"resources": entries}, "map.yaml")
    assert template_named(f"{name}-1", found) == Template(Wanted("A", "true", name), 1)
