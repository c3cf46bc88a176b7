"""What is deployed is valid, and may do what the reconciler was seen to do, no more."""

import pytest
import yaml

from reconciler.app.leadership import RELEASE_SECONDS
from reconciler.operations.events_writer import FLUSH_SECONDS
from reconciler.settings import Settings
from tests.tools.deployed_base import BASE, KUBERNETES, documents, of_kind
from tests.tools.deployed_rights import DEPLOY
from tests.tools.deployed_rights import documents as rights
from tests.tools.release_schemas import assert_published


def environment() -> dict[str, str]:
    """What the container is told."""
    container = of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


@pytest.mark.parametrize("version", [KUBERNETES, "1.37"])
@pytest.mark.parametrize("document", documents(), ids=lambda d: f"{d['kind']} {d['metadata']['name']}")
def test_every_manifest_fits_the_published_schema(document, version):
    assert_published(document, version)


def test_the_base_names_every_file_beside_it():
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(p.name for p in BASE.glob("*.yaml") if p.name != "kustomization.yaml")


def test_the_pod_is_restricted_and_outlives_all_that_a_stop_waits_for():
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["resources"]["requests"].keys() == {"cpu", "memory"}
    (namespace,) = (one for one in documents() if one["kind"] == "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    drain = Settings.fixed.drain_seconds
    assert pod["terminationGracePeriodSeconds"] > drain + FLUSH_SECONDS + RELEASE_SECONDS


def test_the_config_maps_that_may_be_used_are_those_of_the_settings():
    roles = [found for found in documents() if found["kind"] == "Role"]
    found = {
        f"{role['metadata']['namespace']}/{name}": rule["verbs"]
        for role in roles
        for rule in role["rules"]
        if rule["resources"] == ["configmaps"]
        for name in rule["resourceNames"]
    }
    assert found == {
        environment()["DRA_RECONCILER_PAUSE_CONFIG_MAP"]: ["list", "watch"],
        environment()["DRA_RECONCILER_DEMAND_CONFIG_MAP"]: ["get", "patch"],
    }
    held_room = environment()["DRA_RECONCILER_HELD_ROOM_CONFIG_MAP"].partition("/")[2]
    for component in ("rebalance", "kueue"):  # what holds room
        (role,) = (one for one in rights(f"components/{component}") if one["kind"] == "Role")
        assert [rule["resourceNames"] for rule in role["rules"]] == [[held_room]]


def test_the_config_maps_that_are_written_are_shipped_without_data():
    """Nobody may create them, and applying them again keeps what was written."""
    names = ("DRA_RECONCILER_DEMAND_CONFIG_MAP", "DRA_RECONCILER_HELD_ROOM_CONFIG_MAP")
    shipped = [one for one in documents() if one["kind"] == "ConfigMap"]
    keys = {f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in shipped}
    assert keys == {environment()[name] for name in names}
    assert all(one.keys() == {"apiVersion", "kind", "metadata"} for one in shipped)


def test_the_network_lets_in_what_asks_the_status_port_and_out_to_names_and_the_server():
    policy = of_kind("NetworkPolicy")["spec"]
    listening = of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]
    (into,) = policy["ingress"]
    monitor = yaml.safe_load((DEPLOY / "observability/rbac.yaml").read_text().split("---")[-1])
    scraper = monitor["subjects"][0]["namespace"]
    names = [one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in into["from"]]
    assert names == [scraper, "kube-system"]
    assert [one["port"] for one in into["ports"]] == [one["name"] for one in listening]
    assert {one["port"] for rule in policy["egress"] for one in rule["ports"]} == {53, 443, 6443}
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
