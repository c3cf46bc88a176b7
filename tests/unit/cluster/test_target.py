"""Kubeconfig files are merged as kubectl merges them, and say whom to act as."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.api.objects.semantics import (
    COMPOSITE_GROUPS,
    CONSUMABLE_CAPACITY,
    FRACTIONAL_RANGE,
    GATES,
    GENERIC_WORKLOAD,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    TAINT_RULES,
    FeatureGate,
)
from reconciler.cluster import target as targets
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, missing_gates
from reconciler.cluster.kinds import NODE, Resource, Served
from reconciler.cluster.target import Target, choose_target, impersonation_headers, without_password
from reconciler.errors import Rejected
from tests.tools.scripted_transport import Scripted, ok, status


def write(path: Path, **found: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({name.replace("_", "-"): value for name, value in found.items()}))
    return str(path)


def complete(path: Path, name: str, server: str, **context: str) -> str:
    """A kubeconfig with one cluster, user and context of that name, which is the current one."""
    return write(
        path,
        current_context=name,
        clusters=[{"name": name, "cluster": {"server": server}}],
        users=[{"name": name, "user": {"token": "t"}}],
        contexts=[{"name": name, "context": {"cluster": name, "user": name, **context}}],
    )


def chosen(**options: str) -> Target:
    return choose_target(**{"server": None, "kubeconfig": None, "context": None, **options})


@pytest.fixture
def both(tmp_path, monkeypatch) -> None:
    one = complete(tmp_path / "one", "prod", "https://one", namespace="team")
    two = complete(tmp_path / "two", "test", "https://two")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", str(tmp_path / "missing"), one, two]))


def test_the_first_file_that_sets_the_context_counts(both):
    target = chosen()
    assert str(target) == "https://one (context prod)"
    assert target.namespace == "team"


def test_a_context_of_any_file_can_be_named(both):
    assert str(chosen(context="test")) == "https://two (context test)"
    assert chosen(context="test").namespace == "default"


def test_the_first_entry_of_a_name_counts_as_a_whole(tmp_path, monkeypatch):
    """A second entry does not add to it: half of one cluster and half of another would be neither."""
    one = write(tmp_path / "one", clusters=[{"name": "c", "cluster": {"server": "https://one"}}])
    two = write(
        tmp_path / "two",
        clusters=[{"name": "c", "cluster": {"server": "https://two", "tls-server-name": "two"}}],
        users=[{"name": "c", "user": {}}],
        contexts=[{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        current_context="c",
    )
    monkeypatch.setenv("KUBECONFIG", f"{one}{os.pathsep}{two}")
    assert chosen().settings() == {"server": "https://one"}


def test_paths_are_relative_to_their_own_file(tmp_path, monkeypatch):
    clusters = [{"name": "c", "cluster": {"server": "https://c", "certificate-authority": "ca"}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "me"}}]
    one = write(tmp_path / "a" / "config", clusters=clusters, contexts=contexts, current_context="c")
    me = {"client-certificate": "me", "tokenFile": "/abs", "exec": {"command": "./plugin"}}
    you = {"exec": {"command": "plugin"}}
    users = [{"name": "me", "user": me}, {"name": "you", "user": you}]
    two = write(tmp_path / "b" / "config", users=users)
    monkeypatch.setenv("KUBECONFIG", f"{one}{os.pathsep}{two}")
    kubeconfig = chosen().kubeconfig
    assert kubeconfig is not None
    found = kubeconfig.entry("clusters", "c")
    assert found == {"server": "https://c", "certificate-authority": f"{tmp_path}/a/ca"}
    assert kubeconfig.entry("users", "me") == {
        "client-certificate": f"{tmp_path}/b/me",
        "tokenFile": "/abs",
        "exec": {"command": f"{tmp_path}/b/plugin"},
    }
    assert kubeconfig.entry("users", "you") == you  # found on the PATH


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": "nope"}, "there is no context nope; contexts: prod, test"),
        ({"kubeconfig": "/nowhere"}, "there is no kubeconfig at /nowhere"),
        ({"server": "127.0.0.1"}, "'127.0.0.1' is not an http or https URL"),
    ],
)
def test_what_does_not_exist_is_named(both, options, message):
    with pytest.raises(Rejected, match=message):
        chosen(**options)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"cluster": "x", "user": "prod"}, "context prod names cluster x, which is missing"),
        ({"user": "x"}, "context prod names user x, which is missing"),
        ({"user": ""}, "context prod has no user"),
    ],
)
def test_a_context_must_be_complete(tmp_path, context, message):
    path = complete(tmp_path / "one", "prod", "https://one", **context)
    with pytest.raises(Rejected, match=message):
        chosen(kubeconfig=path)


def test_in_a_pod_empty_files_do_not_count(tmp_path, monkeypatch):
    (tmp_path / "namespace").write_text("team\n")
    monkeypatch.setattr(targets, "POD_NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    target = chosen()
    assert str(target) == "https://[fd00::1]:443 (service account of this pod)"
    assert target.namespace == "team"


def test_no_password_is_shown():
    assert without_password("https://me:secret@host:1/x?token=y") == "https://host:1/x"
    assert str(Target("http://me:secret@host")) == "http://host"


def test_each_field_becomes_the_headers_that_the_server_knows():
    values = {
        "token": "t",
        "as": "alice",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/Scope": ["x", "y"]},
    }
    assert impersonation_headers("u", values) == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2FScope", "x"),
        ("Impersonate-Extra-example.com%2FScope", "y"),
    ]
    assert (
        impersonation_headers("u", {"token": "t"})
        == impersonation_headers("u", {"as": "", "as-groups": None})
        == []
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"as-groups": ["system:masters"]}, "as is not set"),
        ({"as-uid": "7"}, "as is not set"),
        ({"as": ["alice"]}, "as is not text"),
        ({"as": "alice", "as-groups": "a"}, "as-groups is not a list"),
        ({"as": "alice", "as-groups": [7]}, "as-groups is not text"),
        ({"as": "alice", "as-groups": [""]}, "is empty or not printable"),
        ({"as": "alice\r\nImpersonate-Group: b"}, "is empty or not printable"),
        ({"as": "alice", "as-user-extra": ["a"]}, "as-user-extra is not a map"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_nothing_runs_with_other_rights(values: dict[str, Any], said: str):
    with pytest.raises(Rejected, match=said) as refused:
        impersonation_headers("admin", values)
    assert str(refused.value).startswith("cannot reach a cluster: user admin of the kubeconfig: as")


def test_a_context_says_as_whom_it_acts(tmp_path: Path):
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://host"}}],
        "users": [{"name": "admin", "user": {"token": "t", "as": "alice"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    target = choose_target(server=None, kubeconfig=str(path), context=None)
    assert target.impersonation() == [("Impersonate-User", "alice")]
    assert str(target) == "https://host (context x, as alice)"


# -- What a server serves, and which features it lacks.


CLAIMS = {
    "deviceclasses": "DeviceClass",
    "resourceclaims": "ResourceClaim",
    "resourceslices": "ResourceSlice",
}
RULES = {"devicetaintrules": "DeviceTaintRule"}


def group(*versions: str) -> Any:
    entries = [{"groupVersion": f"resource.k8s.io/{version}", "version": version} for version in versions]
    return ok({"kind": "APIGroup", "name": "resource.k8s.io", "versions": entries})


def resources(kinds: dict[str, str]) -> Any:
    found = []
    for plural, kind in kinds.items():
        common = {"kind": kind, "namespaced": kind == "ResourceClaim"}
        found.append({**common, "name": plural, "verbs": ["create", "list", "watch"]})
        found.append({**common, "name": f"{plural}/status", "verbs": ["get", "patch"]})
    return ok({"kind": "APIResourceList", "resources": found})


SERVERS = [
    pytest.param([("v1", CLAIMS), ("v1beta2", CLAIMS), ("v1beta1", CLAIMS)], "v1", None, id="1.35"),
    pytest.param([("v1", CLAIMS), ("v1beta2", CLAIMS | RULES)], "v1", "v1beta2", id="1.36"),
    pytest.param([("v1", CLAIMS | RULES), ("v1beta2", CLAIMS | RULES)], "v1", "v1", id="1.37"),
    pytest.param(
        [("v1beta1", CLAIMS), ("v1beta2", CLAIMS), ("v1alpha3", RULES)], "v1beta2", "v1alpha3", id="1.33"
    ),
    pytest.param([("v1beta1", CLAIMS), ("v1alpha3", CLAIMS)], "v1beta1", None, id="1.32"),
]


@pytest.mark.parametrize(("versions", "claims", "rules"), SERVERS)
async def test_each_kind_is_used_in_the_best_version_served(versions, claims, rules):
    answers = [group(*(version for version, _ in versions)), *(resources(kinds) for _, kinds in versions)]
    served = await discover(Client(Scripted(*answers)))
    assert served["ResourceClaim"].version == claims
    assert served["ResourceSlice"].everywhere == f"/apis/resource.k8s.io/{claims}/resourceslices"
    assert (served["DeviceTaintRule"].version if "DeviceTaintRule" in served else None) == rules
    assert served["Node"].everywhere == "/api/v1/nodes"
    assert served["ResourceSlice"].page < served["ResourceClaim"].page


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param([status(404)], "it offers no version", id="feature off"),
        pytest.param([group("v1alpha3"), resources(CLAIMS)], "it offers v1alpha3", id="1.31"),
        pytest.param([group("v1"), ok({"resources": None})], "it offers v1", id="a version without kinds"),
    ],
)
async def test_a_server_without_claims_we_can_read_is_refused_at_start(answers, said):
    with pytest.raises(Rejected, match=said):
        await discover(Client(Scripted(*answers)))


RULE_KIND = Resource("DeviceTaintRule", "resource.k8s.io", "v1", "devicetaintrules", namespaced=False)
WITH_RULES = Served({"Node": NODE, "DeviceTaintRule": RULE_KIND})
WITHOUT = Served({"Node": NODE})

OF_NO_RELEASE = {
    name
    for name, gate in GATES.items()
    if gate == FeatureGate()  # needs the server, is no preview, and no kind shows it
}

RELEASES = [
    pytest.param({"minor": "37", "gitVersion": "v1.37.0"}, WITH_RULES, OF_NO_RELEASE, id="1.37"),
    pytest.param(
        {"minor": "36", "gitVersion": "v1.36.2"},
        WITHOUT,
        {*OF_NO_RELEASE, FRACTIONAL_RANGE, TAINT_RULES},
        id="1.36",
    ),
    pytest.param({"minor": "36", "gitVersion": "v1.36.2+dra-reconciler"}, WITHOUT, set(), id="embedded"),
    pytest.param({"minor": "?", "gitVersion": "odd"}, WITH_RULES, OF_NO_RELEASE, id="unreadable"),
]


@pytest.mark.parametrize(("version", "served", "expected"), RELEASES)
async def test_gates_follow_the_release_and_the_kinds_served(version, served, expected):
    answers = [ok(version), status(404), status(404)]  # for both its gates: no group scheduling.k8s.io
    expected = expected and {*expected, COMPOSITE_GROUPS, GENERIC_WORKLOAD}
    assert await missing_gates(Client(Scripted(*answers)), served) == expected


async def test_a_kind_of_scheduling_shows_its_gate():
    served, no_pod_groups = group("v1alpha3"), resources({"compositepodgroups": "CompositePodGroup"})
    answers = [ok({"minor": "37"}), served, no_pod_groups, served, no_pod_groups]
    off = await missing_gates(Client(Scripted(*answers)), WITH_RULES)
    assert {COMPOSITE_GROUPS, GENERIC_WORKLOAD} & off == {GENERIC_WORKLOAD}


async def test_an_older_release_of_a_vendor_lacks_what_was_alpha_then():
    version = ok({"minor": "34+", "gitVersion": "v1.34.1-gke.1"})
    off = await missing_gates(Client(Scripted(version, status(404), status(404))), WITHOUT)
    assert {CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES} <= off
    assert PRIORITIZED_LIST not in off
