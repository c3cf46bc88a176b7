"""Validation of claims, their status, and pods, at creation and update (CLM-*, ST-*)."""

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import (
    CLAIMS,
    MERGE,
    PODS,
    STRATEGIC,
    allocation,
    causes,
    claim,
    ok,
    pod,
    problems,
    refused,
)

R, C = "spec.devices.requests[0]", "spec.devices.constraints[0]"
SHARE = "0b9cd83f-05c9-44e2-8959-92f3d84b219e"


def devices(requests, **fields):
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **fields}}}


def exactly(**fields):
    return devices([{"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}])


def test_defaults_are_set():
    wanted = devices(
        [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "k"}]}},
            {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
            {"name": "c", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
        ]
    )
    first, second, third = ok(ApiServer(), "POST", CLAIMS, wanted)["spec"]["devices"]["requests"]
    assert first["exactly"] == {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}],
    }  # fmt: skip
    assert second["exactly"] == {"deviceClassName": "gpu", "allocationMode": "All"}
    assert third["firstAvailable"][0]["count"] == 1


def test_a_claim_may_ask_for_nothing():
    assert ok(ApiServer(), "POST", CLAIMS, devices([]))["status"] == {}


def plain(name="r", **fields):
    """A request for one device of the class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def derived(*attributes, **fields):
    """A request with derived attributes, and one constraint on v/x."""
    return devices(
        [plain(derivedAttributes=list(attributes))], constraints=[{"matchAttribute": "v/x", **fields}]
    )


def nested(loops):
    """An expression that may take some 8 steps for each of 10 turns of so many nested loops."""
    inner = "true"
    for number in range(loops):
        inner = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x{number}, {inner} && x{number} > 0 && 'a' == 'a')"
    return inner


X = {"name": "v/x", "expression": "1"}
COSTLY = {"name": "v/x", "expression": nested(5)}
DA = f"{R}.exactly.derivedAttributes"


def test_a_derived_attribute_that_does_not_compile_is_refused():
    found = causes(ApiServer(), "POST", CLAIMS, derived({**X, "expression": "device.nope"}))
    assert found == [(f"{DA}[0].expression", "FieldValueInvalid")]


def test_a_derived_attribute_is_used_by_a_constraint_on_its_request_or_alternative():
    ok(ApiServer(), "POST", CLAIMS, derived(X))
    ok(ApiServer(), "POST", CLAIMS, derived(X, requests=["r"]))
    alternative = {"name": "a", "deviceClassName": "gpu", "derivedAttributes": [X]}
    for name in ("r", "r/a"):
        wanted = devices(
            [{"name": "r", "firstAvailable": [alternative]}],
            constraints=[{"distinctAttribute": "v/x", "requests": [name]}],
        )
        ok(ApiServer(), "POST", CLAIMS, wanted)


def test_a_claim_or_template_whose_selector_does_not_compile_is_refused():
    api, bad = ApiServer(), [{"cel": {"expression": "device.nope == 1"}}]
    at = "selectors[0].cel.expression"
    alternative = {"name": "x", "deviceClassName": "gpu", "selectors": bad}
    for body, where in (
        (exactly(selectors=bad), f"{R}.exactly.{at}"),
        (devices([{"name": "r", "firstAvailable": [alternative]}]), f"{R}.firstAvailable[0].{at}"),
    ):
        assert causes(api, "POST", CLAIMS, body) == [(where, "FieldValueInvalid")]
    template = {"metadata": {"name": "t"}, "spec": {"spec": exactly(selectors=bad)["spec"]}}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
    assert causes(api, "POST", path, template) == [(f"spec.{R}.exactly.{at}", "FieldValueInvalid")]


REFUSED = {
    "33 derived attributes": (
        devices(
            [plain(derivedAttributes=[{**X, "name": f"v/x{i}"} for i in range(33)])],
            constraints=[{"matchAttribute": f"v/x{i}"} for i in range(32)],
        ),
        f"{DA}: TooMany",
        f"{DA}[32].name: Invalid",
    ),
    "a derived attribute twice": (derived(X, X), f"{DA}[1].name: Duplicate"),
    "a derived attribute without name": (derived({**X, "name": ""}), f"{DA}[0].name: Required"),
    "a derived attribute without domain": (
        derived({**X, "name": "x"}),
        f"{DA}[0].name: Invalid",
        f"{DA}[0].name: Invalid",
    ),
    "a derived attribute that nothing uses": (derived(X, {**X, "name": "v/y"}), f"{DA}[1].name: Invalid"),
    "a derived attribute that only another request uses": (
        devices(
            [plain(derivedAttributes=[X]), plain("s")],
            constraints=[{"matchAttribute": "v/x", "requests": ["s"]}],
        ),
        f"{DA}[0].name: Invalid",
    ),
    "a derived attribute without expression": (
        derived({**X, "expression": ""}),
        f"{DA}[0].expression: Required",
    ),
    "a derived attribute that may take 8 million steps": (
        derived({**X, "expression": nested(6)}),
        f"{DA}[0].expression: Forbidden",
        "spec.devices: Forbidden",
    ),
    "derived attributes that together may take 1.6 million steps": (
        devices(
            [plain(name, derivedAttributes=[COSTLY]) for name in "rs"],
            constraints=[{"matchAttribute": "v/x"}],
        ),
        "spec.devices: Forbidden",
    ),
    "a selector that may take 8 million steps": (
        exactly(selectors=[{"cel": {"expression": nested(6)}}]),
        f"{R}.exactly.selectors[0].cel.expression: Forbidden",
    ),
    "a long derived attribute": (
        derived({**X, "expression": " " * 10240 + "1"}),
        f"{DA}[0].expression: TooLong",
    ),
    "33 requests": (devices([plain(f"r{i}") for i in range(33)]), "spec.devices.requests: TooMany"),
    "neither exact nor alternatives": (devices([{"name": "r"}]), f"{R}: Required"),
    "both": (
        devices([{**plain(), "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}]),
        f"{R}: Required",
    ),
    "a name twice": (devices([plain()] * 2), "spec.devices.requests[1].name: Duplicate"),
    "9 alternatives": (
        devices(
            [{"name": "r", "firstAvailable": [{"name": f"a{i}", "deviceClassName": "g"} for i in range(9)]}]
        ),
        f"{R}.firstAvailable: TooMany",
    ),
    "a negative count": (exactly(count=-1), f"{R}.exactly.count: Invalid"),
    "a count of all": (exactly(count=1, allocationMode="All"), f"{R}.exactly.count: Invalid"),
    "a strange mode": (exactly(allocationMode="Some"), f"{R}.exactly.allocationMode: NotSupported"),
    "admin access without leave": (exactly(adminAccess=True), f"{R}.exactly.adminAccess: Forbidden"),
    "a toleration of any value": (
        exactly(tolerations=[{"operator": "Exists", "value": "v"}]),
        f"{R}.exactly.tolerations[0].value: Invalid",
    ),
    "a constraint without attribute": (devices([], constraints=[{}]), f"{C}.matchAttribute: Required"),
    "an attribute without domain": (
        devices([], constraints=[{"matchAttribute": "model"}]),
        f"{C}.matchAttribute: Invalid",
    ),
    "a constraint on an unknown request": (
        devices([], constraints=[{"requests": ["nope"], "matchAttribute": "d.example/model"}]),
        f"{C}.requests[0]: Invalid",
    ),
    "33 configs": (
        devices([], config=[{"opaque": {"driver": "d", "parameters": {}}}] * 33),
        "spec.devices.config: TooMany",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_claims_that_are_refused_and_why(case):
    body, *expected = case
    assert problems(ApiServer(), "POST", CLAIMS, body) == expected


def test_admin_access_depends_on_the_label_of_the_namespace():
    api = ApiServer()
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    ok(api, "PATCH", "/api/v1/namespaces/default", label, media=MERGE)
    ok(api, "POST", CLAIMS, exactly(adminAccess=True))
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", "adminAccess": True}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    ok(api, "PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": None}}, media=MERGE)
    found = causes(api, "PATCH", f"{CLAIMS}/c/status", status, media=MERGE)
    assert found == [("status.allocation.devices.results[0].adminAccess", "FieldValueForbidden")]


def consumers(*uids):
    return [{"resource": "pods", "name": "p", "uid": uid} for uid in uids]


def result(**fields):
    return allocation(devices={"results": [{**allocation()["devices"]["results"][0], **fields}]})


A = "status.allocation.devices"
STATUS_REFUSED = {
    "257 consumers": (
        {"allocation": allocation(), "reservedFor": consumers(*map(str, range(257)))},
        "status.reservedFor: TooMany",
    ),
    "a consumer twice": (
        {"allocation": allocation(), "reservedFor": consumers("u", "u")},
        "status.reservedFor[1].uid: Duplicate",
    ),
    "a consumer without uid": (
        {"allocation": allocation(), "reservedFor": [{"resource": "pods", "name": "p"}]},
        "status.reservedFor[0].uid: Required",
    ),
    "a consumer without an allocation": ({"reservedFor": consumers("u")}, "status.reservedFor: Forbidden"),
    "33 results": (
        {"allocation": allocation(devices={"results": allocation()["devices"]["results"] * 33})},
        f"{A}.results: TooMany",
    ),
    "no driver": ({"allocation": result(driver="")}, f"{A}.results[0].driver: Required"),
    "a request that the claim does not have": (
        {"allocation": result(request="nope")},
        f"{A}.results[0].request: Invalid",
    ),
    "a share that is no UUID": ({"allocation": result(shareID="X")}, f"{A}.results[0].shareID: Invalid"),
    "a config from nowhere": (
        {
            "allocation": allocation(
                devices={"config": [{"source": "Sky", "opaque": {"driver": "d", "parameters": {}}}]}
            )
        },
        f"{A}.config[0].source: NotSupported",
    ),
    "a selector without terms": (
        {"allocation": allocation(nodeSelector={})},
        "status.allocation.nodeSelector.nodeSelectorTerms: Required",
    ),
    "the status of a foreign device": (
        {"allocation": allocation(), "devices": [{"driver": "d", "pool": "p", "device": "x"}]},
        "status.devices[0]: Invalid",
    ),
}


@pytest.mark.parametrize(("status", "problem"), STATUS_REFUSED.values(), ids=STATUS_REFUSED.keys())
def test_statuses_that_are_refused_and_why(status, problem):
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    assert problems(api, "PATCH", f"{CLAIMS}/c/status", {"status": status}, media=MERGE) == [problem]


@pytest.mark.parametrize(
    "change",
    [{"allocationTimestamp": "2026-02-02T00:00:00Z"}, {"nodeSelector": None}, {"devices": {"results": []}}],
)
def test_an_allocation_does_not_change_to_its_last_field(change):
    """ST-3."""
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": allocation()}}, media=MERGE)
    found = causes(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": change}}, media=MERGE)
    assert found == [("status.allocation", "FieldValueInvalid")]


def test_a_timestamp_cannot_be_added_later():
    """Why a claim allocated without one can never be reserved by the real scheduler."""
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    bare = allocation()
    stamp = bare.pop("allocationTimestamp")
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": bare}}, media=MERGE)
    later = {"status": {"allocation": {"allocationTimestamp": stamp}}}
    assert causes(api, "PATCH", f"{CLAIMS}/c/status", later, media=MERGE)[0][0] == "status.allocation"


def test_an_equivalent_allocation_is_no_change():
    """Nil and empty are equal, quantities compare by value."""
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    first = result(shareID=SHARE, consumedCapacity={"m": "1Gi"})
    made = ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": first}}, media=MERGE)
    again = result(shareID=SHARE, consumedCapacity={"m": "1024Mi"}, tolerations=[])
    again["devices"]["config"] = []
    made["status"]["allocation"] = again
    ok(api, "PUT", f"{CLAIMS}/c/status", made)


def test_clearing_an_allocation_removes_device_statuses_and_it_can_be_set_again():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    entry = {"driver": "gpu.example.com", "pool": "p", "device": "d", "conditions": []}
    full = {"status": {"allocation": allocation(), "devices": [entry]}}
    assert ok(api, "PATCH", f"{CLAIMS}/c/status", full, media=MERGE)["status"]["devices"]
    cleared = ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": None}}, media=MERGE)
    assert cleared["status"] == {}
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": allocation("other")}}, media=MERGE)


def test_a_claim_being_deleted_loses_consumers_but_gains_none():
    """ST-2."""
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim(finalizers=["x.example/1"]))
    taken = {"status": {"allocation": allocation(), "reservedFor": consumers("a", "b")}}
    ok(api, "PATCH", f"{CLAIMS}/c/status", taken, media=MERGE)
    ok(api, "DELETE", f"{CLAIMS}/c")
    more = {"status": {"reservedFor": consumers("a", "b", "c")}}
    found = problems(api, "PATCH", f"{CLAIMS}/c/status", more, media=MERGE)
    assert found == ["status.reservedFor[2]: Forbidden"]
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"reservedFor": consumers("b")}}, media=MERGE)


GATES = [{"name": "a.example/x"}, {"name": "a.example/y"}]
POD_CHANGES = {
    "a gate goes": ({"schedulingGates": GATES[:1]}, True),
    "a gate comes": ({"schedulingGates": [*GATES, {"name": "a.example/z"}]}, False),
    "a toleration comes": ({"tolerations": [{"key": "a"}, {"key": "b"}]}, True),
    "a toleration goes": ({"tolerations": []}, False),
    "another image": ({"containers": [{"name": "main", "image": "other", "resources": {}}]}, True),
    "another container": ({"containers": [{"name": "other", "image": "x", "resources": {}}]}, False),
    "a narrower node selector": ({"nodeSelector": {"a": "1", "b": "2"}}, True),
    "another node selector": ({"nodeSelector": {"a": "2"}}, False),
    "affinity where there was none": (
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}]
                    }
                }
            }
        },
        True,
    ),
    "another priority": ({"priority": 7}, False),
    "a node of its own": ({"nodeName": "n"}, False),
    "other claims": ({"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}, False),
}


@pytest.mark.parametrize(("change", "allowed"), POD_CHANGES.values(), ids=POD_CHANGES.keys())
def test_what_may_change_in_a_gated_pod(change, allowed):
    api = ApiServer()
    body = pod(schedulingGates=GATES, tolerations=[{"key": "a"}], nodeSelector={"a": "1"})
    ok(api, "POST", PODS, body)
    if allowed:
        ok(api, "PATCH", f"{PODS}/p", {"spec": change}, media=MERGE)
    else:
        assert refused(api, "PATCH", f"{PODS}/p", {"spec": change}, media=MERGE) == (422, "Invalid")


def test_the_choice_of_nodes_is_fixed_once_the_gates_are_gone():
    api = ApiServer()
    ok(api, "POST", PODS, pod(nodeSelector={"a": "1"}))
    more = {"spec": {"nodeSelector": {"b": "2"}}}
    assert refused(api, "PATCH", f"{PODS}/p", more, media=STRATEGIC) == (422, "Invalid")


def test_a_pod_is_bound_once_and_not_while_gated():
    api = ApiServer()
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    ok(api, "POST", PODS, pod(schedulingGates=GATES[:1]))
    assert refused(api, "POST", f"{PODS}/p/binding", binding) == (409, "Conflict")
    ok(api, "PATCH", f"{PODS}/p", {"spec": {"schedulingGates": None}}, media=MERGE)
    ok(api, "POST", f"{PODS}/p/binding", binding)
    assert ok(api, "GET", f"{PODS}/p")["spec"]["nodeName"] == "n"
    assert refused(api, "POST", f"{PODS}/p/binding", binding) == (409, "Conflict")
    assert refused(api, "POST", f"{PODS}/q/binding", binding) == (400, "BadRequest")
    other = {**binding, "metadata": {"name": "q"}}
    assert refused(api, "POST", f"{PODS}/q/binding", other) == (404, "NotFound")
    assert refused(api, "POST", f"{PODS}/p/binding", {**binding, "target": {}}) == (400, "BadRequest")


POD_REFUSED = {
    "no containers": (pod(containers=[]), "spec.containers: Required"),
    "no image": (pod(containers=[{"name": "m"}]), "spec.containers[0].image: Required"),
    "a claim from two sources": (
        pod(resourceClaims=[{"name": "g", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
        "spec.resourceClaims[0]: Invalid",
    ),
    "a claim that is not the pod's": (
        pod(containers=[{"name": "m", "image": "i", "resources": {"claims": [{"name": "g"}]}}]),
        "spec.containers[0].resources.claims[0].name: NotFound",
    ),
    "a node while gated": (pod(nodeName="n", schedulingGates=GATES), "spec.nodeName: Forbidden"),
    "a gate twice": (pod(schedulingGates=GATES[:1] * 2), "spec.schedulingGates[1].name: Duplicate"),
}


@pytest.mark.parametrize(("body", "problem"), POD_REFUSED.values(), ids=POD_REFUSED.keys())
def test_pods_that_are_refused_and_why(body, problem):
    assert problems(ApiServer(), "POST", PODS, body) == [problem]
