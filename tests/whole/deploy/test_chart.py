"""The Helm chart makes what kustomize makes, object by object, and refuses values that mean nothing."""

import json
import tomllib
from copy import deepcopy
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.tools.deployed_rights import DEPLOY, documents
from tests.tools.go_template import NotInOurPart, render
from tests.tools.kustomize import VERSIONS, built

CHART = DEPLOY / "helm" / "dra-reconciler"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
EVERYTHING: dict[str, Any] = {
    "image": {"tag": "1.2", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "s"}],
    "ownClasses": ["a", "b"],
    "koordinator": True,
    "env": [{"name": "DRA_RECONCILER_LOG_LEVEL", "value": "debug"}],
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "admission": {"confine": True, "gatePods": True},
    "observability": {"enabled": True, "runbooks": "https://git.example.org/v1/docs/runbooks.md"},
}
OPERATORS = {"PrometheusRule", "ServiceMonitor"}
"""Kinds of the Prometheus operator, for which there are no published schemas here"""


def merged(base: Any, over: Any) -> Any:
    """As Helm merges values: maps by key, all else replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: merged(base.get(key), over[key]) if key in over else base[key] for key in base | over}
    return deepcopy(over)


def rendered(release: str = "dra-reconciler", **values: Any) -> dict[tuple[str, str], Any]:
    """The objects of a release, by kind and name."""
    dot = {
        "Values": merged(DEFAULTS, values),
        "Release": {"Name": release, "Namespace": "dra-reconciler"},
        "Chart": {"AppVersion": METADATA["appVersion"]},
        "Files": {"Get": lambda path: (CHART / path).read_text()},
    }
    jsonschema.validate(dot["Values"], SCHEMA)
    found = [one for path in TEMPLATES for one in yaml.safe_load_all(render(path.read_text(), dot)) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def compared(objects: list[Any]) -> dict[tuple[str, str], Any]:
    """What both make: not the Namespace, which Helm has a flag for, nor what says how often to pull."""
    found = {}
    for one in deepcopy(objects):
        if one["kind"] != "Namespace":
            one["metadata"].pop("labels", None)
            found[one["kind"], one["metadata"]["name"]] = one
        if one["kind"] == "Deployment":
            one["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
    return found


def test_by_default_it_makes_what_the_base_makes():
    assert compared(list(rendered().values())) == compared(built("base"))


def test_for_shadow_it_makes_what_the_overlay_makes():
    made = rendered("dra-reconciler-shadow", mode="shadow", replicas=1)
    wanted = compared(built("overlays/shadow"))
    delegator = ("ClusterRoleBinding", "dra-reconciler-auth-delegator-shadow")
    # Helm has the name of the release in front, kustomize a suffix behind.
    renamed = wanted.pop(delegator)
    renamed["metadata"]["name"] = "dra-reconciler-shadow-auth-delegator"
    wanted["ClusterRoleBinding", "dra-reconciler-shadow-auth-delegator"] = renamed
    assert compared(list(made.values())) == wanted


def test_the_admission_policies_are_those_of_kustomize():
    made = rendered(admission={"confine": True, "gatePods": True})
    wanted = compared(documents("admission"))
    assert {key: made[key] for key in wanted} == wanted
    assert made.keys() == rendered().keys() | wanted.keys()


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
@pytest.mark.parametrize("values", [{}, EVERYTHING, {"mode": "shadow"}], ids=["defaults", "all", "shadow"])
def test_what_it_makes_fits_the_published_schemas(values: dict[str, Any], version: str):
    for document in rendered(**values).values():
        if document["kind"] not in OPERATORS:
            kubernetes_validate.validate(document, version, strict=True)


def test_every_value_has_its_effect():
    pod = rendered(**EVERYTHING)["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    set_there = {one["name"].removeprefix("DRA_RECONCILER_"): one["value"] for one in container["env"]}
    assert container["image"] == f"registry.example.com/dra-reconciler@sha256:{'a' * 64}"
    assert (set_there["OWN_CLASSES"], set_there["KOORDINATOR"], set_there["LOG_LEVEL"]) == (
        "a,b", "true", "debug",
    )  # fmt: skip
    for name in ("imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations"):
        assert pod[name] == EVERYTHING[name]
    tagged = rendered(image={"tag": "1.2"})["Deployment", "dra-reconciler"]["spec"]["template"]["spec"]
    assert tagged["containers"][0]["image"].endswith("/dra-reconciler:1.2")
    assert ("NetworkPolicy", "dra-reconciler") not in rendered(networkPolicy=False)


def test_another_release_and_namespace_have_names_of_their_own():
    made = rendered("other")
    assert not [name for _, name in made if name.startswith("dra-reconciler")]
    policies = [one for one in documents("admission") if one["kind"] == "ValidatingAdmissionPolicy"]
    for one in policies:
        name = one["metadata"]["name"].replace("dra-reconciler", "other")
        made = rendered("other", admission={"confine": True})
        (condition,) = made["ValidatingAdmissionPolicy", name]["spec"]["matchConditions"]
        assert '"system:serviceaccount:dra-reconciler:other"' in condition["expression"]


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "both"},
        {"replicas": "2"},
        {"ownDrivers": "gpu.example.com"},
        {"ownDrivers": ["a,b"]},
        {"image": {"digest": "sha256:short"}},
        {"admission": {"confines": True}},
        {"resource": {}},
        {"observability": {"runbooks": "https://git.example.org/runbooks.md#alert"}},
        {"observability": {"runbook": "x.md"}},
        {"env": [{"value": "x"}]},
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(DEFAULTS, values), SCHEMA)


def test_the_schema_knows_every_value_and_no_other():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"].keys() - {"global"} == DEFAULTS.keys()
    for part in ("image", "admission", "observability"):
        assert SCHEMA["properties"][part]["properties"].keys() == DEFAULTS[part].keys()


def test_the_chart_says_what_it_is():
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert METADATA["apiVersion"] == "v2"
    assert METADATA["type"] == "application"
    assert METADATA["name"] == CHART.name == project["name"]
    assert METADATA["version"] == METADATA["appVersion"] == project["version"]
    assert METADATA["description"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a {{ .x }} b", "a 1 b"),
        ("a\n {{- .x }} b", "a1 b"),
        ("a {{ .x -}} \n b", "a 1b"),
        ("{{ if .no }}a{{ else }}b{{ end }}", "b"),
        ("{{ if .x }}{{ if .no }}a{{ end }}c{{ else }}b{{ end }}", "c"),
        ("{{ if .missing }}{{ nothing }}{{ end }}", ""),
        ("{{ with .m }}{{ .k }}{{ end }}", "v"),
        ("{{ with .empty }}a{{ else }}{{ .x }}{{ end }}", "1"),
        ('{{ .s | replace "a" .t2 }}', 'x"b'),
        ('{{ .s | quote }}', '"a\\"b"'),
        ('{{ "x" | default .s | printf "%s-%s" "y" }}', "y-x"),
        ('{{ .l | join "," }}', "p,q"),
        ("k:\n  {{- toYaml .m | nindent 2 }}", "k:\n  k: v"),
        ('{{ if eq .s "a" }}a{{ end }}{{ if ne .x 2 }}b{{ end }}', "b"),
        ("{{ .t }}", "true"),
    ],
)  # fmt: skip
def test_templates_become_the_text_that_go_makes(template: str, text: str):
    dot = {
        "x": 1,
        "m": {"k": "v"},
        "empty": {},
        "s": 'a"b',
        "l": ["p", "q"],
        "no": False,
        "t": True,
        "t2": "x",
    }
    assert render(template, dot) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ if .x }}", "{{ end }}", "{{ else }}", "{{ range .l }}{{ end }}", "{{ include .x }}", "{{ .x",
        "{{ $y := .x }}", "{{ .m }}", "{{ .x.y }}", "{{ (eq .x 1) }}", "{{ .x 1 }}", '{{ printf "%d" .x }}',
    ],
)  # fmt: skip
def test_what_goes_beyond_our_part_is_refused(template: str):
    with pytest.raises(NotInOurPart):
        render(template, {"x": 1, "m": {}, "l": []})
