"""What nominations hold: room of nodes, and which of the devices of plans."""

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import HeldPlace, Nomination, Nominee, devices_of, of_claim, of_gang
from tests.tools.builders import hold, node, typed

CPU = "cpu"


def machine() -> Nodes:
    """A node with four CPUs."""
    nodes = Nodes()
    nodes.note(Changed("Node", typed({**node("n"), "status": {"allocatable": {CPU: "4"}}})))
    return nodes


def nomination(nominee: Nominee, *, cpu: int = 0) -> Nomination:
    place = HeldPlace("n", (DeviceID("d", "p", "A"),), ((CPU, cpu),) if cpu else ())
    return Nomination(nominee, (place,), 0, 10.0, "2026-01-01T12:00:00Z")


def test_a_nomination_of_devices_alone_leaves_the_room_as_it_is():
    nodes, who = machine(), of_claim(ObjectKey("default", "c"))
    nodes.nominated.hold(nomination(who))
    assert nodes.room.fits(
        {CPU: 1}, frozenset(), but=nodes.nominated.charges_of(frozenset([who]))
    ).tolist() == [True]
    assert not nodes.nominated
    nodes.nominated.hold(nomination(who, cpu=1000))
    assert nodes.nominated
    assert nodes.nominated.hold(nomination(who))
    assert not nodes.nominated


def test_gangs_of_one_name_that_are_declared_in_two_ways_hold_room_of_their_own():
    nodes = machine()
    gangs = [
        of_gang(GangKey("default", source, "g")) for source in (GangSource.POD_GROUP, GangSource.ANNOTATION)
    ]
    free = nodes.room.left("n", CPU)
    for gang in gangs:
        nodes.nominated.hold(nomination(gang, cpu=1000))
    assert nodes.room.left("n", CPU) == free - 2000
    nodes.nominated.end(gangs[0])
    assert nodes.room.left("n", CPU) == free - 1000


def test_devices_with_admin_access_are_not_held():
    results = [hold("A"), hold("B", adminAccess=True)]
    allocation = Allocation.model_validate({"devices": {"results": results}})
    plan = Plan(ObjectKey("default", "c"), "u", "1", "n", allocation)
    assert devices_of([plan]) == (DeviceID("d", "p", "A"),)
