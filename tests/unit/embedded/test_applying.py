"""Server-side apply: owners of fields, conflicts, and fields that a later configuration leaves out."""

import json
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.validation.served_kinds import every_kind
from reconciler.embedded import ApiServer
from reconciler.embedded.managers import ATOMIC, KEYS, MAPS, SETS
from reconciler.embedded.schemas import definitions
from tests.tools.driving import CLAIMS, MERGE, PODS, allocation, call, claim, ok, pod, refused
from tests.tools.examples import examples

APPLY = "application/apply-patch+yaml"
MAPS_OF_CONFIG = "/api/v1/namespaces/default/configmaps"
FOLDER = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


def of(kind, name, **metadata):
    version = "v1" if kind == "Pod" else "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def apply(api, body, manager="a", path=f"{MAPS_OF_CONFIG}/m", **query):
    return ok(api, "PATCH", path, body, media=APPLY, fieldManager=manager, **query)


def conflicts(api, body, manager="a", path=f"{MAPS_OF_CONFIG}/m"):
    code, found = call(api, "PATCH", path, body, media=APPLY, fieldManager=manager)
    assert (code, found["reason"]) == (409, "Conflict")
    return [cause["field"] for cause in found["details"]["causes"]]


def test_a_field_that_is_left_out_is_removed_unless_another_manager_has_it():
    api = ApiServer()
    apply(api, config(mine="1", shared="1"))
    apply(api, config(shared="1", theirs="1"), "b")
    assert apply(api, config())["data"] == {"shared": "1", "theirs": "1"}
    ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", {"data": {"patched": "1"}}, media=MERGE)
    assert apply(api, config(), "b")["data"] == {"patched": "1"}


def test_another_value_than_that_of_another_manager_is_a_conflict_unless_forced():
    api = ApiServer()
    ok(api, "POST", MAPS_OF_CONFIG, config(made="1"))
    assert conflicts(api, config(made="2")) == [".data.made"]
    assert apply(api, config(made="2"), force="true")["data"] == {"made": "2"}
    assert conflicts(api, config(made="3"), "b") == [".data.made"]
    assert apply(api, config(made="4"))["data"] == {"made": "4"}
    ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", {"data": {"made": "5"}}, media=MERGE)
    assert conflicts(api, config(made="6")) == [".data.made"]
    assert apply(api, config(made="5"), "b")["data"] == {"made": "5"}


def test_a_configuration_with_a_name_only_owns_nothing():
    api = ApiServer()
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    for _ in range(2):  # creates, then changes nothing
        assert shown(apply(api, bare, path="/api/v1/nodes/n")) == []


@pytest.mark.parametrize(
    "body",
    [
        {**of("ResourceClaim", "c"), **claim(), "metadata": {"name": "c", "labels": {}}},
        {**of("ConfigMap", "c"), "apiVersion": "v1", "data": {"a": "1"}, "immutable": None},
    ],
)
def test_applying_the_same_again_changes_nothing(body):
    """Defaults and what is empty are no changes. Nor is the time of an apply, as in Kubernetes."""
    seconds = count()
    api = ApiServer(now=lambda: datetime.fromtimestamp(next(seconds), UTC))
    path = f"{CLAIMS if body['kind'] == 'ResourceClaim' else MAPS_OF_CONFIG}/c"
    for manager in "ab":
        made = apply(api, body, manager, path, force="true")
        assert apply(api, body, manager, path, force="true") == made


def test_kubectl_takes_over_what_it_applied_without_server_side():
    api = ApiServer()
    key = "kubectl.kubernetes.io/last-applied-configuration"
    made = config(a="1", b="1")
    made["metadata"]["annotations"] = {key: json.dumps(config(a="1"))}
    ok(api, "POST", MAPS_OF_CONFIG, made, fieldManager="kubectl-client-side-apply")
    assert conflicts(api, config(a="2", b="2"), "kubectl") == [".data.b"]
    found = apply(api, config(a="2"), "kubectl")
    assert found["data"] == {"a": "2", "b": "1"}
    assert json.loads(found["metadata"]["annotations"][key]) == config(a="2")
    assert apply(api, config(c="3"), "kubectl")["data"] == {"b": "1", "c": "3"}


def test_entries_of_lists_have_owners_and_defaults_have_none():
    api = ApiServer()
    path = f"{PODS}/p"
    made = {**of("Pod", "p"), **pod(tolerations=[{"key": "a", "operator": "Exists"}])}
    made["spec"]["containers"].append({"name": "side", "image": "side", "ports": [{"containerPort": 1}]})
    apply(api, made, path=path)
    image = {**of("Pod", "p"), "spec": {"containers": [{"name": "side", "image": "other"}]}}
    found = conflicts(api, image, "b", path)
    assert found == ['.spec.containers[name="side"].image']
    apply(api, image, "b", path, force="true")
    assert conflicts(api, made, path=path) == found
    made["spec"]["containers"][1]["image"] = "other"
    made["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # as the default says
    apply(api, made, path=path)


def test_drivers_share_the_devices_of_a_status():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim())
    ok(api, "PATCH", f"{CLAIMS}/c/status", {"status": {"allocation": allocation()}}, media=MERGE)
    device = {"driver": "gpu.example.com", "pool": "p", "device": "d"}

    def report(**fields: Any) -> Any:
        body = {**of("ResourceClaim", "c"), "status": {"devices": [{**device, **fields}]}}
        found = apply(api, body, "driver", f"{CLAIMS}/c/status")["status"]
        assert "allocation" in found
        return found["devices"]

    assert report(data={"a": 1}) == [{**device, "data": {"a": 1}}]
    assert report(networkData={"interfaceName": "n"}) == [{**device, "networkData": {"interfaceName": "n"}}]
    bare = {**of("ResourceClaim", "c"), "status": {}}
    assert "devices" not in apply(api, bare, "driver", f"{CLAIMS}/c/status")["status"]


def test_owners_are_those_that_kubernetes_shows():
    """As 1.36.2 answers the same writes."""
    api = ApiServer()
    made = config(a="1")
    made["metadata"] |= {"labels": {"l": "1"}, "finalizers": ["a.b/c"], "generateName": "m-"}
    ok(api, "POST", MAPS_OF_CONFIG, made, fieldManager="cli")
    ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", {"data": {"b": "2"}}, media=MERGE, fieldManager="me")
    meta: dict[str, Any] = {
        "f:finalizers": {".": {}, 'v:"a.b/c"': {}},
        "f:generateName": {},
        "f:labels": {".": {}, "f:l": {}},
    }
    cli = {"f:data": {".": {}, "f:a": {}}, "f:metadata": meta}
    assert shown(apply(api, config(c="3"), "app")) == [
        ("app", "Apply", {"f:data": {"f:c": {}}}),
        ("cli", "Update", cli),
        ("me", "Update", {"f:data": {"f:b": {}}}),
    ]
    assert conflicts(api, config(a="9", b="8"), "app") == [".data.a", ".data.b"]
    forced = apply(api, config(a="9", b="8"), "app", force="true")
    assert shown(forced) == [
        ("app", "Apply", {"f:data": {"f:a": {}, "f:b": {}}}),
        ("cli", "Update", {**cli, "f:data": {}}),
    ]
    put = {**forced, "data": {"only": "1"}}
    del put["metadata"]["managedFields"]
    put = ok(api, "PUT", f"{MAPS_OF_CONFIG}/m", put, fieldManager="put")
    assert shown(put)[-1] == ("put", "Update", {"f:data": {"f:only": {}}})
    # Whoever empties the list ends it, until the next apply.
    emptied = {**put, "metadata": {**put["metadata"], "managedFields": [{}]}}
    assert "managedFields" not in ok(api, "PUT", f"{MAPS_OF_CONFIG}/m", emptied)["metadata"]
    assert shown(apply(api, config(z="9"), "app"))[1] == (
        "before-first-apply",
        "Update",
        {"f:data": {".": {}, "f:only": {}}, "f:metadata": meta},
    )


def shown(obj):
    entries = obj["metadata"].get("managedFields", ())
    return [(one["manager"], one["operation"], one["fieldsV1"]) for one in entries]


def test_the_status_of_a_claim_has_owners_in_all_versions():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim(), fieldManager="u")
    older = f"{CLAIMS.replace('/v1/', '/v1beta1/')}/c"
    ok(api, "PATCH", older, {"metadata": {"labels": {"a": "b"}}}, media=MERGE, fieldManager="b")
    status = {"status": {"allocation": allocation()}}
    found = ok(api, "PATCH", f"{CLAIMS}/c/status", status, media=MERGE, fieldManager="d")
    entries = {one["manager"]: one for one in found["metadata"]["managedFields"]}
    assert entries["u"]["fieldsV1"] == {"f:spec": {"f:devices": {"f:requests": {}}}}
    assert entries["b"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert entries["d"]["subresource"] == "status"
    labels = of("ResourceClaim", "c", labels={"q": "r"})
    old = {**labels, "apiVersion": "resource.k8s.io/v1beta1"}
    apply(api, old, path=older)
    left = apply(api, of("ResourceClaim", "c", labels={"s": "t"}), path=f"{CLAIMS}/c")
    assert left["metadata"]["labels"] == {"a": "b", "s": "t"}


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("ab"), st.sampled_from(["1", "2", None]))))
@examples(25)
def test_each_field_belongs_to_whoever_changed_it_last(writes):
    api = ApiServer()
    ok(api, "POST", MAPS_OF_CONFIG, config(kept="1"), fieldManager="x")
    values, owner = {"kept": "1"}, {"kept": "x"}
    for who, key, value in writes:
        patch = {"data": {key: value}}
        found = ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", patch, media=MERGE, fieldManager=who)
        if value is None:
            values.pop(key, None)
            owner.pop(key, None)
        elif values.get(key) != value:
            values[key], owner[key] = value, who
        fields = [
            (step[2:], manager) for manager, _, tree in shown(found) for step in tree["f:data"] if step != "."
        ]
        assert sorted(fields) == sorted(owner.items())


def test_the_oldest_of_more_than_ten_that_update_become_one():
    seconds = count()
    api = ApiServer(now=lambda: datetime.fromtimestamp(next(seconds), UTC))
    path = f"{MAPS_OF_CONFIG}/m"
    apply(api, config(applied="1"), "applies")
    for number in range(13):
        body = {"data": {f"k{number:02}": "1"}}
        ok(api, "PATCH", path, body, media=MERGE, fieldManager=f"m{number:02}")
    found = ok(api, "GET", path)["metadata"]["managedFields"]
    assert [one["manager"] for one in found] == [
        "applies", "ancient-changes", *(f"m{number:02}" for number in range(4, 13))
    ]  # fmt: skip
    assert found[1]["fieldsV1"] == {"f:data": {f"f:k{number:02}": {} for number in range(4)}}
    assert conflicts(api, config(k03="2"), "applies") == [".data.k03"]


def test_other_values_of_the_own_fields_have_another_time_and_the_same_owners():
    """As the renewals of a Lease."""
    seconds = count()
    api = ApiServer(now=lambda: datetime.fromtimestamp(next(seconds), UTC))
    ok(api, "POST", MAPS_OF_CONFIG, config(a="1", b="1"), fieldManager="x")
    ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", {"data": {"b": "2"}}, media=MERGE, fieldManager="y")
    renewals = [
        ok(api, "PATCH", f"{MAPS_OF_CONFIG}/m", {"data": {"a": value}}, media=MERGE, fieldManager="x")
        for value in "23"
    ]
    first, second = (
        {one["manager"]: one for one in found["metadata"]["managedFields"]} for found in renewals
    )
    assert first["x"]["time"] < second["x"]["time"]
    assert first["y"] == second["y"]
    assert second["x"]["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    assert second["y"]["fieldsV1"] == {"f:data": {"f:b": {}}}


def test_what_cannot_be_applied_is_refused():
    api = ApiServer()
    custom = "/apis/scheduling.koordinator.sh/v1alpha1/devices/n"
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
        "metadata": {"name": "n"}, "spec": {},
    }  # fmt: skip
    assert refused(api, "PATCH", custom, body, media=APPLY, fieldManager="a") == (501, "NotImplemented")
    code, found = call(
        api, "PATCH", f"{MAPS_OF_CONFIG}/m", {**config(), "dta": {}}, media=APPLY, fieldManager="a"
    )
    assert (code, found["message"].rpartition(": .")[2]) == (500, "dta: field not declared in schema")
    assert apply(api, config(a="b"), dryRun="All")["data"] == {"a": "b"}
    assert call(api, "GET", f"{MAPS_OF_CONFIG}/m")[0] == 404


@pytest.mark.parametrize("key", ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"])
@pytest.mark.parametrize("wrong", [None, 1, ["x"], {"x": {}}, [[]]])
def test_managed_fields_of_a_client_that_cannot_be_read_change_no_owner(key, wrong):
    api = ApiServer()
    made = apply(api, config(a="1"))
    entry = {**made["metadata"]["managedFields"][0], key: wrong}
    put = {**config(a="1"), "metadata": {"name": "m", "managedFields": [entry]}}
    found = ok(api, "PUT", f"{MAPS_OF_CONFIG}/m", put, fieldManager="p")
    assert shown(found) == [("a", "Apply", {"f:data": {"f:a": {}}})]
    ok(api, "PUT", f"{MAPS_OF_CONFIG}/m", {**put, "data": {"a": "2"}}, fieldManager="p")
    assert conflicts(api, config(a="3")) == [".data.a"]


def test_managed_fields_of_a_client_may_name_entries_of_lists_that_have_none():
    api = ApiServer()
    path = f"{PODS}/p"
    made = apply(api, {**of("Pod", "p"), **pod(tolerations=[{"key": "a", "operator": "Exists"}])}, path=path)
    tree = made["metadata"]["managedFields"][0]["fieldsV1"]
    tree["f:spec"]["f:tolerations"] = {'k:{"key":"b"}': {}}
    assert ok(api, "PUT", path, made)["metadata"]["managedFields"][0]["fieldsV1"] == tree
    left = apply(api, {**of("Pod", "p"), **pod()}, path=path)
    assert left["spec"]["tolerations"] == made["spec"]["tolerations"]


def test_nobody_owns_all_metadata():
    api = ApiServer()
    made = apply(api, config(a="1"))
    made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = {}
    ok(api, "PUT", f"{MAPS_OF_CONFIG}/m", made)
    assert apply(api, config(a="2"))["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"spec": {"containers": [{"image": "nameless"}]}},
        {"metadata": []},
        {"metadata": {"managedFields": [{"manager": "a"}]}},
        {"metadata": {"finalizers": [{}]}},
        {"spec": {"containers": 1}},
        {"spec": {"containers": [1]}},
        {"spec": {"tolerations": [{"key": []}], "affinity": 1}},
        {"spec": {"affinity": 1}},
        {"spec": {"nodeSelector": {"a": {}}}},
        {"metadata": {"ownerReferences": [["a"]]}},
        {"metadata": {"ownerReferences": [None]}},
        {"metadata": {"finalizers": 1}},
        {"spec": 1},
        [],
    ],
)
def test_a_configuration_of_another_shape_is_refused(wrong):
    api = ApiServer()
    made = ok(api, "POST", PODS, pod())
    body = {**of("Pod", "p"), **wrong} if isinstance(wrong, dict) else wrong
    if isinstance(wrong, dict) and isinstance(wrong.get("metadata"), dict):
        body["metadata"] = {"name": "p", **wrong["metadata"]}
    code, found = call(api, "PATCH", f"{PODS}/p", body, media=APPLY, fieldManager="a", force="true")
    assert (code, found["status"]) in [(400, "Failure"), (422, "Failure"), (500, "Failure")]
    assert ok(api, "GET", f"{PODS}/p") == made


def test_lists_and_single_values_are_those_that_kubernetes_publishes():
    path = FOLDER / "v1.37.0-local" / "_definitions.json"
    if not path.exists():
        pytest.skip("kubernetes-validate does not carry the schemas of 1.37")
    served = definitions((version, kind) for kind in every_kind() for version in kind.served)
    kinds = {name.rpartition(".")[2] for name in served}
    for full, schema in json.loads(path.read_text())["$defs"].items():
        kind = full.rpartition(".")[2]
        if kind not in kinds:
            continue
        assert schema.get("x-kubernetes-map-type") != "atomic" or kind in ATOMIC, full
        for name, field in schema.get("properties", {}).items():
            how = field.get("x-kubernetes-list-type")
            if kind in MAPS:
                ours = "map" if name in KEYS else "set" if name in SETS else "atomic"
                assert ours == (how or "atomic") or field.get("type") != ["array", "null"], (full, name)
                if how == "map":
                    assert tuple(field["x-kubernetes-list-map-keys"]) in KEYS[name]
