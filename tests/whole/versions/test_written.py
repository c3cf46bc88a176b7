"""All that the embedded server, its controllers and the reconciler write has the published schemas."""

import msgspec

from reconciler.api.validation.served_kinds import POD
from reconciler.control.decisions.allocating import Waits
from reconciler.embedded import ApiServer
from tests.tools.release_schemas import assert_published
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template


def assert_history_published(api: ApiServer) -> set[str]:
    """Validate each version of each object as each served version shows it. Returns the kinds."""
    found = set()
    for shelf in api.store:
        for served in shelf.kind.served:
            for change in shelf.since(0, shelf.end):
                assert_published(msgspec.json.decode(change.record.whole(served)))
                found.add(shelf.kind.kind)
    return found


async def test_every_version_of_every_object_has_the_published_schema():
    """Validators of twenty kinds are made once: half a second."""
    cluster = Cluster([node("n"), device_class(), devices("n", "d0", "d1"), template("t")])
    short = pod("short", templates=("t",))
    short["metadata"]["annotations"] = {"dra-reconciler.io/run-seconds": "3"}
    cluster.load(short, pod("long", "c"), claim("c"), claim("never", 3))
    cluster.load(pod("unbound", gates=(), nodeSelector={"no": "node"}))
    async with reconciling(cluster, controllers=True, leader_elect=True) as running:
        await running.told(Waits)
        await cluster.until(lambda: cluster.phase("long") == "Running")
        await cluster.until(lambda: cluster.phase("short") == "Succeeded")
        await cluster.until(lambda: cluster.events("never"))
        cluster.api.delete(POD, "default", "long")
        await cluster.until(lambda: not cluster.devices("c"))
    kinds = assert_history_published(cluster.api)
    assert {"Event", "Lease", "Namespace", "Node", "Pod", "ResourceClaim", "ResourceSlice"} <= kinds
