"""Which pods may be moved, what a target stands for, and what plans do for whole nodes and groups."""

from typing import Any

import pytest

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.defragment import Answer, defragment
from reconciler.analysis.relocation.goals import NODE, Held, Target, for_each_kind, movers_of
from reconciler.analysis.relocation.moves_planner import MOST_TRIED, Ended
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import World, world_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from reconciler.state.nominations import HeldPlace, Nomination, of_claim
from tests.tools.builders import Object, device, node, resource_slice
from tests.tools.machines import DRIVER, claim_of, device_class, halves, objects_of, pod_of, wholes
from tests.tools.small_fleet import budget

PCIE = "resource.kubernetes.io/pcieRoot"


def grouped(name: str, attribute: str, *values: int | str, driver: str = "w") -> list[Object]:
    """A node with whole devices, one for each value of an attribute."""
    made = [device(f"g{at}", {attribute: value}) for at, value in enumerate(values)]
    return [node(name), resource_slice(f"{name}-{driver}", made, driver=driver, pool=name, nodeName=name)]


def named(*objects: Object) -> list[str]:
    """The names of the targets for a fleet."""
    snapshot = world_of(map(read, objects), Semantics()).store.snapshot()
    found = for_each_kind(Target(percent=90), fleet_layout(snapshot.topology))
    assert all(one.percent == 90 for one in found)
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        ([*objects_of("n", halves())], [f"{DRIVER}/whole"]),
        ([*objects_of("n", wholes(2))], ["node"]),
        ([*objects_of("n", wholes(1))], []),
        (grouped("n", "numaNode", 0, 0, 1, 1), ["w/numaNode", "node"]),
        (grouped("n", PCIE, "a", "a", "b", "b"), [PCIE, "node"]),
        (
            [*objects_of("n", halves()), *grouped("m", "numaNode", 0, 0, 1, 1)],
            [f"{DRIVER}/whole", "w/numaNode"],
        ),
    ],
    ids=["partitions", "whole devices", "single devices", "NUMA nodes", "PCIe roots", "both"],
)
def test_each_kind_of_room_that_the_fleet_has_is_counted(objects: list[Object], names: list[str]):
    assert named(*objects) == names


def test_a_device_with_its_nic_is_no_group():
    found = [*grouped("n", PCIE, "a", "b"), *grouped("n", PCIE, "a", "b", driver="nic")[1:]]
    assert named(*found) == ["node"]


@pytest.mark.parametrize(
    "values", [(0, 1, 2), (0, 0, 0), (0, 0, 1)], ids=["one device each", "one group", "one and a rest"]
)
def test_an_attribute_that_divides_no_node_into_groups_is_left_out(values: tuple[int, ...]):
    assert named(*grouped("n", "numaNode", *values)) == ["node"]


def test_another_attribute_is_left_out():
    assert named(*grouped("n", "rack", 0, 0, 1, 1)) == ["node"]


def test_a_name_stays_what_it_is():
    snapshot = world_of(map(read, objects_of("n", wholes(2))), Semantics()).store.snapshot()
    target = Target("7g.40gb", percent=90)
    assert for_each_kind(target, fleet_layout(snapshot.topology)) == (target,)


def world(*objects: Object, machines: int = 2, machine: Any = None) -> World:
    fleet = [raw for at in range(machines) for raw in objects_of(f"n{at}", machine or halves())]
    return world_of(map(read, [device_class(), *fleet, *objects]), Semantics())


def quarter(name: str, on: str, device: str = "quarter-1", **pod: Any) -> list[Object]:
    return [claim_of(name, "quarter", on, device), pod_of(name, on, **pod)]


def movable(*objects: Object) -> list[str]:
    found = world(*objects)
    return [mover.key.name for mover in movers_of(Occupants(found), found.store)]


@pytest.mark.parametrize(("controller", "expected"), [("ReplicaSet", ["p"]), ("DaemonSet", []), ("", [])])
def test_only_pods_that_a_controller_replaces_anywhere_are_moved(controller: str, expected: list[str]):
    assert movable(*quarter("p", "n0", controller=controller)) == expected


def test_a_pod_whose_claim_others_use_too_stays():
    claim, pod = quarter("p", "n0")
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": "uid-q"})
    other = pod_of("q", "n0")
    other["spec"]["resourceClaims"][0]["resourceClaimName"] = "p"
    assert movable(claim, pod, other) == []


@pytest.mark.parametrize(("phase", "expected"), [("Pending", []), ("Succeeded", ["p"])])
def test_a_pod_stays_while_another_one_that_does_not_run_yet_names_its_claim(phase: str, expected: list[str]):
    other = pod_of("q", "")
    other["spec"]["resourceClaims"][0]["resourceClaimName"] = "p"
    other["status"]["phase"] = phase
    claim, pod = quarter("p", "n0")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert movable(claim, pod, other) == expected


@pytest.mark.parametrize(("allowed", "expected"), [(0, []), (1, ["p"])])
def test_a_pod_stays_if_its_budget_lets_none_go(allowed: int, expected: list[str]):
    claim, pod = quarter("p", "n0")
    pod["metadata"]["labels"] = {"app": "p"}
    covers = budget("b", allowed, selector={"matchLabels": {"app": "p"}})
    assert movable(claim, pod, covers) == expected


def test_a_shared_device_is_held_until_the_last_of_its_claims_leaves():
    """One of two claims has two shares of it."""
    shared = device("g0", {"profile": "gpu"}, allowMultipleAllocations=True)
    objects = [
        device_class(),
        node("n0"),
        resource_slice("s", [shared], driver=DRIVER, pool="n0", nodeName="n0"),
    ]
    for name, shares in (("p", "ab"), ("q", "c")):
        claim = claim_of(name, "gpu", "n0", *("g0" for _ in shares))
        for result, share in zip(claim["status"]["allocation"]["devices"]["results"], shares, strict=True):
            result["shareID"] = f"00000000-0000-0000-0000-00000000000{share}"
        objects += [claim, pod_of(name, "n0")]
    found = world_of(map(read, objects), Semantics())
    first, last = movers_of(Occupants(found), found.store)
    with found.trial() as trial:
        held = Held.of(trial)
        counts = held.holders.tolist()
        for mover in (first, last):
            held.give_back(mover.rows)
            counts += held.holders.tolist()
    assert counts == [2, 1, 0]


def summary(answer: Answer) -> tuple[int, int, list[str], bool]:
    moved = [f"{move.pod.name} {move.node}>{move.to_node}" for move in answer.moves]
    return answer.before, answer.gain, moved, answer.optimal


def test_nodes_are_freed_for_scale_down():
    fleet = world(*quarter("a", "n0"), *quarter("b", "n1"), *quarter("c", "n1", "quarter-2"))
    assert summary(defragment(Target("node", gain=1), fleet)) == (0, 1, ["a n0>n1"], True)
    again = defragment(Target("node", gain=1), fleet)
    assert summary(again) == (0, 1, ["a n0>n1"], True), "the world is as before"


def test_groups_of_devices_with_one_value_are_freed():
    """Two NUMA nodes with two devices each, and one device held in both."""
    content = [device(f"g{at}", {"profile": "gpu", "d/numa": at // 2}) for at in range(4)]
    objects = [device_class(), node("n0"), resource_slice("s", content, pool="n0", nodeName="n0")]
    for at in (0, 2):
        objects += [claim_of(f"p{at}", "gpu", "n0", f"g{at}"), pod_of(f"p{at}", "n0")]
    found = defragment(Target("d/numa", gain=1), world_of(map(read, objects), Semantics()))
    assert summary(found) == (0, 1, ["p0 n0>n0"], True)
    assert [one.place for one in found.pictures] == ["n0 numa 0", "n0 numa 1"]


def test_a_percentage_is_of_the_most_that_fits():
    fleet = world(*quarter("a", "n0"), *quarter("b", "n1"), machines=3)
    found = defragment(Target("whole", percent=100), fleet)
    assert (found.before, found.wanted, found.gain, found.most) == (1, 1, 1, 1)
    assert defragment(Target("whole", percent=50), fleet).wanted == 0


def test_a_pod_that_needs_what_is_counted_is_not_moved_for_it():
    whole = [claim_of("w", "whole", "n0", "whole"), pod_of("w", "n0")]
    found = defragment(Target("whole", gain=1), world(*whole, *quarter("a", "n1")))
    assert (found.gain, found.most, found.moves) == (0, 0, ())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wholes", "there is no profile or attribute wholes; did you mean"),
        ("gpu", "devices of gpu draw from no counters"),
    ],
)
def test_what_the_fleet_does_not_have_is_refused(name: str, message: str):
    fleet = world(*objects_of("other", wholes(1)))
    with pytest.raises(Rejected, match=message):
        defragment(Target(name, gain=1), fleet)


def test_nodes_without_any_valid_device_count_for_nothing():
    """Not as another node."""
    incomplete = resource_slice("n9-e", [device("e0")], nodeName="n9", pool="n9-e", slices=2, driver="d")
    alone = [node("n9"), incomplete]
    fleet = [raw for at in (1, 2) for raw in objects_of(f"n{at}", halves())]
    found = world_of(map(read, [device_class(), *fleet, *quarter("p", "n1"), *alone]), Semantics())
    answer = defragment(Target(NODE, gain=1), found)
    assert answer.before == 1
    assert {step.place for step in answer.steps} <= {"n1"}


def test_held_room_is_not_free():
    """A GPU of which a quarter is held for something is not whole."""
    found = world(*quarter("p", "n0"))
    place = HeldPlace("n1", (DeviceID("d", "n1", "quarter-0"),))
    before = defragment(Target("whole", gain=1), found).before
    found.store.nominate(Nomination(of_claim(ObjectKey("default", "c")), (place,), 0, 1.0, "T12:00:00Z"))
    assert (before, defragment(Target("whole", gain=1), found).before) == (1, 0)


def of_two(attribute: str, machines: int) -> World:
    """A pod that needs two quarters with one value of an attribute, and nodes with a quarter that stays."""
    claim = claim_of("p", "quarter", "n0", "quarter-0", "quarter-1")
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"d/{attribute}"}]
    stays = [one for at in range(1, machines) for one in quarter(f"q{at}", f"n{at}", controller="")]
    return world(claim, pod_of("p", "n0"), *stays, machines=machines)


@pytest.mark.parametrize(("steps", "gain", "ended"), [(1, 0, (Ended.STEPS,)), (10, 1, ())])
def test_a_place_that_was_not_found_within_the_steps_is_not_called_missing(
    steps: int, gain: int, ended: tuple[Ended, ...]
):
    found = defragment(Target("whole", gain=1), of_two("profile", 3), steps=steps)
    assert (found.gain, found.ended, found.gave_up) == (gain, ended, bool(ended))


@pytest.mark.parametrize(("machines", "ended"), [(MOST_TRIED // 2, ()), (MOST_TRIED + 2, (Ended.PLACES,))])
def test_it_is_said_if_places_were_left_untried(machines: int, ended: tuple[Ended, ...]):
    """No node suits the pod; of the larger fleet not all are tried."""
    assert defragment(Target("whole", gain=1), of_two("nothing", machines)).ended == ended
