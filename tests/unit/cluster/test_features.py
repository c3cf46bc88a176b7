"""What an API server's release lacks is not used, since the server would drop its fields."""

import pytest

from reconciler.api.objects.semantics import (
    CONSUMABLE_CAPACITY,
    FRACTIONAL_RANGE,
    LIST_ATTRIBUTES,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    TAINT_RULES,
)
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import missing_gates
from reconciler.cluster.kinds import NODE, Resource, Served
from tests.tools.scripted_transport import Scripted, ok

RULES = Resource("DeviceTaintRule", "resource.k8s.io", "v1", "devicetaintrules", namespaced=False)
WITH_RULES = Served({"Node": NODE, "DeviceTaintRule": RULES})
WITHOUT = Served({"Node": NODE})

SERVERS = [
    pytest.param({"minor": "37", "gitVersion": "v1.37.0"}, WITH_RULES, {LIST_ATTRIBUTES}, id="1.37"),
    pytest.param(
        {"minor": "36", "gitVersion": "v1.36.2"},
        WITHOUT,
        {LIST_ATTRIBUTES, FRACTIONAL_RANGE, TAINT_RULES},
        id="1.36",
    ),
    pytest.param({"minor": "36", "gitVersion": "v1.36.2+dra-reconciler"}, WITHOUT, set(), id="embedded"),
    pytest.param({"minor": "?", "gitVersion": "odd"}, WITH_RULES, {LIST_ATTRIBUTES}, id="unreadable"),
]


@pytest.mark.parametrize(("version", "served", "expected"), SERVERS)
async def test_gates_follow_the_release_and_the_kinds_served(version, served, expected):
    assert await missing_gates(Client(Scripted(ok(version))), served) == expected


async def test_an_older_release_of_a_vendor_lacks_what_was_alpha_then():
    off = await missing_gates(Client(Scripted(ok({"minor": "34+", "gitVersion": "v1.34.1-gke.1"}))), WITHOUT)
    assert {CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES} <= off
    assert PRIORITIZED_LIST not in off
