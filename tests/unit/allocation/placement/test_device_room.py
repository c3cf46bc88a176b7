"""Devices that take of their node's own resources (NAR-1 to NAR-6), against a naive twin."""

import json
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import pytest
from click.testing import CliRunner
from hypothesis import event, given

from reconciler.allocation.placement.device_room import backed_resources
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import Seat, SetFit, question_in
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin, of_text
from reconciler.api.objects.core import Pod
from reconciler.api.objects.semantics import ALL_GATES, EXTENDED_RESOURCES, Semantics
from reconciler.api.versions.reading import read
from reconciler.cli import main
from reconciler.control.offline import Report, decide
from tests.tools import builders
from tests.tools.allocation_world import without
from tests.tools.builders import device_class, snapshot
from tests.tools.checkout import SHARED, needs
from tests.tools.device_room_twin import RESOURCES, Object, by_node, device_of, taken, world
from tests.tools.examples import examples
from tests.tools.naive_rules import exact

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}


def decided(*objects: Object, rules: Semantics | None = None) -> Report:
    found = bundle(of_text("f.yaml", "\n---\n".join(map(json.dumps, (CLASS, *objects)))))
    assert not found.refused
    return decide(found, rules or Semantics())


def allocations(report: Report) -> dict[str, tuple[str, list[Any]]]:
    """Claim -> node and results as JSON."""
    return {
        plan.claim.name: (plan.node, [one.to_json() for one in plan.allocation.devices.results])
        for granted in report.granted
        for plan in granted.plans
    }


@examples(300)
@given(st.integers(0, 10**9))
def test_no_node_gives_more_than_it_has(seed: int):
    nodes, slices, claims, pods = world(seed)
    report = decided(*nodes, *slices, *claims, *pods)
    for node in nodes:
        used = dict.fromkeys(RESOURCES, Fraction(0))
        bound = dict.fromkeys(RESOURCES, Fraction(0))
        for pod in pods:
            for name, takes in by_node([pod], allocations(report), slices):
                if name == node["metadata"]["name"]:
                    for resource in RESOURCES:
                        used[resource] += takes[resource]
                        bound[resource] += takes[resource] if "nodeName" in pod["spec"] else 0
        for resource in RESOURCES:
            offered = exact(node["status"]["allocatable"][resource])
            # Pods that run already may exceed it alone: nothing more is given then.
            assert used[resource] <= max(offered, bound[resource]), resource
    event(", ".join(sorted({str(getattr(a.outcome, "reason", "granted")) for a in report.answers})) or "none")


def node(cpu: str = "8") -> Object:
    status = {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "50"}}
    return builders.node("w1") | {"status": status}


def slice_of(*devices: Object) -> Object:
    return builders.resource_slice("s", devices, driver="d.example", pool="w1", nodeName="w1")


def claim(name: str, **wants: Any) -> Object:
    return builders.claim(name, {"name": "r", "exactly": {"deviceClassName": "any", **wants}})


def pod(name: str, *claims: str, cpu: str = "0", on: str = "", **spec: Any) -> Object:
    refers = [{"name": one} for one in claims]
    resources = {"requests": {"cpu": cpu}, "claims": refers}
    made: Object = {"containers": [{"name": "k", "image": "x", "resources": resources}], **spec}
    if claims:
        made["resourceClaims"] = [{"name": one, "resourceClaimName": one} for one in claims]
        made["schedulingGates"] = [{"name": "dra-reconciler.io/allocation"}]
    if on:
        made["nodeName"] = on
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


def device(name: str, **uses: Object) -> Object:
    return {"name": name, "nodeAllocatableResources": uses}


def mapped(cpus: str) -> Object:
    return {"mapping": {"deviceMultiplier": cpus}}


def given_to(report: Report) -> dict[str, list[str]]:
    return {name: [one["device"] for one in results] for name, (_, results) in allocations(report).items()}


def test_the_claim_is_charged_once_however_many_containers_refer_to_it():
    containers = [
        {"name": f"k{at}", "image": "x", "resources": {"claims": [{"name": "c"}]}} for at in range(3)
    ]
    world_of = (node("8"), slice_of(device("A", cpu=mapped("8"))), claim("c"))
    assert given_to(decided(*world_of, pod("p", "c", containers=containers))) == {"c": ["A"]}


def test_an_allocated_claim_without_a_pod_takes_nothing():
    """NAR-1, as for kube-scheduler, which counts the requests of pods."""
    held = builders.held("h", builders.hold("A", driver="d.example", pool="w1"))
    objects = (node("8"), slice_of(device("A", cpu=mapped("6")), device("B", cpu=mapped("6"))), held)
    assert given_to(decided(*objects, claim("c"), pod("p", "c"))) == {"c": ["B"]}
    user = pod("user", "h", on="w1")
    assert given_to(decided(*objects, user, claim("c"), pod("p", "c"))) == {}


def test_overhead_is_charged_for_the_pod_and_for_each_container_that_refers_to_the_claim():
    uses = {"overhead": {"perPod": "2", "perContainer": "1"}}
    objects = slice_of(device("A", cpu=uses)), claim("c"), pod("p", "c", cpu="1")
    assert given_to(decided(node("4"), *objects)) == {"c": ["A"]}
    assert given_to(decided(node("3"), *objects)) == {}


def test_other_devices_of_the_node_are_tried():
    """Unlike kube-scheduler, which tests the first choice alone (NAR-6)."""
    devices = slice_of(device("A", cpu=mapped("6")), device("B", cpu=mapped("2")))
    report = decided(node(), devices, claim("c"), pod("p", "c", cpu="4"))
    assert given_to(report) == {"c": ["B"]}


def test_pods_cannot_share_a_claim_of_devices_that_stand_for_resources():
    objects = node(), slice_of(device("A", cpu=mapped("1"))), claim("c")
    report = decided(*objects, pod("p", "c"), pod("q", "c"))
    assert given_to(report) == {}
    assert "only one pod may use the claim" in report.waiting[0].message


def test_pods_may_share_a_claim_of_devices_with_overhead():
    objects = node(), slice_of(device("A", cpu={"overhead": {"perPod": "1"}})), claim("c")
    assert given_to(decided(*objects, pod("p", "c"), pod("q", "c"))) == {"c": ["A"]}


def test_the_status_of_a_pod_counts_as_kube_scheduler_wrote_it():
    running = pod("busy", on="w1", cpu="1")
    running["status"] = {
        "phase": "Running",
        "nodeAllocatableResourceClaimStatuses": [
            {
                "resourceClaimName": "special",
                "containers": ["k"],
                "mapping": [{"name": "cpu", "quantity": "3"}],
                "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "500m"}],
            }
        ],
    }
    objects = node(), slice_of(device("A", cpu=mapped("3"))), claim("c"), pod("p", "c"), running
    (refused,) = decided(*objects).waiting
    assert refused.message == "node w1: 8 CPUs, 5.5 requested, 3 by devices"
    assert given_to(decided(*objects, rules=without("DRANodeAllocatableResources"))) == {"c": ["A"]}


def test_what_the_pod_requests_as_a_whole_has_to_cover_its_devices():
    objects = node(), slice_of(device("A", cpu=mapped("3"))), claim("c")
    whole: Object = {"resources": {"requests": {"cpu": "2"}}}
    (refused,) = decided(*objects, pod("p", "c", **whole)).waiting
    assert "the pod as a whole requests less cpu than its containers and devices need" in refused.message
    whole = {"resources": {"requests": {"cpu": "3"}}}
    assert given_to(decided(*objects, pod("p", "c", **whole))) == {"c": ["A"]}


def test_a_capacity_of_a_device_that_is_not_shared_is_refused():
    """kube-scheduler refuses every pod with such a device, since no claim consumes anything of it."""
    uses = {"mapping": {"capacityKey": "cpus", "capacityMultiplier": "1"}}
    one = {**device("A", cpu=uses), "capacity": {"cpus": {"value": "2"}}}
    (refused,) = decided(node(), slice_of(one), claim("c"), pod("p", "c")).waiting
    assert "does not allow multiple allocations" in refused.message


@needs(SHARED / "found")
@pytest.mark.parametrize("gates", [(), ("--feature-gates", "DRANodeAllocatableResources=false")])
def test_eight_cpus_do_not_serve_a_pod_of_four_and_a_device_of_six(gates: tuple[str, ...]):
    path = str(SHARED / "found" / "node-allocatable-device.yaml")
    result = CliRunner().invoke(main, ["allocate", "-f", path, *gates])
    if gates:
        assert "1 claim allocated" in result.stdout
    else:
        assert "node w1: 8 CPUs, 4 requested, 6 by devices, 1 by the pod itself" in result.stdout


def asked_of(pod: Object, claims: list[Object], count: int) -> list[Object]:
    """A FitRequest for pods like this one, each with claims of its own."""
    templates = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": one["metadata"]["name"], "namespace": "default"},
            "spec": {"spec": one["spec"]},
        }
        for one in claims
    ]
    entries = [
        {"name": one["name"], "resourceClaimTemplateName": one["name"]}
        for one in pod["spec"]["resourceClaims"]
    ]
    template = {"spec": {**pod["spec"], "resourceClaims": entries}}
    asked = {"name": "s", "namespace": "default", "count": count, "template": template}
    return [
        {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest", "podSets": [asked]},
        *templates,
    ]


def fits(asked: list[Object], *objects: Object, rules: Semantics | None = None) -> SetFit:
    question = question_in(bundle([Document(Origin("test"), one) for one in asked]))
    with world_of(map(read, (CLASS, *objects)), rules or Semantics()).trial() as trial:
        (found,) = fit(question, trial).sets
    return found


def results_of(claims: list[Object], seat: Seat, slices: list[Object]) -> dict[str, list[Object]]:
    """Claim -> its results with the capacity that they consume, by the devices of a seat in order."""
    found: dict[str, list[Object]] = {}
    given = iter(seat.devices)
    for one in claims:
        exactly = one["spec"]["devices"]["requests"][0]["exactly"]
        found[one["metadata"]["name"]] = results = []
        for _ in range(exactly.get("count", 1)):
            result: Object = next(given)._asdict()
            if device_of(slices, result).get("allowMultipleAllocations"):
                asked = exactly.get("capacity", {}).get("requests", {}).get("cpus", "1")
                result["consumedCapacity"] = {"cpus": asked}
            results.append(result)
    return found


@examples(200)
@given(st.integers(0, 10**9), st.integers(1, 6))
def test_no_more_pods_are_said_to_fit_than_nodes_have_room_for(seed: int, count: int):
    nodes, slices, claims, pods = world(seed)
    one = next((one for one in pods if one["spec"].get("resourceClaims")), None)
    if one is None:
        return
    names = {entry["name"] for entry in one["spec"]["resourceClaims"]}
    own = [claim for claim in claims if claim["metadata"]["name"] in names]
    for claim in own:
        request = claim["spec"]["devices"]["requests"][0]
        request["exactly"] = next(iter(request.pop("firstAvailable", ())), None) or request["exactly"]
        request["exactly"].pop("name", None)
    running = [one for one in pods if "nodeName" in one["spec"]]
    found = fits(asked_of(one, own, count), *nodes, *slices, *running)
    assert bool(found.seats) == bool(decided(*nodes, *slices, *own, *running, one).granted)
    for node in nodes:
        name = node["metadata"]["name"]
        bound = [taken(pod, {}, slices) for pod in running if pod["spec"]["nodeName"] == name]
        takes = [
            taken(one, results_of(own, seat, slices), slices) for seat in found.seats if seat.node == name
        ]
        for resource in RESOURCES:
            used = sum((part[resource] for part in (*bound, *takes)), Fraction(0))
            assert not takes or used <= exact(node["status"]["allocatable"][resource]), resource
    event(f"{len(found.seats)} of {count}")


@pytest.mark.parametrize(("gate", "fit_"), [(True, 2), (False, 4)])
def test_pods_that_are_only_asked_about_count_with_their_devices(gate: bool, fit_: int):
    pool = {
        **device("A", cpu={"mapping": {"capacityKey": "cpus", "capacityMultiplier": "1"}}),
        "allowMultipleAllocations": True,
        "capacity": {"cpus": {"value": "8", "requestPolicy": {"default": "1"}}},
    }
    objects = node(), slice_of(pool), pod("busy", on="w1", cpu="4")
    rules = Semantics() if gate else without("DRANodeAllocatableResources")
    assert fits(asked_of(pod("s", "c", cpu="1"), [claim("c")], 9), *objects, rules=rules).fits == fit_


# -- Resources that kube-scheduler turns into claims where a node does not offer them.


PREFIX = "deviceclass.resource.kubernetes.io/"


def classes() -> list[Object]:
    """A class that names the resource it backs, and one that does not."""
    naming = device_class("gpu")
    naming["spec"]["extendedResourceName"] = "example.com/gpu"
    return [naming, device_class("plain")]


def requesting(*resources: str) -> Pod:
    container = {"name": "c", "resources": {"requests": dict.fromkeys(resources, "1")}}
    metadata, spec = {"name": "p", "namespace": "default"}, {"containers": [container]}
    pod = read({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert isinstance(pod, Pod)
    return pod


def test_a_class_backs_the_resource_it_names_and_the_one_named_after_it():
    """EXT-1."""
    pod = requesting("cpu", "example.com/gpu", f"{PREFIX}plain", f"{PREFIX}absent", "example.com/other")
    assert backed_resources(snapshot(*classes()), pod) == {"example.com/gpu", f"{PREFIX}plain"}
    off = Semantics(gates=ALL_GATES - {EXTENDED_RESOURCES})
    assert backed_resources(snapshot(*classes(), rules=off), pod) == frozenset()
