"""For which pods nodes may be requested."""

import pytest

from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Shard
from reconciler.plugins.provisioning.provisioner import groups_of
from tests.tools.small_fleet import DRIVER, claim, device_class, pod
from tests.tools.unit_pictures import intake


@pytest.mark.parametrize(
    ("ours", "count"),
    [
        (Ownership(drivers=frozenset({DRIVER})), 1),
        (Ownership(classes=frozenset({"gpu"})), 1),
        (Ownership(classes=frozenset({"other"})), 0),
        (Ownership(alone=True, shard=Shard(drivers=frozenset({DRIVER}))), 1),
        (Ownership(alone=True, shard=Shard(drivers=frozenset({"other.example.com"}))), 0),
    ],
)
async def test_nodes_are_requested_only_for_pods_that_we_would_serve(ours: Ownership, count: int):
    found = intake(device_class(), claim("c"), pod("p", "c"))
    assert len(groups_of(found.store, ours)) == count
