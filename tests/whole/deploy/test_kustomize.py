"""What kustomize makes of bases, overlays and components."""

from pathlib import Path

import kubernetes_validate
import pytest

from reconciler.embedded.accounts import AccessRequest, Roles, service_account
from tests.tools import monitoring_kinds
from tests.tools.deployed_rights import COMPONENTS, DEPLOY, NAMESPACE, Granted, bound, granted
from tests.tools.kustomize import VERSIONS, built, built_with, of_kind

BUILT = ("base", "overlays/shadow", "admission", "observability", "sweep/play", "sweep/collect")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", BUILT)
def test_what_is_built_fits_the_published_schemas(folder: str, version: str):
    for document in built(folder):
        if document["kind"] in monitoring_kinds.SCHEMAS:
            monitoring_kinds.assert_valid(document)
        else:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("folder", ["base", "overlays/shadow"])
def test_all_select_the_pods_and_none_those_of_the_other(folder: str):
    objects = built(folder)
    deployment = of_kind(objects, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [
        deployment["selector"]["matchLabels"],
        of_kind(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    spread = deployment["template"]["spec"].get("topologySpreadConstraints", [])
    selectors += [one["labelSelector"]["matchLabels"] for one in spread]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert labels["app.kubernetes.io/name"] == "dra-reconciler" + ("-shadow" if "shadow" in folder else "")


def test_shadow_looks_on_with_rights_to_read_alone():
    objects = built("overlays/shadow")
    account = of_kind(objects, "ServiceAccount")["metadata"]
    pod = of_kind(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    (container,) = pod["containers"]
    assert container["args"] == ["run", "--mode", "shadow"]
    assert not {"PAUSE", "LEADER", "LEASE"} & {one["name"].split("_")[2] for one in container["env"]}
    role = of_kind(objects, "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= {"get", "list", "watch"}
    assert {one["kind"] for one in objects}.isdisjoint({"Role", "RoleBinding"})
    (ours,) = [one for one in bound("shadow") if one["kind"] == "ClusterRole"]
    assert role["rules"] == ours["rules"]


def test_roles_are_bound_to_the_account_that_the_pod_runs_under():
    for folder in ("base", "overlays/shadow"):
        objects = built(folder)
        account = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
        sender = service_account(NAMESPACE, account)
        roles = Roles.read(objects)
        assert roles.allows(sender, AccessRequest("list", "resource.k8s.io", "resourceclaims"))
        assert roles.allows(sender, AccessRequest("patch", "", "pods")) is (folder == "base")


def test_one_annotation_says_where_the_runbooks_are(tmp_path: Path):
    url = "https://git.example.org/v1/docs/runbooks.md"
    for path in (DEPLOY / "observability").iterdir():
        text = path.read_text().replace("io/runbooks: docs/runbooks.md", f"io/runbooks: {url}")
        (tmp_path / path.name).write_text(text)
    rules = of_kind(built(str(tmp_path)), "PrometheusRule")["spec"]["groups"]
    links = {rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"]}
    assert {link.partition("#")[0] for link in links} == {url}


def test_a_component_gives_the_pod_its_priority(tmp_path: Path):
    pod = of_kind(built_with("priority", tmp_path), "Deployment")["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_the_component_for_evictions_binds_a_role_of_its_own(tmp_path: Path):
    objects = built_with("rebalance", tmp_path)
    sender, roles = service_account(NAMESPACE, "dra-reconciler"), Roles.read(objects)
    assert roles.allows(sender, AccessRequest("create", "", "pods/eviction"))
    assert not roles.allows(sender, AccessRequest("delete", "", "pods"))
    assert not Roles.read(built("base")).allows(sender, AccessRequest("create", "", "pods/eviction"))
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    set_there = {one["name"]: one.get("value") for one in container["env"]}
    assert set_there["DRA_RECONCILER_PREEMPTION"] == "evict"


@pytest.mark.parametrize("mode", COMPONENTS)
def test_a_component_gives_the_rights_of_its_mode_and_no_others(mode: str, tmp_path: Path):
    before, after = (Granted(made).rights for made in (built("base"), built_with(COMPONENTS[mode], tmp_path)))
    assert after == before | granted(mode).rights


def test_the_component_for_kueue_binds_a_role_of_its_own(tmp_path: Path):
    objects = built_with("kueue", tmp_path)
    sender, roles = service_account(NAMESPACE, "dra-reconciler"), Roles.read(objects)
    asked = AccessRequest("patch", "kueue.x-k8s.io", "workloads/status")
    assert roles.allows(sender, asked)
    assert not roles.allows(sender, AccessRequest("patch", "kueue.x-k8s.io", "workloads"))
    assert not Roles.read(built("base")).allows(sender, asked)
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "DRA_RECONCILER_KUEUE_CHECK", "value": "room"} in container["env"]
