"""What-if answers about pods that share a claim: they are judged together."""

from itertools import product

from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod
from tests.tools.whatif_asking import ask, racks


def test_pods_that_share_a_claim_share_its_devices():
    world = racks(a=("r", 1), b=("r", 9))
    found = ask(world, claim("c"), pod("p0", "c"), pod("p1", "c"), count=1)
    assert [(one.unit, one.node, len(one.devices)) for one in found.placed] == [
        ("pod default/p0", "a", 1),
        ("pod default/p1", "a", 0),
    ]


def apart(name: str, *claims: str) -> Object:
    """A pod that keeps others of its kind off its node."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pod(name, *claims, affinity=rule)
    made["metadata"]["labels"] = {"app": "x"}
    return made


def hosts(*names: str) -> list[Object]:
    return [node(name, **{"kubernetes.io/hostname": name}) for name in names]


def reached_by(rack: str, *names: str) -> Object:
    """Devices that all nodes of a rack reach."""
    made = devices(f"pool-{rack}", *names)
    del made["spec"]["nodeName"]
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
    made["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return made


def test_pods_that_share_a_claim_are_judged_together():
    """Alone, the first pod would take the device of the rack with one node."""
    nodes = hosts("a", "b", "c")
    for one, rack in zip(nodes, ("r1", "r2", "r2"), strict=True):
        one["metadata"]["labels"]["rack"] = rack
    world = [device_class(), *nodes, reached_by("r1", "d0"), reached_by("r2", "d0")]
    found = ask(world, claim("c"), apart("p0", "c"), apart("p1", "c"))
    assert (found.copies, [one.node for one in found.placed]) == (1, ["b", "c"])
    assert found.placed[0].devices[0][2].pool == "pool-r2"
    assert found.refused is not None


def test_pods_that_share_a_local_claim_and_keep_apart_do_not_fit():
    world = [device_class(), *hosts("a", "b"), devices("a", "d0"), devices("b", "d0")]
    found = ask(world, claim("c"), apart("p0", "c"), apart("p1", "c"))
    assert found.refused is not None
    assert (found.copies, found.refused.unit) == (0, "pod default/p0")


def test_a_chain_of_shared_claims_has_room_as_by_trying_everything():
    """p0 and p1 share a claim; p1 also has one of its own, for which its node needs another device."""
    for counts in product(range(3), repeat=2):
        world = [device_class(), *hosts("a", "b")]
        world += [devices(name, *(f"d{at}" for at in range(n))) for name, n in zip("ab", counts, strict=True)]
        found = ask(world, claim("s"), claim("own"), pod("p0", "s"), pod("p1", "s", "own"), count=1)
        alone = [n for n in counts if n >= 1]
        # First fit: the shared claim goes to the first node with a device, whatever p1 needs besides.
        assert found.fits == (bool(alone) and alone[0] >= 2)
