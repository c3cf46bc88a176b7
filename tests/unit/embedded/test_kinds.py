"""What single kinds have of their own: devices of Koordinator, pods, services, budgets and PodGroups."""

from typing import Any

import pytest

from reconciler.api.validation.served_kinds import POD_GROUP
from reconciler.embedded import ApiServer
from tests.tools import small_fleet
from tests.tools.driving import MERGE, PODS, call, causes, ok, pod, refused, take
from tests.tools.gangs import child_of, composite_group, coscheduling_group, pod_group
from tests.tools.small_fleet import pod as gated_pod

DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
STRATEGIC = "application/strategic-merge-patch+json"
TOPOLOGY = {"socketID": -1, "nodeID": 0, "pcieID": "a"}


def device(name: str = "node-1", **fields: Any) -> dict[str, Any]:
    entry = {"type": "gpu", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": [{**entry, **fields}]},
    }


def test_discovery_offers_one_object_a_node_without_namespaces():
    (entry, status) = ok(ApiServer(), "GET", DEVICES.rpartition("/")[0])["resources"]
    assert (entry["name"], entry["kind"], entry["namespaced"]) == ("devices", "Device", False)
    assert status["name"] == "devices/status"


def test_a_device_is_made_read_changed_watched_and_deleted():
    api = ApiServer()
    made = ok(api, "POST", DEVICES, device(topology=TOPOLOGY))
    assert made["metadata"]["generation"] == 1
    patch: dict[str, Any] = {"spec": {"devices": []}}
    assert ok(api, "PATCH", f"{DEVICES}/node-1", patch, media=MERGE)["metadata"]["generation"] == 2
    assert [item["metadata"]["name"] for item in ok(api, "GET", DEVICES)["items"]] == ["node-1"]
    assert ok(api, "DELETE", f"{DEVICES}/node-1")["kind"] == "Status"
    assert refused(api, "GET", f"{DEVICES}/node-1") == (404, "NotFound")


async def test_a_watch_reports_devices():
    api = ApiServer()
    ok(api, "POST", DEVICES, device())
    assert await take(api, 1, DEVICES) == [("ADDED", "node-1")]


def test_a_device_of_unknown_health_is_not_healthy():
    raw = device()
    del raw["spec"]["devices"][0]["health"]
    assert ok(ApiServer(), "POST", DEVICES, raw)["spec"]["devices"][0]["health"] is False


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "tpu"}, "spec.devices[0].type"),
        ({"minor": 2**31}, "spec.devices[0].minor"),
        ({"topology": {"socketID": 0, "nodeID": 0}}, "spec.devices[0].topology.pcieID"),
        ({"vfGroups": [{"vfs": [{"busID": "0000:01:00.1"}]}]}, "spec.devices[0].vfGroups[0].vfs[0].minor"),
    ],
)
def test_what_the_definition_requires_is_required(fields: dict[str, Any], field: str):
    assert [path for path, _ in causes(ApiServer(), "POST", DEVICES, device(**fields))] == [field]


def test_a_custom_resource_is_never_replaced_blindly_nor_merged_by_keys():
    api = ApiServer()
    ok(api, "POST", DEVICES, device())
    assert refused(api, "PUT", f"{DEVICES}/node-1", device())[0] == 422
    assert call(api, "PATCH", f"{DEVICES}/node-1", {}, media=STRATEGIC)[0] == 415


def test_a_term_that_matches_no_node_stays_one_while_a_pod_is_gated():
    """As on a real server: an addition to an empty term would add nodes to the selection."""
    api = ApiServer()

    def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return {"nodeAffinity": required}

    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    ok(api, "POST", PODS, pod(schedulingGates=[{"name": "example.com/g"}], affinity=affinity({}, zone)))
    both = {"spec": {"affinity": affinity(here, {**zone, **here})}}
    assert causes(api, "PATCH", f"{PODS}/p", both, media=MERGE)[0][0] == "spec.affinity"
    one = {"spec": {"affinity": affinity({}, {**zone, **here})}}
    ok(api, "PATCH", f"{PODS}/p", one, media=MERGE)


GPU, OWN = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"


def asking(part: str, resources: Any) -> Any:
    made = gated_pod("p", gates=())
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
    # A wrong limit is a wrong request too, which defaults to it.
    assert found[0] == (f"spec.{part}[0].resources.{field}", reason)
    assert len(found) == 1 or "requests" not in resources


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


SERVICES = "/api/v1/namespaces/default/services"


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


def test_a_service_has_a_type_and_protocols():
    spec = ok(ApiServer(), "POST", SERVICES, service())["spec"]
    assert spec == {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}


def test_the_columns_of_services():
    api = ApiServer()
    ok(
        api,
        "POST",
        SERVICES,
        service(clusterIP="None", ports=[{"port": 80}, {"port": 53, "protocol": "UDP"}]),
    )
    table = ok(api, "GET", SERVICES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:5] == ["s", "ClusterIP", "None", "<none>", "80/TCP,53/UDP"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ports": []}, "spec.ports"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port"),
        ({"ports": [{"port": 80, "protocol": "x"}]}, "spec.ports[0].protocol"),
        ({"type": "x"}, "spec.type"),
    ],
)
def test_a_service_that_is_wrong(spec, field):
    assert [where for where, _ in causes(ApiServer(), "POST", SERVICES, service(**spec))] == [field]


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "a.b"}])
def test_services_that_need_no_ports(spec):
    ok(ApiServer(), "POST", SERVICES, service(ports=[], **spec))


@pytest.mark.parametrize("part", ["log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers"])
def test_what_needs_a_kubelet_says_that_it_is_not_served(part):
    api = ApiServer()
    assert refused(api, "GET", f"{PODS}/p/{part}") == (404, "NotFound")
    ok(api, "POST", PODS, pod())
    code, body = call(api, "GET", f"{PODS}/p/{part}")
    assert (code, body["message"]) == (501, f"pods/{part} is not served: no pod has real containers here")


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def budget(**spec: Any) -> dict[str, Any]:
    return small_fleet.budget("b", selector={"matchLabels": {"app": "a"}}, **spec)


def test_the_status_is_written_apart_from_the_spec():
    api = ApiServer()
    ok(api, "POST", BUDGETS, budget(maxUnavailable="50%"))
    ok(api, "PATCH", f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 2}}, media=MERGE)
    found = ok(api, "PATCH", f"{BUDGETS}/b", {"status": {"disruptionsAllowed": 9}}, media=MERGE)
    assert found["status"] == {"disruptionsAllowed": 2}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"maxUnavailable": "half"}, "spec.maxUnavailable"),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable"),
        ({"unhealthyPodEvictionPolicy": "Never"}, "spec.unhealthyPodEvictionPolicy"),
    ],
)
def test_limits_that_mean_nothing_are_refused(spec: dict[str, Any], field: str):
    assert [path for path, _ in causes(ApiServer(), "POST", BUDGETS, budget(**spec))] == [field]


def evict(api: ApiServer, **fields: Any) -> tuple[int, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, **fields}
    return call(api, "POST", f"{PODS}/p/eviction", body)


def with_pod(phase: str = "Running") -> ApiServer:
    """A server with a pod that the budget covers."""
    api, made = ApiServer(), gated_pod("p", gates=())
    made["metadata"]["labels"] = {"app": "a"}
    ok(api, "POST", PODS, made)
    ok(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": phase}}, media=MERGE)
    return api


def test_an_eviction_counts_for_the_budget():
    api = with_pod()
    ok(api, "POST", BUDGETS, budget())
    status, body = evict(api)
    assert (status, body["reason"]) == (429, "TooManyRequests")
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    ok(api, "PATCH", f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1}}, media=MERGE)
    assert evict(api, deleteOptions={"dryRun": ["All"]})[0] == 201
    assert evict(api)[0] == 201
    assert call(api, "GET", f"{PODS}/p")[0] == 404
    found = ok(api, "GET", f"{BUDGETS}/b")["status"]
    assert (found["disruptionsAllowed"], list(found["disruptedPods"])) == (0, ["p"])


def test_a_budget_may_always_allow_to_evict_a_pod_that_is_not_ready():
    api, made = with_pod(), budget()
    made["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    ok(api, "POST", BUDGETS, made)
    for ready, expected in (("True", 429), ("False", 201)):
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        ok(api, "PATCH", f"{PODS}/p/status", {"status": status}, media=MERGE)
        assert evict(api)[0] == expected


def test_a_pod_that_does_not_run_counts_for_no_budget():
    api = with_pod("Pending")
    ok(api, "POST", BUDGETS, budget())
    assert evict(api)[0] == 201


def test_a_pod_of_several_budgets_cannot_be_evicted():
    api = with_pod()
    for name in ("b", "c"):
        ok(api, "POST", BUDGETS, {**budget(), "metadata": {"name": name}})
    assert evict(api)[0] == 500


def test_without_a_budget_a_pod_is_evicted_and_one_that_is_gone_is_not_found():
    api = with_pod()
    assert evict(api, deleteOptions={"preconditions": {"uid": "x"}})[0] == 409
    assert evict(api)[0] == 201
    assert evict(api)[0] == 404
    assert call(api, "GET", f"{PODS}/p/eviction")[0] == 405


def test_kubectl_drain_sends_protobuf():
    api, media = with_pod(), "application/vnd.kubernetes.protobuf"
    body = b"k8s\x00\n\x15\n\tpolicy/v1\x12\x08Eviction\x12\x0b\n\x03\n\x01p\x12\x04\x12\x02\n\x00"
    assert call(api, "POST", f"{PODS}/p/eviction", body, media=media)[0] == 201


GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
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
        ({"disruptionMode": {"all": {}, "single": {}}}, "spec.disruptionMode"),
        ({"preemptionPolicy": "Sometimes"}, "spec.preemptionPolicy"),
        ({"priority": 2_000_000_000}, "spec.priority"),
        ({"priorityClassName": "No name"}, "spec.priorityClassName"),
        ({"workloadRef": {"workloadName": "w", "templateName": "a.b"}}, "spec.workloadRef.templateName"),
    ],
)
def test_a_spec_that_means_nothing_is_refused(parts: dict[str, Any], field: str):
    assert field in [path for path, _ in causes(ApiServer(), "POST", GROUPS, spec(**parts))]


def test_of_a_spec_only_the_minimum_may_change():
    api = ApiServer()
    ok(api, "POST", GROUPS, spec(priority=3))
    patch: dict[str, Any] = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    told = ok(api, "PATCH", f"{GROUPS}/g", patch, media=MERGE)["spec"]["schedulingPolicy"]
    assert told == {"gang": {"minCount": 3}}
    for part, field in (
        ({"priority": 4}, "spec.priority"),
        ({"resourceClaims": None}, "spec.resourceClaims"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingPolicy": {"basic": {}, "gang": None}}, "spec.schedulingPolicy"),
    ):
        found = causes(api, "PATCH", f"{GROUPS}/g", {"spec": part}, media=MERGE)
        assert [path for path, _ in found] == [field]


TREES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"


def test_of_a_group_of_groups_nothing_may_change():
    api = ApiServer()
    ok(api, "POST", TREES, composite_group(topology="block"))
    patch = {"spec": {"schedulingPolicy": {"gang": {"minGroupCount": 3}}}}
    found = causes(api, "PATCH", f"{TREES}/tree", patch, media=MERGE)
    assert [path for path, _ in found] == ["spec.schedulingPolicy"]
    ok(api, "PATCH", f"{TREES}/tree/status", {"status": {"conditions": []}}, media=MERGE)


def test_a_group_in_a_tree_names_its_workload():
    for path, made in ((GROUPS, child_of("tree", spec())), (TREES, composite_group())):
        ok(ApiServer(), "POST", path, made)
        del made["spec"]["workloadRef"]
        assert [field for field, _ in causes(ApiServer(), "POST", path, made)] == ["spec.workloadRef"]
    made = composite_group(least=0)
    found = [field for field, _ in causes(ApiServer(), "POST", TREES, made)]
    assert found == ["spec.schedulingPolicy.gang.minGroupCount"]


OLDEST = GROUPS.replace("v1beta1", "v1alpha2")


def test_a_group_is_shown_in_the_shape_of_each_version():
    api = ApiServer()
    made = spec(disruptionMode={"all": {}}, workloadRef={"workloadName": "w", "templateName": "t"})
    ok(api, "POST", GROUPS, made)
    assert ok(api, "GET", f"{GROUPS.replace('v1beta1', 'v1alpha3')}/g")["spec"] == made["spec"]
    api = ApiServer(release=36)
    api.create(POD_GROUP, "default", made)
    old = ok(api, "GET", f"{OLDEST}/g")
    assert old["spec"]["disruptionMode"] == "PodGroup"
    found = old["spec"]["podGroupTemplateRef"]
    assert found == {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    ok(api, "DELETE", f"{OLDEST}/g")
    ok(api, "POST", OLDEST, {**old, "metadata": made["metadata"]})
    (stored,) = api.store[POD_GROUP].scan("")
    assert stored.object["spec"] == made["spec"]


WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"


def workload(*names: str, least: int = 2, kind: str = "podGroupTemplates") -> dict[str, Any]:
    templates = [{"name": name, "schedulingPolicy": {"gang": {"minCount": least}}} for name in names]
    return {"kind": "Workload", "metadata": {"name": "w"}, "spec": {kind: templates}}


def test_of_a_workload_only_the_minimum_of_its_templates_may_change():
    api = ApiServer()
    ok(api, "POST", WORKLOADS, workload("a", "b"))
    ok(api, "PUT", f"{WORKLOADS}/w", workload("a", "b", least=3))
    found = causes(api, "PUT", f"{WORKLOADS}/w", workload("a"))
    assert found == [("spec.podGroupTemplates", "FieldValueInvalid")]
    told = causes(ApiServer(), "POST", WORKLOADS, workload("a", "a"))
    assert told == [("spec.podGroupTemplates[1].name", "FieldValueDuplicate")]


def test_templates_of_groups_of_groups_nest_four_levels():
    made = workload("leaf")
    for number in range(4):
        template = {"name": f"t{number}", "schedulingPolicy": {"basic": {}}, **made["spec"]}
        made = {**made, "spec": {"compositePodGroupTemplates": [template]}}
        if number == 2:
            ok(ApiServer(), "POST", WORKLOADS, made)
    assert [reason for _, reason in causes(ApiServer(), "POST", WORKLOADS, made)] == ["FieldValueInvalid"]


def test_a_coscheduling_group_needs_a_positive_minimum():
    found = causes(ApiServer(), "POST", COSCHEDULING, coscheduling_group(least=0))
    assert found == [("spec.minMember", "FieldValueInvalid")]


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "whole", "expected"),
    [
        ([{}], {}, "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}}], {}, "BestEffort"),
        ([{"requests": {"cpu": "0"}}], {}, "BestEffort"),
        ([{"requests": FULL}], {}, "Burstable"),
        ([{"limits": {"cpu": "1"}}], {}, "Burstable"),
        ([{"limits": FULL}, {}], {}, "Burstable"),
        ([{"limits": FULL, "requests": {"cpu": "500m"}}], {}, "Burstable"),
        ([{"limits": FULL}, {"limits": FULL, "requests": {"cpu": "1000m"}}], {}, "Guaranteed"),
        ([{}], {"limits": FULL}, "Guaranteed"),
    ],
)
def test_a_pod_has_the_class_of_its_resources(containers: list[Any], whole: Any, expected: str):
    made = [{"name": f"c{at}", "image": "i", "resources": one} for at, one in enumerate(containers)]
    body = pod(containers=made, **({"resources": whole} if whole else {}))
    assert ok(ApiServer(), "POST", PODS, body)["status"]["qosClass"] == expected
