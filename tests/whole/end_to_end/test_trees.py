"""Trees of groups on a server: all of a tree gets devices before the first gate is removed, or nothing."""

from typing import Any

from reconciler.api.objects.gangs import SEAT
from reconciler.api.validation.served_kinds import POD, SLICE
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.every import GangGivenBack, GangPlaced
from tests.tools.faulty_transport import Held
from tests.tools.gangs import child_of, composite_group, grouped, pod_group
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, node

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0, "drain_seconds": 0.05}


def fleet(*racks: str) -> list[Object]:
    """Nodes n0, n1 and so on with a device, in these racks of one block."""
    nodes = [node(f"n{number}", rack=rack, block="b") for number, rack in enumerate(racks)]
    return [device_class(), *nodes, *(devices(f"n{number}", "gpu-0") for number in range(len(racks)))]


def groups(*names: str, least: int = 2, pods: int = 2) -> list[Object]:
    """A tree in a block, of groups in a rack each."""
    made = [child_of("tree", pod_group(name, pods, topology="rack")) for name in names]
    return [composite_group("tree", least, topology="block"), *made]


def members(group: str, pods: int = 2) -> list[Object]:
    """The pods `a0`, `a1` and so on of a group, with their claims."""
    names = [f"{group}{number}" for number in range(pods)]
    return [claim(name) for name in names] + [grouped(name, name, group=group) for name in names]


def nodes_of(cluster: Cluster, *pods: str) -> set[str]:
    found = set()
    for name in pods:
        record = cluster.api.store[POD].get(f"default/{name}")
        assert record is not None
        affinity = record.object["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        found.add(term["matchFields"][0]["values"][0])
    return found


async def why(running: Running, *reasons: str) -> str:
    """Why the tree waits for one of these reasons: kinds are listed before."""
    return (await running.heard(Waits, counts=lambda one: one.reason in reasons))[-1].message


async def test_all_of_a_tree_is_written_before_its_first_gate_is_removed():
    cluster = Cluster(fleet("r0", "r1", "r1", "r0"))
    last = Held()
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/b1/status", last), **SLOW) as running:
        cluster.load(*groups("a", "b"), *members("a"), *members("b"))
        await last.arrived.wait()
        assert cluster.devices("a0")
        assert cluster.gated("a0")
        last.go.set()
        await running.heard(Ungated, 4)
        (placed,) = running.of(GangPlaced)
    assert (str(placed.gang), placed.size) == ("default/tree", 4)
    assert [nodes_of(cluster, f"{one}0", f"{one}1") for one in "ab"] == [{"n0", "n3"}, {"n1", "n2"}]
    assert cluster.claim("a0")["metadata"]["annotations"][SEAT].startswith("podgroup/a 4 n")


async def test_a_tree_that_lacks_room_for_one_group_holds_nothing_and_names_it():
    cluster = Cluster(fleet("r0", "r0", "r1"))
    cluster.load(*groups("a", "b"), *members("a"), *members("b"))
    async with reconciling(cluster, **SLOW) as running:
        message = await why(running, "GangUnplaced")
        assert "1 of 2 groups of default/tree fit together at most in block=b" in message
        assert "b needs 2 pods together in one rack" in message
        assert not any(cluster.devices(name) for name in ("a0", "a1", "b0", "b1"))
        cluster.load(node("n3", rack="r1", block="b"), devices("n3", "gpu-0"))
        await running.heard(Ungated, 4)


async def test_a_tree_waits_for_its_groups_and_their_pods():
    cluster = Cluster(fleet("r0", "r0", "r1", "r1"))
    tree, first, second = groups("a", "b")
    cluster.load(first, *members("a"))
    async with reconciling(cluster, **SLOW) as running:
        message = await why(running, "GangNotFound")
        assert "CompositePodGroup default/tree, which a names as its parent, does not exist" in message
        cluster.load(tree, second, *members("b", 1))
        await running.heard(Waits, counts=lambda one: one.message.endswith("b: 1 of 2 pods exist"))
        assert cluster.gated("a0")
        cluster.load(claim("b1"), grouped("b1", "b1", group="b"))
        await running.heard(Ungated, 4)


async def test_a_group_that_was_left_out_follows_as_a_whole():
    cluster = Cluster(fleet("r0", "r0", "r1"))
    cluster.load(*groups("a", "b", least=1), *members("a"), *members("b"))
    async with reconciling(cluster, **SLOW) as running:
        message = await why(running, "GangUnplaced")
        assert message.startswith("default/tree has all groups that it needs")
        assert not cluster.gated("a0")
        assert cluster.gated("b0")
        assert not cluster.devices("b0")
        cluster.load(node("n3", rack="r1", block="b"), devices("n3", "gpu-0"))
        await running.heard(Ungated, 4)
    assert nodes_of(cluster, "b0", "b1") == {"n2", "n3"}


async def test_a_successor_gives_back_a_group_that_cannot_be_completed():
    """It has devices for a whole group and half of the other; the rest of the fleet is gone."""
    cluster = Cluster(fleet("r0", "r0", "r1", "r1"))
    last = Held()
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/b1/status", last), **SLOW):
        cluster.load(*groups("a", "b"), *members("a"), *members("b"))
        await last.arrived.wait()
        await cluster.until(lambda: all(cluster.devices(name) for name in ("a0", "a1", "b0")))
    free = {"n0", "n1", "n2", "n3"} - {cluster.devices(name)[0][:2] for name in ("a0", "a1", "b0")}
    cluster.api.delete(SLICE, "", f"{free.pop()}-{DRIVER}")
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(GangGivenBack)
        await cluster.until(lambda: not any(cluster.devices(name) for name in ("a0", "a1", "b0")))
    assert cluster.gated("a0")
