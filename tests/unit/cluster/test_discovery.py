"""What a server serves, and which features it lacks."""

from typing import Any

import pytest

from reconciler.api.objects.semantics import (
    COMPOSITE_GROUPS,
    CONSUMABLE_CAPACITY,
    FRACTIONAL_RANGE,
    GATES,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    TAINT_RULES,
    FeatureGate,
)
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, missing_gates
from reconciler.cluster.kinds import NODE, Resource, Served
from reconciler.errors import Rejected
from tests.tools.scripted_transport import Scripted, ok, status

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
    answers = [ok(version), status(404)]  # the second one: no group scheduling.k8s.io
    expected = expected and {*expected, COMPOSITE_GROUPS}
    assert await missing_gates(Client(Scripted(*answers)), served) == expected


async def test_a_kind_of_scheduling_shows_its_gate():
    groups = resources({"compositepodgroups": "CompositePodGroup"})
    answers = [ok({"minor": "37"}), group("v1beta1", "v1alpha3"), groups]
    assert COMPOSITE_GROUPS not in await missing_gates(Client(Scripted(*answers)), WITH_RULES)


async def test_an_older_release_of_a_vendor_lacks_what_was_alpha_then():
    version = ok({"minor": "34+", "gitVersion": "v1.34.1-gke.1"})
    off = await missing_gates(Client(Scripted(version, status(404))), WITHOUT)
    assert {CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES} <= off
    assert PRIORITIZED_LIST not in off
