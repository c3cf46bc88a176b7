"""The claim that kube-scheduler makes for extended resources of a pod."""

from typing import Any

from hypothesis import given

from reconciler.api.migrate.special_claims import request_mappings, requests_for, served_by_classes
from reconciler.api.migrate.special_claims import special_claim as made_for
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.room import demand
from tests.tools.admission_policies import pod_specs
from tests.tools.builders import device_class, typed
from tests.tools.examples import examples

GPU = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


def pod(spec: Any) -> Pod:
    return Pod.model_validate({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec})


def container(name: str, *, always: bool = False, **amounts: Any) -> Any:
    named = {key.replace("_", "/"): value for key, value in amounts.items()}
    more = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {"limits": named}, **more}


def requests(found: Pod, *resources: str) -> dict[str, tuple[str, int]]:
    claim = made_for(found, dict.fromkeys(resources, "gpu"))
    made = claim["spec"]["devices"]["requests"]
    return {one["name"]: (one["exactly"]["deviceClassName"], one["exactly"]["count"]) for one in made}


def mapped(found: Pod, *resources: str) -> list[tuple[str, str]]:
    return [(one["containerName"], one["requestName"]) for one in request_mappings(found, resources)]


def test_requests_are_named_after_container_and_resource():
    """EXT-3: the place of the resource is among all requests of the container; sorted as text."""
    many = [container(f"c{number}", a_gpu="1") for number in range(11)]
    many[2]["resources"]["limits"] |= {"Z/first": "1", "cpu": "1", "memory": "1"}
    found = requests(pod({"containers": many}), "a/gpu")
    told = list(found)[:4]
    assert told == [f"container-{end}-request-0" for end in ("0", "1", "10")] + ["container-2-request-1"]
    assert set(found.values()) == {("gpu", 1)}


def test_init_containers_use_what_comes_after_them_and_share_the_rest():
    """EXT-3: the largest rest gets the request, the first of equal ones, and both use it."""
    inits = [container("i0", a_g="2"), container("i1", a_g="3"), container("side", always=True, a_g="1")]
    found = pod({"initContainers": inits, "containers": [container("main", a_g="1")]})
    names = [f"container-{number}-request-0" for number in (1, 2, 3)]
    assert requests(found, "a/g") == dict(zip(names, [("gpu", 1)] * 3, strict=True))
    assert mapped(found, "a/g") == [
        ("side", names[1]), ("main", names[2]),
        ("i0", names[1]), ("i0", names[2]),
        ("i1", names[1]), ("i1", names[2]), ("i1", names[0]),
    ]  # fmt: skip


def test_a_claim_is_that_of_its_pod():
    claim = made_for(pod({"containers": [container("c", a_g="2")]}), {"a/g": "gpu"})
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    found = claim["metadata"]["ownerReferences"]
    assert found == [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]


def test_of_classes_with_one_name_the_newest_counts():
    """EXT-1. The name after a class is always that class."""
    raws = [device_class(name) for name in ("b", "a", "c")]
    for raw, created in zip(raws, ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", None), strict=True):
        raw["spec"]["extendedResourceName"] = "x/gpu"
        raw["metadata"]["creationTimestamp"] = created
    classes = {one.key.name: one for one in map(typed, raws)}
    amounts: Any = {f"{IMPLICIT}c": "1", f"{IMPLICIT}no": "1", "x_none": "1"}
    asked = container("c", x_gpu="1", **amounts)
    found = served_by_classes(pod({"containers": [asked]}), classes)
    assert found == {"x/gpu": "a", f"{IMPLICIT}c": "c"}


@given(pod_specs())
@examples(200)
def test_the_claim_has_as_many_devices_as_the_pod_takes_of_a_node(spec: Any):
    """EXT-3, and each container has at least what it asks for."""
    found = pod(spec)
    made, uses = requests_for(found, GPU)
    assert sum(made.values()) == demand(found).get(GPU, 0)
    containers = (*found.spec.init_containers, *found.spec.containers)
    for at, one in enumerate(containers):
        asked = one.resources.limits.get(GPU)
        having = sum(made[of] for user, of in set(uses) if user == at)
        assert having >= (0 if asked is None else asked.nanos // 10**9)
