"""The controllers of the embedded server: RCC-1 to RCC-8, and running pods."""

import pytest

from reconciler.embedded import ApiServer, run_controllers
from tests.tools.driving import (
    CLAIMS,
    FINALIZER,
    GATE,
    MERGE,
    PODS,
    STRATEGIC,
    TEMPLATES,
    UNGATE,
    allocation,
    call,
    claim,
    node,
    ok,
    pod,
    settle,
    wants,
    watch,
)


def allocate(api, name="c", **fields):
    """Write like an allocator: first the finalizer, then the allocation."""
    ok(api, "PATCH", f"{CLAIMS}/{name}", {"metadata": {"finalizers": [FINALIZER]}}, media=MERGE)
    status = {"status": {"allocation": allocation(**fields)}}
    ok(api, "PATCH", f"{CLAIMS}/{name}/status", status, media=MERGE)


def phase(api, name="p"):
    return ok(api, "GET", f"{PODS}/{name}")["status"]["phase"]


def state(api, name="c"):
    """Whether the claim is allocated, reserved, and has the finalizer."""
    found = ok(api, "GET", f"{CLAIMS}/{name}")
    status, finalizers = found["status"], found["metadata"].get("finalizers", [])
    return "allocation" in status, len(status.get("reservedFor", ())), FINALIZER in finalizers


@pytest.fixture
async def api():
    server = ApiServer()
    ok(server, "POST", "/api/v1/nodes", node())
    async with run_controllers(server):
        yield server


async def running_pod(api, name="p"):
    """A pod that runs with claim c."""
    if call(api, "GET", f"{CLAIMS}/c")[0] == 404:
        ok(api, "POST", CLAIMS, claim())
        allocate(api)
    ok(api, "POST", PODS, pod(name, resourceClaims=wants("gpu", resourceClaimName="c")))
    await settle(api)
    assert phase(api, name) == "Running"


async def test_a_gated_pod_gets_its_claim_from_the_template(api):
    asked = wants("gpu", resourceClaimTemplateName="t")
    ok(api, "POST", PODS, pod(schedulingGates=[GATE], resourceClaims=asked))
    await settle(api)
    assert ok(api, "GET", CLAIMS)["items"] == [], "the template is not there yet"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}
    ok(api, "POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": template})
    await settle(api)
    (made,) = ok(api, "GET", CLAIMS)["items"]
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert made["metadata"]["labels"] == {"a": "b"}
    found = ok(api, "GET", f"{PODS}/p")["status"]["resourceClaimStatuses"]
    assert found == [{"name": "gpu", "resourceClaimName": made["metadata"]["name"]}]


async def test_a_pod_starts_once_it_is_ungated_and_its_claim_allocated(api):
    """RCC-3: until then the allocation stays, though nobody has reserved it."""
    ok(api, "POST", CLAIMS, claim())
    ok(api, "POST", PODS, pod(schedulingGates=[GATE], resourceClaims=wants("gpu", resourceClaimName="c")))
    allocate(api)
    await settle(api)
    assert (phase(api), state(api)) == ("Pending", (True, 0, True))
    ok(api, "PATCH", f"{PODS}/p", UNGATE, media=STRATEGIC)
    await settle(api)
    assert (phase(api), state(api)) == ("Running", (True, 1, True))
    assert ok(api, "GET", f"{PODS}/p")["spec"]["nodeName"] == "node-1"


async def test_a_pod_without_gates_waits_for_its_claim_and_its_node():
    api = ApiServer()
    async with run_controllers(api):
        ok(api, "POST", PODS, pod(resourceClaims=wants("gpu", resourceClaimName="c")))
        ok(api, "POST", CLAIMS, claim())
        await settle(api)
        assert phase(api) == "Pending"
        allocate(api)
        await settle(api)
        assert (phase(api), state(api)) == ("Pending", (True, 0, True)), "no node, no reservation"
        ok(api, "POST", "/api/v1/nodes", node("node-0"))
        await settle(api)
        assert phase(api) == "Pending"
        ok(api, "POST", "/api/v1/nodes", node())
        await settle(api)
        assert phase(api) == "Running"


async def test_an_allocation_without_a_timestamp_cannot_be_used(api):
    """The real scheduler would add one when it reserves, and its write would always be refused."""
    ok(api, "POST", CLAIMS, claim())
    allocate(api, allocationTimestamp=None)
    ok(api, "POST", PODS, pod(resourceClaims=wants("gpu", resourceClaimName="c")))
    await settle(api)
    assert (phase(api), state(api)) == ("Pending", (True, 0, True))


async def test_the_last_reservation_removes_allocation_and_finalizer(api):
    """RCC-2, for deleted pods and for finished pods."""
    await running_pod(api, "p")
    await running_pod(api, "q")
    assert state(api) == (True, 2, True)
    ok(api, "DELETE", f"{PODS}/p")
    await settle(api)
    assert state(api) == (True, 1, True)
    ok(api, "PATCH", f"{PODS}/q/status", {"status": {"phase": "Failed"}}, media=MERGE)
    await settle(api)
    assert state(api) == (False, 0, False)


async def test_a_replaced_pod_does_not_keep_its_predecessors_reservation(api):
    await running_pod(api)
    old = ok(api, "GET", f"{PODS}/p")["metadata"]["uid"]
    ok(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    ok(api, "POST", PODS, pod(schedulingGates=[GATE], resourceClaims=wants("gpu", resourceClaimName="c")))
    await settle(api)
    assert ok(api, "GET", f"{PODS}/p")["metadata"]["uid"] != old
    assert state(api) == (False, 0, False)


async def test_without_the_finalizer_an_allocation_is_never_cleared(api):
    """RCC-4."""
    ok(api, "POST", CLAIMS, claim())
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": allocation()}}, media=MERGE)
    await running_pod(api)
    ok(api, "DELETE", f"{PODS}/p")
    await settle(api)
    assert state(api) == (True, 0, False)


async def test_a_claim_that_is_deleted_while_unreserved_goes(api):
    """RCC-5."""
    ok(api, "POST", CLAIMS, claim())
    allocate(api)
    ok(api, "DELETE", f"{CLAIMS}/c")
    await settle(api)
    assert call(api, "GET", f"{CLAIMS}/c")[0] == 404


async def test_a_claim_that_is_deleted_while_reserved_waits_for_its_pod(api):
    await running_pod(api)
    ok(api, "DELETE", f"{CLAIMS}/c")
    await settle(api)
    assert state(api) == (True, 1, True)
    ok(api, "DELETE", f"{PODS}/p")
    await settle(api)
    assert call(api, "GET", f"{CLAIMS}/c")[0] == 404


@pytest.mark.parametrize("end", ["deleted", "finished"])
async def test_a_generated_claim_is_deleted_with_its_pod(api, end):
    """RCC-6."""
    ok(api, "POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}})
    ok(api, "POST", PODS, pod(resourceClaims=wants("gpu", resourceClaimTemplateName="t")))
    await settle(api)
    (made,) = ok(api, "GET", CLAIMS)["items"]
    allocate(api, made["metadata"]["name"])
    await settle(api)
    assert phase(api) == "Running"
    if end == "deleted":
        ok(api, "DELETE", f"{PODS}/p")
    else:
        ok(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, media=MERGE)
    await settle(api)
    assert ok(api, "GET", CLAIMS)["items"] == []


async def test_a_pod_that_names_its_node_gets_its_reservation(api):
    """RCC-7."""
    ok(api, "POST", CLAIMS, claim())
    allocate(api)
    wanted = pod(nodeName="elsewhere", resourceClaims=wants("gpu", resourceClaimName="c"))
    ok(api, "POST", PODS, wanted)
    await settle(api)
    assert (phase(api), state(api)) == ("Running", (True, 1, True))


async def test_a_consumer_that_is_no_pod_keeps_the_allocation(api):
    """RCC-8."""
    ok(api, "POST", CLAIMS, claim())
    allocate(api)
    foreign = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u"}
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"reservedFor": [foreign]}}, media=MERGE)
    await running_pod(api)
    ok(api, "DELETE", f"{PODS}/p")
    await settle(api)
    assert state(api) == (True, 1, True)


async def test_a_pod_runs_for_its_annotated_seconds(api):
    wanted = pod()
    wanted["metadata"]["annotations"] = {"dra-reconciler.io/run-seconds": "30"}
    ok(api, "POST", PODS, wanted)
    phases = [
        event["object"]["status"]["phase"] async for event in watch(api, f"{PODS}/p", timeoutSeconds="60")
    ]
    assert phases == ["Pending", "Pending", "Running", "Succeeded"], "created, bound, started, ended"


async def test_objects_older_than_the_controllers_are_reconciled():
    api = ApiServer()
    ok(api, "POST", "/api/v1/nodes", node())
    ok(api, "POST", CLAIMS, claim())
    allocate(api)
    gone = {"resource": "pods", "name": "gone", "uid": "u"}
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"reservedFor": [gone]}}, media=MERGE)
    ok(api, "POST", PODS, pod())
    async with run_controllers(api):
        await settle(api)
    assert (phase(api), state(api)) == ("Running", (False, 0, False))


async def test_a_node_without_a_kubelet_is_ready(api):
    await settle(api)
    ok(api, "POST", "/api/v1/nodes", node("later"))
    await settle(api)
    for name in ("node-1", "later"):
        (condition,) = ok(api, "GET", f"/api/v1/nodes/{name}")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Ready", "True")


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
async def test_what_a_node_reports_is_left_alone(api, status):
    """Tests and drills take nodes down that way."""
    reported = {**node("n"), "status": {"conditions": [{"type": "Ready", "status": status}], "phase": "x"}}
    before = ok(api, "POST", "/api/v1/nodes", reported)
    await settle(api)
    assert ok(api, "GET", "/api/v1/nodes/n") == before


async def test_other_conditions_of_a_node_stay(api):
    pressure = {"type": "DiskPressure", "status": "False"}
    ok(api, "POST", "/api/v1/nodes", {**node("n"), "status": {"conditions": [None, pressure]}})
    await settle(api)
    conditions = ok(api, "GET", "/api/v1/nodes/n")["status"]["conditions"]
    assert [one and one["type"] for one in conditions] == [None, "DiskPressure", "Ready"]


async def test_controllers_start_over_after_compaction():
    api = ApiServer(history=2)
    ok(api, "POST", "/api/v1/nodes", node())
    async with run_controllers(api):
        for i in range(20):
            ok(api, "POST", PODS, pod(f"p{i}"))
        await settle(api)
    assert {item["status"]["phase"] for item in ok(api, "GET", PODS)["items"]} == {"Running"}


SELECTORS = {
    "a label": ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "5"]}]}, True),
    "another value": ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, False),
    "not a value": ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
    "present": ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
    "absent": ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    "greater": ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["4"]}]}, True),
    "less": ({"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["4"]}]}, False),
    "both must hold": (
        {
            "matchExpressions": [{"key": "a", "operator": "Exists"}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}],
        },
        False,
    ),
    "an empty term matches nothing": ({}, False),
}


ZONES = {"n1": "a", "n2": "a", "n3": "b"}


def near(kind, **term):
    required = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [required]}}


HOST = {"topologyKey": "kubernetes.io/hostname"}
APART, TOGETHER = near("podAntiAffinity"), near("podAffinity")


@pytest.mark.parametrize(
    ("first", "second", "nodes"),
    [
        pytest.param({}, near("podAntiAffinity", **HOST), ("n1", "n2"), id="another node"),
        pytest.param(near("podAntiAffinity", **HOST), {}, ("n1", "n2"), id="the one that runs says so"),
        pytest.param({}, APART, ("n1", "n3"), id="another zone"),
        pytest.param(APART, APART, ("n1", "n3"), id="both"),
        pytest.param(TOGETHER, TOGETHER, ("n1", "n1"), id="together, the first alone"),
        pytest.param(
            {},
            near("podAffinity", labelSelector={"matchLabels": {"app": "y"}}),
            ("n1", None),
            id="with nobody",
        ),
        pytest.param({}, near("podAntiAffinity", namespaces=["other"]), ("n1", "n1"), id="another namespace"),
        pytest.param({}, near("podAntiAffinity", namespaceSelector={}), ("n1", "n3"), id="all namespaces"),
    ],
)
async def test_pods_are_bound_as_required_affinity_says(first, second, nodes):
    """A pod that fits nowhere is bound when another one leaves."""
    api = ApiServer()
    for name, zone in ZONES.items():
        labels = {"zone": zone, "kubernetes.io/hostname": name}
        ok(api, "POST", "/api/v1/nodes", node(name, labels=labels))
    async with run_controllers(api):
        for name, affinity in (("p1", first), ("p2", second)):
            made = pod(name, affinity=affinity)
            made["metadata"]["labels"] = {"app": "x"}
            ok(api, "POST", PODS, made)
            await settle(api)
        found = [ok(api, "GET", f"{PODS}/{name}")["spec"].get("nodeName") for name in ("p1", "p2")]
        assert found == list(nodes)


async def test_a_pod_that_is_kept_away_is_bound_when_the_other_one_leaves():
    api = ApiServer()
    ok(api, "POST", "/api/v1/nodes", node("n1", labels={"zone": "a"}))
    async with run_controllers(api):
        for name in ("p1", "p2"):
            made = pod(name, affinity=APART)
            made["metadata"]["labels"] = {"app": "x"}
            ok(api, "POST", PODS, made)
        await settle(api)
        assert "nodeName" not in ok(api, "GET", f"{PODS}/p2")["spec"]
        ok(api, "DELETE", f"{PODS}/p1")
        await settle(api)
        assert ok(api, "GET", f"{PODS}/p2")["spec"]["nodeName"] == "n1"


def scheduled(api: ApiServer, name: str = "p") -> tuple[str | None, ...]:
    """What the condition says of a pod."""
    conditions = ok(api, "GET", f"{PODS}/{name}")["status"].get("conditions", [])
    found = [one for one in conditions if one["type"] == "PodScheduled"]
    assert len(found) < 2
    return tuple(found[0].get(key) for key in ("status", "reason", "message")) if found else ()


async def test_a_pod_that_fits_no_node_says_so_as_kube_scheduler_does():
    api = ApiServer()
    async with run_controllers(api):
        first = pod("p0", affinity=APART)
        first["metadata"]["labels"] = {"app": "x"}
        ok(api, "POST", "/api/v1/nodes", node("n0", labels={"zone": "a", "disk": "ssd"}))
        ok(api, "POST", PODS, first)
        await settle(api)
        second = pod(nodeSelector={"disk": "ssd"})
        second["metadata"]["labels"] = {"app": "x"}
        ok(api, "POST", PODS, second)
        ok(api, "POST", "/api/v1/nodes", {**node("n1"), "spec": {"unschedulable": True}})
        ok(api, "POST", "/api/v1/nodes", node("n2"))
        ok(api, "POST", "/api/v1/nodes", node("n3"))
        await settle(api)
        message = (
            "0/4 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, "
            "1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
        )
        assert scheduled(api) == ("False", "Unschedulable", message)
        version = ok(api, "GET", f"{PODS}/p")["metadata"]["resourceVersion"]
        ok(api, "POST", PODS, pod("other", nodeSelector={"disk": "none"}))
        await settle(api)
        assert ok(api, "GET", f"{PODS}/p")["metadata"]["resourceVersion"] == version, "nothing new to say"
        ok(api, "DELETE", f"{PODS}/p0")
        await settle(api)
        assert scheduled(api) == ("True", None, None)


async def test_a_pod_waits_for_nodes_and_for_the_node_of_its_allocation():
    api = ApiServer()
    async with run_controllers(api):
        ok(api, "POST", PODS, pod(resourceClaims=wants("gpu", resourceClaimName="c")))
        ok(api, "POST", CLAIMS, claim())
        await settle(api)
        assert scheduled(api) == ()
        allocate(api)
        await settle(api)
        assert scheduled(api) == ("False", "Unschedulable", "no nodes available to schedule pods")
        ok(api, "POST", "/api/v1/nodes", node("node-0"))
        await settle(api)
        message = "0/1 nodes are available: 1 resourceclaim not available on the node."
        assert scheduled(api) == ("False", "Unschedulable", message)


@pytest.mark.parametrize(("term", "fits"), SELECTORS.values(), ids=SELECTORS.keys())
async def test_a_pod_is_bound_to_the_node_of_its_allocation(term, fits):
    api = ApiServer()
    ok(api, "POST", "/api/v1/nodes", node(labels={"a": "5"}))
    ok(api, "POST", CLAIMS, claim())
    allocate(api, nodeSelector={"nodeSelectorTerms": [term]})
    ok(api, "POST", PODS, pod(resourceClaims=wants("gpu", resourceClaimName="c")))
    async with run_controllers(api):
        await settle(api)
    assert phase(api) == ("Running" if fits else "Pending")
