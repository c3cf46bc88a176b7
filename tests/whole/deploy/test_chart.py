"""The Helm chart makes what kustomize makes, object by object, and real Helm the same."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from docs import chart_values
from reconciler.api.migrate.special_claims import Wanted, mapping, read_map
from tests.tools import chart, monitoring_kinds
from tests.tools.chart import (
    BASE,
    CHART,
    DEFAULTS,
    EVERYTHING,
    METADATA,
    NOTES,
    SCHEMA,
    SHADOW,
    compared,
    rendered,
)
from tests.tools.deployed_rights import ADVISE, DEPLOY, documents, of_component
from tests.tools.kustomize import VERSIONS, built, built_with


def without_spaces(objects: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Expressions of policies may be written with or without spaces, which are no part of them."""
    for one in objects.values():
        spec = one.get("spec", {}) if "Policy" in one["kind"] else {}
        for part in (*spec.get("variables", ()), *spec.get("validations", ())):
            part["expression"] = "".join(part["expression"].split())
    return objects


def test_by_default_it_makes_what_the_base_makes():
    assert without_spaces(compared(list(rendered().values()))) == without_spaces(compared(built("base")))


def test_who_need_not_be_confined_is_not():
    made = rendered(admission={"confine": False})
    left_out = rendered().keys() - made.keys()
    assert {kind for kind, _ in left_out} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert len(left_out) == 10


def test_in_shadow_mode_no_value_grants_a_right_to_write():
    acting: dict[str, Any] = {
        "preemption": "evict", "preemptingClasses": ["a"], "rebalance": "evict",
        "evictionRequestSeconds": 60, "kueueCheck": "room", "makeTemplates": True,
        "provisioningRequests": "x",
    }  # fmt: skip
    made = rendered(**SHADOW, **acting)
    verbs = {
        verb
        for (kind, _), one in made.items()
        if kind in ("ClusterRole", "Role")
        for rule in one["rules"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"} & verbs


def test_with_templates_it_makes_what_the_component_makes(tmp_path: Path):
    wanted = without_spaces(compared(built_with("templates", tmp_path)))
    assert without_spaces(compared(list(rendered(makeTemplates=True).values()))) == wanted


def test_for_shadow_it_makes_what_the_overlay_makes():
    made = rendered("dra-reconciler-shadow", **SHADOW)
    wanted = compared(built("overlays/shadow"))
    delegator = ("ClusterRoleBinding", "dra-reconciler-auth-delegator-shadow")
    # Helm has the name of the release in front, kustomize a suffix behind.
    renamed = wanted.pop(delegator)
    renamed["metadata"]["name"] = "dra-reconciler-shadow-auth-delegator"
    wanted["ClusterRoleBinding", "dra-reconciler-shadow-auth-delegator"] = renamed
    assert compared(list(made.values())) == wanted


def test_the_admission_policies_are_those_of_kustomize():
    policies = ("gatePods", "announceClaims", "rewriteResources")
    made = without_spaces(rendered(admission=dict.fromkeys(policies, True)))
    wanted = without_spaces(compared(documents("admission")))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()


def test_preemption_is_that_of_the_component():
    made = rendered(preemption="evict", preemptingClasses=["a", "b"])
    wanted = compared(documents("components/rebalance"))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()
    (container,) = made["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}
    assert told["DRA_RECONCILER_PREEMPTION"] == "evict"
    assert told["DRA_RECONCILER_PREEMPTING_CLASSES"] == "a,b"


def test_asking_first_is_that_of_the_component():
    made = rendered(rebalance="evict", evictionRequestSeconds=60)
    wanted = compared(documents("components/eviction-requests"))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered(rebalance="evict").keys() | wanted.keys()
    (container,) = made["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "DRA_RECONCILER_EVICTION_REQUEST_SECONDS", "value": "60"} in container["env"]
    assert rendered(evictionRequestSeconds=60).keys() == rendered().keys()  # nothing is evicted


def test_the_answer_to_kueue_is_that_of_the_component():
    made = rendered(kueueCheck="room")
    wanted = compared(documents("components/kueue"))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()
    (container,) = made["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "DRA_RECONCILER_KUEUE_CHECK", "value": "room"} in container["env"]


def test_requests_for_nodes_are_those_of_the_component():
    made = rendered(provisioningRequests="best-effort-atomic-scale-up.autoscaling.x-k8s.io")
    wanted = compared(documents("components/provisioning"))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()


def test_advice_needs_to_read_budgets_and_nothing_more():
    made, wanted = rendered(preemption="advise"), compared(of_component(ADVISE))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()


@pytest.mark.parametrize("rebalance", ["off", "advise"])
def test_no_role_reads_budgets_or_evicts_unless_that_is_asked_for(rebalance: str):
    """Advice which pods to move is the default, and does without."""
    made = rendered(rebalance=rebalance)
    assert made.keys() == rendered().keys()
    told = {name for one in made.values() for rule in one.get("rules", ()) for name in rule["resources"]}
    assert told.isdisjoint({"poddisruptionbudgets", "pods/eviction", "pods/status"})


def test_moving_pods_needs_to_evict_them_to_read_budgets_and_nothing_more():
    made = rendered(rebalance="evict", rebalanceGoals=["a=2", "90%"], rebalanceNamespaces=["x"])
    role = made["ClusterRole", "dra-reconciler-rebalance"]
    wanted = [["poddisruptionbudgets"], ["pods/eviction"]]
    assert [rule["resources"] for rule in role["rules"]] == wanted
    (container,) = made["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert told["DRA_RECONCILER_REBALANCE"] == "evict"
    assert told["DRA_RECONCILER_REBALANCE_GOALS"] == "a=2,90%"
    assert told["DRA_RECONCILER_REBALANCE_NAMESPACES"] == "x"


def test_observability_is_that_of_kustomize():
    """Rules and dashboard are copies: a chart reads no files beyond its folder. Copy them after a change."""
    made = rendered(observability={"enabled": True})
    wanted = compared(built("observability"))
    there = {key: one for key, one in compared(list(made.values())).items() if key in wanted}
    assert there == wanted
    assert made.keys() == rendered().keys() | wanted.keys()


def runbooks(rules: Any) -> set[str]:
    return {
        rule["annotations"]["runbook_url"].partition("#")[0]
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
    }


def test_alerts_link_to_where_the_runbooks_of_the_release_are():
    url = "https://git.example.org/v1/docs/runbooks.md"
    made = rendered(observability={"enabled": True, "runbooks": url})
    assert runbooks(made["PrometheusRule", "dra-reconciler"]) == {url}
    made = rendered(observability={"enabled": True})
    assert runbooks(made["PrometheusRule", "dra-reconciler"]) == {"docs/runbooks.md"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [{}, EVERYTHING, SHADOW], ids=["defaults", "all", "shadow"])
def test_what_it_makes_fits_the_published_schemas(values: dict[str, Any], version: str):
    for document in chart.objects(chart.texts(BASE | values)).values():
        if document["kind"] in monitoring_kinds.SCHEMAS:
            monitoring_kinds.assert_valid(document)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_another_release_and_namespace_have_names_of_their_own():
    made = rendered("other")
    assert not [name for _, name in made if name.startswith("dra-reconciler")]
    policies = [one for one in documents("base") if one["kind"] == "ValidatingAdmissionPolicy"]
    for one in policies:
        name = one["metadata"]["name"].replace("dra-reconciler", "other")
        (condition, *_) = made["ValidatingAdmissionPolicy", name]["spec"]["matchConditions"]
        assert '"system:serviceaccount:dra-reconciler:other"' in condition["expression"]


def test_the_chart_says_what_it_is():
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert METADATA["apiVersion"] == "v2"
    assert METADATA["type"] == "application"
    assert METADATA["name"] == CHART.name == project["name"]
    assert METADATA["version"] == METADATA["appVersion"] == project["version"]
    assert METADATA["description"]


@pytest.mark.parametrize(
    "values",
    [BASE, EVERYTHING, SHADOW, {"koordinator": True}, {"ownClasses": ["a"], "replicas": 1}],
    ids=["base", "all", "shadow", "koordinator", "classes"],
)
def test_real_helm_makes_the_same_of_it(values: dict[str, Any], tmp_path: Path):
    try:
        real = chart.by_helm(values, tmp_path)
    except chart.NoHelm:
        pytest.skip("neither helm nor the package helm-python-sdk is installed")
    ours = chart.texts(values)
    assert chart.objects(real) == chart.objects(ours)
    if NOTES in real:
        assert real[NOTES] == ours[NOTES]


# -- Each value of the Helm chart has its effect, and a rule that refuses what means nothing.


def test_every_value_has_its_effect():
    made = rendered(**EVERYTHING)
    deployment = made["Deployment", "dra-reconciler"]
    assert deployment["metadata"]["annotations"] == EVERYTHING["annotations"]
    template = deployment["spec"]["template"]
    assert template["metadata"]["annotations"].items() >= EVERYTHING["podAnnotations"].items()
    assert template["metadata"]["labels"] == {"app.kubernetes.io/name": "dra-reconciler", "team": "x"}
    account = made["ServiceAccount", "dra-reconciler"]["metadata"]
    assert account["annotations"] == EVERYTHING["serviceAccount"]["annotations"]
    for kind in monitoring_kinds.SCHEMAS:
        assert made[kind, "dra-reconciler"]["metadata"]["labels"]["release"] == "prometheus"
    assert made["ServiceMonitor", "dra-reconciler"]["spec"]["endpoints"][0]["interval"] == "30s"
    pod = template["spec"]
    (container,) = pod["containers"]
    set_there = {one["name"].removeprefix("DRA_RECONCILER_"): one["value"] for one in container["env"]}
    assert container["image"] == f"registry.example.com/dra-reconciler@sha256:{'a' * 64}"
    assert (set_there["OWN_CLASSES"], set_there["KOORDINATOR"], set_there["LOG_LEVEL"]) == (
        "a,b", "true", "debug",
    )  # fmt: skip
    for name in ("imagePullSecrets", "priorityClassName", "nodeSelector", "affinity", "tolerations"):
        assert pod[name] == EVERYTHING[name]
    assert container["envFrom"] == EVERYTHING["envFrom"]
    tagged = rendered(image={"tag": "1.2"})["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]
    assert tagged["containers"][0]["image"].endswith("/dra-reconciler:1.2")
    assert ("NetworkPolicy", "dra-reconciler") not in rendered(networkPolicy=False)


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        ("serviceMonitor", {"Service", "ServiceMonitor", "ClusterRole", "ClusterRoleBinding"}),
        ("prometheusRule", {"PrometheusRule"}),
        ("dashboard", {"ConfigMap"}),
    ],
)
def test_each_part_of_observability_can_be_left_out(part: str, kinds: set[str]):
    whole = rendered(observability={"enabled": True})
    rest = rendered(observability={"enabled": True, part: False})
    assert {kind for kind, _ in whole.keys() - rest.keys()} == kinds
    assert rest.keys() > rendered().keys()


@pytest.mark.parametrize("annotations", [{}, {"of": "the pods"}], ids=str)
def test_the_resource_map_is_a_file_that_the_reconciler_reads(tmp_path: Path, annotations: dict[str, str]):
    half = {"class": "npu.example.com", "name": "npu-half", "selector": 'device.driver > "<\\"'}
    values: dict[str, Any] = {"makeTemplates": True, "podAnnotations": annotations}
    made = rendered(**values, resourceMap={"example.com/half": half})["Deployment", "dra-reconciler"]
    template = made["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (volume,) = (one for one in template["spec"]["volumes"] if "downwardAPI" in one)
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == volume["name"])
    (item,) = volume["downwardAPI"]["items"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert told["DRA_RECONCILER_RESOURCE_MAP"] == f"{mount['mountPath']}/{item['path']}"
    there = dict(template["metadata"]["annotations"])
    (text,) = (there.pop(key) for key in list(there) if f"['{key}']" in item["fieldRef"]["fieldPath"])
    assert there == annotations
    path = tmp_path / "map.yaml"
    path.write_text(text)
    wanted = Wanted("npu.example.com", half["selector"], "npu-half")
    assert mapping((), read_map(path), str(path)).labelled("npu-half") == wanted
    assert "resource-map" not in json.dumps(rendered(**values)["Deployment", "dra-reconciler"])


@pytest.mark.parametrize(
    "values",
    [
        {"ownDrivers": []},
        {"ownDrivers": [], "env": [{"name": "A", "value": "b"}]},
        {"mode": "shadow", "replicas": 2},
        {"mode": "both"},
        {"replicas": "2"},
        {"ownDrivers": "gpu.example.com"},
        {"ownDrivers": ["a,b"]},
        {"image": {"digest": "sha256:short"}},
        {"admission": {"confines": True}},
        {"resource": {}},
        {"observability": {"runbooks": "https://git.example.org/runbooks.md#alert"}},
        {"observability": {"runbook": "x.md"}},
        {"observability": {"interval": "30"}},
        {"env": [{"value": "x"}]},
        {"affinity": {"nodes": {}}},
        {"annotations": {"a": 1}},
        {"podLabels": {"app.kubernetes.io/name": "other"}},
        {"resourceMap": {"npu": {"class": "a"}}},
        {"resourceMap": {"example.com/npu": {"name": "a"}}},
        {"resourceMap": {"example.com/npu": {"class": "a", "selector": "true"}}},
        {"resourceMap": {"example.com/npu": {"class": "a", "selector": "true", "name": ""}}},
        {"resourceMap": {"example.com/npu": {"class": ""}}},
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]):
    with pytest.raises(jsonschema.ValidationError):
        chart.validate(BASE | values)


@pytest.mark.parametrize(
    "values",
    [BASE, {"ownClasses": ["gpu"]}, {"koordinator": True}, {"mode": "shadow", "replicas": 1}],
    ids=str,
)
def test_what_owns_something_or_only_compares_is_accepted(values: dict[str, Any]):
    chart.validate(values)


def test_the_schema_knows_every_value_and_no_other():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"].keys() - {"global"} == DEFAULTS.keys()
    for part in ("image", "serviceAccount", "admission", "observability", "tests"):
        assert SCHEMA["properties"][part]["properties"].keys() == DEFAULTS[part].keys()


def test_the_table_of_values_is_current_and_describes_each():
    assert chart_values.PAGE.read_text() == chart_values.page(), "run make docs"
    found = list(chart_values.values((CHART / "values.yaml").read_text()))
    assert {one.path.partition(".")[0] for one in found} == DEFAULTS.keys()
    assert [one.path for one in found if not one.meaning] == []


@pytest.mark.parametrize(
    ("values", "told", "untold"),
    [
        (BASE, ("drivers gpu.example.com", "admission.gatePods=true"), ("WARNING", "Koordinator", "shadow")),
        (EVERYTHING, ("classes a, b", "Koordinator", "kubectl label namespace"), ("NOTE", "WARNING")),
        ({**BASE, "replicas": 1}, ("WARNING: replicas is 1.",), ()),
        ({**BASE, "tests": {"enabled": False}}, (), ("helm test",)),
        (SHADOW, ("compares",), ("WARNING", "NOTE", "release-gates", "gatePods")),
    ],
)  # fmt: skip
def test_the_notes_say_what_is_owned_and_what_to_do_next(
    values: dict[str, Any], told: tuple[str, ...], untold: tuple[str, ...]
):
    notes = chart.texts(values)[NOTES]
    assert [text for text in told if text not in notes] == []
    assert [text for text in untold if text in notes] == []
    assert "\n\n\n" not in notes


SINCE_0_2 = (
    "apiServerPeers", "makeTemplates", "policy", "preemption", "preemptingClasses", "rebalance",
    "evictionRequestSeconds", "rebalanceGoals", "rebalanceNamespaces", "kueueCheck", "provisioningRequests",
)  # fmt: skip


def test_values_that_an_earlier_version_did_not_have_may_be_missing(monkeypatch: pytest.MonkeyPatch):
    """`helm upgrade --reuse-values` has the values of the old release, without defaults of the new one."""
    wanted = chart.objects(chart.texts(BASE | {"admission": {"confine": False}}))
    older = {key: value for key, value in DEFAULTS.items() if key not in SINCE_0_2}
    assert len(older) == len(DEFAULTS) - len(SINCE_0_2)
    older["admission"] = {"confine": False, "gatePods": False}
    monkeypatch.setattr(chart, "DEFAULTS", older)
    assert chart.objects(chart.texts(BASE)) == wanted
