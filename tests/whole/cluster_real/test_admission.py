"""Admission policies and roles on a real API server of Kubernetes 1.36 or newer, by who may install them.

Skipped unless a cluster is named. It must not have a namespace dra-reconciler; what is installed is removed.
"""

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import mapping
from reconciler.api.migrate.pods import rewrite
from reconciler.api.objects.claims import (
    FINALIZER,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
)
from reconciler.api.objects.core import GATE
from reconciler.api.objects.marking import is_announced, is_ours, signed
from reconciler.api.versions.reading import read
from tests.tools.deployed_rights import ACCOUNT, DEPLOY, documents
from tests.tools.extended_requests import comparable, pod_specs
from tests.tools.real_cluster import Kubectl, lent
from tests.tools.small_fleet import claim, device_class, pod, template

NAMESPACE = "dra-reconciler-test"
AS = ("--as", ACCOUNT.name, "--as-group", "system:serviceaccounts", "--as-group", "system:authenticated")
VALIDATING = [
    one["metadata"]["name"] for one in documents("admission") if one["kind"] == "ValidatingAdmissionPolicy"
]


def placed(made: Any, namespace: str = NAMESPACE) -> Any:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def asking(name: str) -> Any:
    """A pod that asks for two GPUs as an extended resource."""
    main = {"name": "main", "image": "example.com/i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    return pod(name, gates=(), containers=[main])


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """The cluster, with our account, its roles, the policies, and a namespace of pods for all of them."""
    run = lent()
    if run.run("get", "namespace", "dra-reconciler").returncode == 0:
        pytest.fail("the cluster has a namespace dra-reconciler: it is in use, or was left from another run")
    ours = documents("base", "components/templates")
    rights = [one for one in ours if one["kind"] not in ("Deployment", "NetworkPolicy")]
    rights.sort(key=lambda one: one["kind"] != "Namespace")  # first: the others are in it
    items = {"apiVersion": "v1", "kind": "List", "items": [*rights, *documents("admission")]}
    labels = {
        f"dra-reconciler.io/{name}": "true" for name in ("gate-pods", "announce-claims", "rewrite-resources")
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    try:
        run("apply", "-f", "-", given=items)
        run("apply", "-f", "-", given=space)
        run("create", "-f", "-", given=device_class("dra-reconciler-test"))
        for probe, field in ((pod("p", "c", gates=()), "schedulingGates"), (asking("p"), "resourceClaims")):
            dry = ("create", "--dry-run=server", "-f", "-", "-o", f"jsonpath={{.spec.{field}}}")
            run.until_printed(*dry, given=placed(probe))
        dry = ("create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.finalizers}")
        run.until_printed(*dry, given=placed(claim("c", device_class="dra-reconciler-test")))
        yield run
    finally:
        run.run("delete", "namespace", NAMESPACE, "--wait=false")
        run.run("delete", "deviceclass", "dra-reconciler-test")
        run.run("delete", "--wait=false", "-f", "-", given=items)


def patched(name: str, kind: str, patch: Any) -> tuple[str, ...]:
    """A merge patch by our account."""
    return ("patch", kind, name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch), *AS)


@pytest.mark.parametrize("folder", ["base", "overlays/shadow"])
def test_the_server_takes_what_kustomize_builds(kubectl: Kubectl, folder: str):
    kubectl("apply", "--dry-run=server", "-k", str(DEPLOY / folder))


@pytest.mark.parametrize("name", VALIDATING)
def test_the_server_finds_nothing_wrong_with_the_types_of_expressions(kubectl: Kubectl, name: str):
    kind = "validatingadmissionpolicy"
    kubectl("wait", kind, name, "--for=jsonpath={.status.observedGeneration}=1", "--timeout=60s")
    status = json.loads(kubectl("get", kind, name, "-o", "json"))["status"]
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []


def test_claims_that_are_ours_are_marked_and_nothing_else_is_done_to_them(kubectl: Kubectl):
    kubectl("create", "-f", "-", given=placed(claim("ours", device_class="dra-reconciler-test")))

    def labelled(attempt: int) -> tuple[str, ...]:
        return patched("ours", "resourceclaim", {"metadata": {"labels": {"a": f"b{attempt}"}}})

    assert "labels or owners" in kubectl.until_refused(labelled)
    kubectl(*patched("ours", "resourceclaim", {"metadata": {"finalizers": [FINALIZER]}}))
    kubectl(*patched("ours", "resourceclaim", {"metadata": {"finalizers": None}}))


def test_claims_are_announced_and_allocated_in_one_write(kubectl: Kubectl):
    """And the one that is deleted before is freed by kube-controller-manager."""
    for name in ("announced", "dropped"):
        kubectl(
            "create", "-f", "-", given=placed(claim(name, managed=False, device_class="dra-reconciler-test"))
        )
    get = ("get", "resourceclaim", "announced", "-n", NAMESPACE, "-o", "json")
    found = cast("ResourceClaim", read(json.loads(kubectl(*get))))
    assert is_announced(found)
    assert found.metadata.finalizers == (FINALIZER,)
    device = AllocatedDevice(request="r", driver="gpu.example.com", pool="p", device="d")
    stamp = "2026-01-01T00:00:00Z"
    allocation = signed(Allocation(devices=DeviceAllocation(results=(device,))), stamp).to_json()
    patch = json.dumps({"status": {"allocation": {**allocation, "allocationTimestamp": stamp}}})
    write = ("patch", "resourceclaim", "announced", "-n", NAMESPACE, "--subresource=status", "--type=merge")
    kubectl(*write, "-p", patch)  # kubectl reads the status first, which our account may not
    assert is_ours(cast("ResourceClaim", read(json.loads(kubectl(*get)))))
    for name in ("announced", "dropped"):
        kubectl("delete", "resourceclaim", name, "-n", NAMESPACE, "--timeout=60s")


def test_pods_get_the_gate_and_lose_it_and_keep_their_image(kubectl: Kubectl):
    bare = placed(pod("p", "ours", gates=()))
    made = json.loads(kubectl("create", "-f", "-", "-o", "json", given=bare))
    assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == [GATE]

    def other_image(attempt: int) -> tuple[str, ...]:
        # A merge patch replaces the list: what the server has completed stays as it is.
        (main,) = made["spec"]["containers"]
        containers = [{**main, "image": f"example.com/evil:{attempt}"}]
        return patched("p", "pod", {"spec": {"containers": containers}})

    assert "dra-reconciler-pods" in kubectl.until_refused(other_image)
    kubectl(*patched("p", "pod", {"spec": {"schedulingGates": None}}))


def test_a_pod_that_two_policies_change_gets_one_claim_and_one_gate(kubectl: Kubectl):
    made = json.loads(kubectl("create", "-f", "-", "-o", "json", given=placed(asking("rewritten"))))["spec"]
    wanted = {"name": "main-gpu-nvidia-com", "resourceClaimTemplateName": "gpu.nvidia.com-2"}
    assert made["resourceClaims"] == [wanted]
    assert made["containers"][0]["resources"] == {"claims": [{"name": "main-gpu-nvidia-com"}]}
    assert made["schedulingGates"] == [{"name": GATE}]


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"nvidia.com/gpu": "2"}}, "Limit must be set"),
        ({"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}, "must be equal to"),
        ({"limits": {"nvidia.com/gpu": "1500m"}}, "must be an integer"),
    ],
    ids=str,
)
def test_requests_that_the_server_refuses_are_still_refused(kubectl: Kubectl, resources: Any, said: str):
    made = placed(asking("refused"))
    for part in ("containers", "initContainers"):
        one = {"name": part.lower(), "image": "example.com/i", "resources": resources}
        refused = {**made, "spec": {**made["spec"], part: [one]}}
        assert said in kubectl.run("create", "--dry-run=server", "-f", "-", given=refused).stderr


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(specs=st.lists(pod_specs(), min_size=10, max_size=30))
def test_the_server_rewrites_as_the_command_does(kubectl: Kubectl, specs: list[dict[str, Any]]):
    """Nothing is kept: the server answers what it would create."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"dry-{at}", "namespace": NAMESPACE},
            "spec": spec,
        }
        for at, spec in enumerate(specs)
    ]
    asked = {"apiVersion": "v1", "kind": "List", "items": pods}
    answer = kubectl("create", "--dry-run=server", "-f", "-", "-o", 'jsonpath={.spec}{"\\n"}', given=asked)
    for made, spec in zip(map(json.loads, answer.splitlines()), specs, strict=True):
        found = rewrite(spec, mapping([]), gate=True, where="Pod p")
        wanted = found.spec if found is not None else spec
        if wanted.get("resourceClaims"):  # by the other policy of this namespace
            gates = wanted.get("schedulingGates", [])
            wanted = {
                **wanted,
                "schedulingGates": [*(one for one in gates if one["name"] != GATE), {"name": GATE}],
            }
        assert comparable(made) == comparable(wanted)


def test_our_account_makes_templates_in_labelled_namespaces_alone_and_changes_none(kubectl: Kubectl):
    made = template("gpu.nvidia.com-2", 2)
    kubectl("create", "-f", "-", *AS, given=placed(made))
    refused = kubectl.run("create", "-f", "-", *AS, given=placed(made, "default"))
    assert "is not labelled dra-reconciler.io/rewrite-resources=true" in refused.stderr
    patch = json.dumps({"metadata": {"labels": {"a": "b"}}})
    ours = (
        "patch",
        "resourceclaimtemplate",
        "gpu.nvidia.com-2",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        patch,
    )
    assert "forbidden" in kubectl.run(*ours, *AS).stderr  # by the role: it has no such right


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("delete", "pods"), ("create", "pods"), ("delete", "resourceclaims"), ("get", "secrets"),
     ("list", "configmaps"), ("patch", "nodes"), ("update", "resourceslices")],
)  # fmt: skip
def test_what_is_not_granted_is_not_allowed(kubectl: Kubectl, verb: str, resource: str):
    answer = kubectl.run("auth", "can-i", verb, resource, "-n", NAMESPACE, *AS)
    assert answer.stdout.strip() == "no"
