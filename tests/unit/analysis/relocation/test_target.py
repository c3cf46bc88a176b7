"""What a percentage without a name stands for: every kind of room that the fleet can strand."""

import pytest

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.relocation.goals import Target, for_each_kind
from reconciler.analysis.world import world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import Object, device, node, resource_slice
from tests.tools.machines import DRIVER, halves, objects_of, wholes

PCIE = "resource.kubernetes.io/pcieRoot"


def grouped(name: str, attribute: str, *values: int | str, driver: str = "w") -> list[Object]:
    """A node with whole devices, one for each value of an attribute."""
    made = [device(f"g{at}", {attribute: value}) for at, value in enumerate(values)]
    return [node(name), resource_slice(f"{name}-{driver}", made, driver=driver, pool=name, nodeName=name)]


def named(*objects: Object) -> list[str]:
    """The names of the targets for a fleet."""
    snapshot = world_of(map(read, objects), Semantics()).store.snapshot()
    found = for_each_kind(Target(percent=90), fleet_layout(snapshot.fleet, snapshot.rules))
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
    assert for_each_kind(target, fleet_layout(snapshot.fleet, snapshot.rules)) == (target,)
