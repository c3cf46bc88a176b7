"""Claims that kube-scheduler will bind for pods that are decided and not bound."""

from reconciler.api.objects.changes import Changed
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from tests.tools.placed_pods import as_pod
from tests.tools.scenario import asking, machine
from tests.tools.small_fleet import Object
from tests.tools.volume_scenarios import mounting, storage_class, volume_claim


class World:
    def __init__(self) -> None:
        self.nodes = Nodes()
        self.pod = as_pod(asking("p", **mounting("data")))
        self.claim = read(volume_claim("data")).key
        for one in (machine("a"), storage_class()):
            self.put(one)

    def put(self, raw: Object) -> None:
        self.nodes.note(Changed(raw["kind"], read(raw)))

    def node_of(self) -> str:
        promised = self.nodes.volumes.promised
        assert promised.node_of(self.claim, but=[self.pod.key]) == ""
        found = promised.node_of(self.claim, but=())
        assert [node for _, node in promised.claims(but=())] == [found] * bool(found)
        return found


def test_a_claim_is_promised_while_its_pod_is_decided():
    """Whatever comes first, the claim or the decision."""
    for claim_first in (True, False):
        world = World()
        if claim_first:
            world.put(volume_claim("data"))
        assert world.node_of() == ""
        world.nodes.host(world.pod.key, world.pod, "a")
        world.put(volume_claim("data"))
        assert world.node_of() == "a"
        world.nodes.host(world.pod.key, None)
        assert world.node_of() == ""


def test_a_claim_that_is_bound_or_being_made_is_not_promised():
    world = World()
    world.nodes.host(world.pod.key, world.pod, "a")
    made = volume_claim("data")
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "a"}
    for raw in (made, volume_claim("data", volume="v")):
        world.put(volume_claim("data"))
        assert world.node_of() == "a"
        world.put(raw)
        assert world.node_of() == ""


def test_a_bound_pod_has_its_volumes():
    """kube-scheduler binds claims before pods; who binds a pod itself takes no volume from others."""
    world = World()
    world.put(volume_claim("data"))
    world.nodes.host(world.pod.key, world.pod, "a")
    bound = as_pod(asking("p", nodeName="a", **mounting("data")))
    world.nodes.host(bound.key, bound, "a")
    assert world.node_of() == ""
