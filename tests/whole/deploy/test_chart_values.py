"""Each value of the Helm chart has its effect, and a rule that refuses what means nothing."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from docs import chart_values
from reconciler.api.migrate.mapping import Wanted, mapping, read_map
from tests.tools import chart, monitoring_kinds
from tests.tools.chart import BASE, CHART, DEFAULTS, EVERYTHING, NOTES, SCHEMA, SHADOW, rendered


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
    "apiServerPeers",
    "makeTemplates",
    "policy",
    "preemption",
    "preemptingClasses",
    "rebalance",
    "rebalanceGoals",
    "rebalanceNamespaces",
    "kueueCheck",
    "provisioningRequests",
)


def test_values_that_an_earlier_version_did_not_have_may_be_missing(monkeypatch: pytest.MonkeyPatch):
    """`helm upgrade --reuse-values` has the values of the old release, without defaults of the new one."""
    wanted = chart.objects(chart.texts(BASE | {"admission": {"confine": False}}))
    older = {key: value for key, value in DEFAULTS.items() if key not in SINCE_0_2}
    assert len(older) == len(DEFAULTS) - len(SINCE_0_2)
    older["admission"] = {"confine": False, "gatePods": False}
    monkeypatch.setattr(chart, "DEFAULTS", older)
    assert chart.objects(chart.texts(BASE)) == wanted
