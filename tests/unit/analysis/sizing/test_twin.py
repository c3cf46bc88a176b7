"""The nodes that a demand needs against an exhaustive search, and the shapes of nodes."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.sizing.answer import Sizing
from reconciler.analysis.sizing.demand import items_in
from reconciler.analysis.sizing.shapes import distinct_shapes, shape_of
from reconciler.analysis.sizing.sizing import size
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.core import Node
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from tests.tools.builders import Object, devices, gpu_slice, node, resource_slice, typed
from tests.tools.examples import examples
from tests.tools.machines import Machine, device_class, halves, objects_of, spec_of, wholes

Want = tuple[str, int]
"""Profile and number of devices of one claim"""

MACHINES = st.sampled_from([wholes(2), wholes(3), halves()])
WANTS = st.sampled_from([("gpu", 1), ("gpu", 2), ("whole", 1), ("half", 1), ("half", 2), ("quarter", 1)])


def answer(wanted: Mapping[Want, int], fleet: Sequence[Machine], shapes: Sequence[Machine]) -> Sizing:
    items = [
        {"name": f"{profile}-{count}", "count": copies, "spec": spec_of(profile, count)}
        for (profile, count), copies in wanted.items()
    ]
    raw = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "Demand", "items": items}
    raws = [one for at, machine in enumerate(fleet) for one in objects_of(f"n{at}", machine)]
    chosen = []
    for at, machine in enumerate(shapes):
        own = list(map(typed, objects_of(f"shape-{at}", machine)))
        (node,) = (one for one in own if isinstance(one, Node))
        chosen.append(shape_of(node, [one for one in own if isinstance(one, ResourceSlice)]))
    world = world_of(map(typed, [device_class(), *raws]), Semantics())
    return size(items_in(bundle([Document(Origin("test"), raw)]), Semantics()), chosen, world)


def fits(wanted: Sequence[Want], nodes: Sequence[tuple[Machine, tuple[str, ...]]]) -> bool:
    """Whether claims fit on nodes, each with the devices that are held already: tries everything."""
    if not wanted:
        return True
    (profile, count), *rest = wanted
    for at, (machine, held) in enumerate(nodes):
        names = [part.name for part in machine.parts if part.profile == profile]
        for chosen in combinations(names, count):
            if machine.room_for((*held, *chosen)):
                after = [*nodes[:at], (machine, (*held, *chosen)), *nodes[at + 1 :]]
                if fits(rest, after):
                    return True
    return False


def fewest(wanted: Mapping[Want, int], fleet: Sequence[Machine], shape: Machine) -> int | None:
    """The fewest nodes of a shape; None if none of them can hold one of the claims."""
    claims = [want for want, copies in wanted.items() for _ in range(copies)]
    for number in range(len(claims) + 1):
        if fits(claims, [(machine, ()) for machine in (*fleet, *[shape] * number)]):
            return number
    return None


@given(
    st.dictionaries(WANTS, st.integers(1, 2), min_size=1, max_size=3),
    st.lists(MACHINES, max_size=1),
    MACHINES,
)
@examples(25)
def test_the_answer_and_its_bound_enclose_the_fewest_nodes(
    wanted: dict[Want, int], fleet: list[Machine], shape: Machine
):
    found = answer(wanted, fleet, [shape])
    least = fewest(wanted, fleet, shape)
    if found.fits_now:
        assert least == 0
    elif not found.options:
        assert found.unserved
        assert least is None
    else:
        (option,) = found.options
        assert least is not None
        assert option.at_least <= least <= option.cost
        assert sum(group.nodes for group in option.groups) == option.cost
        if not fleet:
            assert option.optimal


@given(
    st.dictionaries(WANTS, st.integers(1, 2), min_size=1, max_size=3), st.permutations([wholes(3), halves()])
)
@examples(10)
def test_the_groups_of_every_option_hold_the_demand(wanted: dict[Want, int], shapes: list[Machine]):
    """A mix is needed where no shape alone holds everything."""
    found = answer(wanted, [wholes(1)], shapes)
    assert found.answered
    for option in found.options:
        held = [0] * len(found.items)
        for group in option.groups:
            machine = shapes[int(group.shape.removeprefix("shape-"))]
            claims = [want for want, n in zip(wanted, group.holds, strict=True) for _ in range(n)]
            assert fits(claims, [(machine, ())])
            held = [have + group.nodes * n for have, n in zip(held, group.holds, strict=True)]
        assert held == [one.left for one in found.items]


def node_of(raw: Object) -> Node:
    found = typed(raw)
    assert isinstance(found, Node)
    return found


def slices_of(*raws: Object) -> list[ResourceSlice]:
    return [one for one in map(typed, raws) if isinstance(one, ResourceSlice)]


def test_a_new_node_is_ready_and_not_cordoned_but_keeps_its_own_taints():
    raw = node("a")
    closed = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    own = {"key": "gpu", "effect": "NoSchedule"}
    raw["spec"] = {"unschedulable": True, "taints": [closed, own]}
    raw["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    made = shape_of(node_of(raw), []).node
    assert (made.spec.unschedulable, made.status.conditions) == (None, ())
    assert [taint.key for taint in made.spec.taints] == ["gpu"]


def test_slices_of_other_nodes_do_not_come_with_it_and_its_pools_are_complete():
    here = resource_slice("s1", devices("g"), pool="p", slices=2, nodeName="a")
    there = resource_slice("s2", devices("h"), pool="p", slices=2, nodeName="b")
    old = resource_slice("s0", devices("g"), pool="p", slices=1, generation=0, nodeName="a")
    everywhere = resource_slice("net", devices("n"), pool="net", allNodes=True)
    (own,) = shape_of(node_of(node("a")), slices_of(old, here, there, everywhere)).slices
    assert (own.key.name, own.spec.pool.resource_slice_count) == ("s1", 1)


def test_nodes_that_publish_as_much_are_one_shape():
    nodes = [node_of(node(name)) for name in "abcd"]
    slices = slices_of(gpu_slice("a", 2), gpu_slice("b", 4), gpu_slice("c", 2))
    assert [(one.name, one.devices) for one in distinct_shapes(nodes, slices)] == [("a", 2), ("b", 4)]


def test_a_node_with_a_pool_that_it_cannot_use_is_not_like_one_whose_pools_are_complete():
    nodes = [node_of(node(name)) for name in "ab"]
    slices = slices_of(*(
        resource_slice(f"{on}-{kind}", devices("d"), pool=f"{on}-{kind}", slices=count, nodeName=on)
        for on, kind, count in (("a", "x", 2), ("a", "y", 1), ("b", "x", 1), ("b", "y", 1))
    ))  # fmt: skip
    assert [one.name for one in distinct_shapes(nodes, slices)] == ["a", "b"]


@pytest.mark.parametrize(
    ("slices", "counts"),
    [
        pytest.param([("s1", 1, 2, "a")], {2}, id="too few"),
        pytest.param([("s1", 1, 1, "a"), ("s2", 1, 1, "a")], {1}, id="too many"),
        pytest.param([("s1", 1, 2, "a"), ("s2", 1, 3, "a"), ("s3", 1, 3, "a")], {2, 3}, id="they disagree"),
        pytest.param([("s1", 1, 1, "a"), ("s2", 1, 2, "b")], {2}, id="one elsewhere disagrees"),
        pytest.param([("s1", 1, 2, "a"), ("s2", 2, 1, "b")], {2}, id="obsolete"),
        pytest.param([("s1", 1, 1, "a"), ("s2", 2, 1, "b")], {1}, id="older, but complete on the node"),
    ],
)
def test_a_pool_that_its_node_cannot_use_is_none_of_a_new_node_either(slices, counts):
    raws = [
        resource_slice(name, devices("d"), pool="p", generation=generation, slices=wanted, nodeName=on)
        for name, generation, wanted, on in slices
    ]
    own = shape_of(node_of(node("a")), slices_of(*raws)).slices
    assert {one.spec.pool.resource_slice_count for one in own} == counts
    (same,) = distinct_shapes([node_of(node("a"))], slices_of(*raws))
    assert same.slices == own
