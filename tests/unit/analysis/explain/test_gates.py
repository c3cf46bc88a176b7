"""The counts of a funnel against plain loops over JSON, the smallest sets against all subsets, and reach."""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.explanation import Kind, Request
from reconciler.analysis.explain.explain import explain
from reconciler.analysis.explain.funnel import apply_gates, smallest_sets
from reconciler.analysis.explain.gates import SELECTION, Gate, gates_of
from reconciler.api.objects.plan import Reason
from reconciler.cel.program import CelError, CelRefused, compile_selector
from reconciler.state.devices.readiness import NodeReach
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.allocation_strategies import CONTESTED, EVERYTHING, contests, worlds
from tests.tools.allocation_world import World, asks, without
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    devices,
    held,
    hold,
    node,
    request,
    resource_slice,
    selectors,
)
from tests.tools.examples import examples
from tests.tools.naive_allocation import Device, Scene, reaches
from tests.tools.naive_rules import Failure
from tests.tools.refused_worlds import fits_counters, goes, has_capacity, in_order, silenced

SOUND = (*(feature for feature in CONTESTED if feature != "all"), "places", "bindings")
"""What the loops understand; pools without faults, of which the gate has tests of its own"""
Predicate = Callable[[Device], bool | None]
"""None is an error."""


def options(world: World, seen: Snapshot) -> list[RequestOption]:
    try:
        return [option for slot in world.parsed(seen).slots for option in slot.options]
    except Fatal:
        assume(False)
        raise


def ways(world: World) -> Iterator[Object]:
    """The same options as JSON."""
    for raw in world.claims:
        for one in raw["spec"]["devices"]["requests"]:
            yield from [one["exactly"]] if "exactly" in one else one["firstAvailable"]


def expression(scene: Scene, text: str) -> Predicate:
    def test(device: Device) -> bool | None:
        try:
            return compile_selector(text).matches(scene.view(device))
        except (CelError, CelRefused):
            return None

    return test


def of_class(scene: Scene, name: str) -> Predicate:
    texts = [s["cel"]["expression"] for s in scene.classes[name]["spec"].get("selectors", ())]

    def test(device: Device) -> bool | None:
        for text in texts:
            if not (answer := expression(scene, text)(device)):
                return answer
        return True

    return test


def predicates(scene: Scene, everything: list[Device], wanted: Object) -> dict[Kind, list[Predicate]]:
    def capacity(device: Device) -> bool | None:
        try:
            return has_capacity(scene, wanted, device)
        except Failure:
            return None

    def free(device: Device) -> bool:
        return bool(wanted.get("adminAccess")) or device.key not in scene.held.dedicated

    def supported(device: Device) -> bool:
        waits = not scene.world.rules.binding_conditions and bool(device.raw.get("bindingConditions"))
        return not waits and (device.key in scene.held.shares or not silenced(scene, device))

    def anywhere(device: Device) -> bool:
        return any(reaches(device.place, node) for node in scene.world.nodes)

    return {
        Kind.CLASS: [of_class(scene, wanted["deviceClassName"])],
        Kind.SELECTOR: [expression(scene, s["cel"]["expression"]) for s in wanted.get("selectors", ())],
        Kind.FEATURE: [supported],
        Kind.TAINTS: [lambda d: scene.tolerated(wanted, d)],
        Kind.HELD: [free],
        Kind.CAPACITY: [capacity],
        Kind.COUNTERS: [lambda d: fits_counters(scene, everything, d)],
        Kind.GROUPS: [lambda d: goes(scene, d) or silenced(scene, d)],
        Kind.NODES: [anywhere],
    }


def _silenced_world() -> World:
    """One device declares groups, whose gate is off, and one is held in the same set."""
    made = [device(name, draws={"g": {"m": 1}}) for name in ("grouped", "plain", "taken")]
    made[0]["consumesCounters"][0]["compatibilityGroups"] = ["x"]
    pool: Object = {"nodeName": "n", "slices": 2}
    return World(
        [counter_slice("t", {"g": {"m": 40}}, **pool), resource_slice("s", made, **pool)],
        asks(request()),
        held=[held("h", hold("taken"))],
        rules=without("DRADeviceCompatibilityGroups"),
    )


@examples(60)
@given(st.one_of(contests(), worlds(features=SOUND)))
@example(_silenced_world())
def test_every_gate_is_what_a_loop_over_devices_says(world: World):
    assume(world.rules.has("DRAPartitionableDevices"))
    seen = world.snapshot()
    scene = Scene(world, world.nodes[0]["metadata"]["name"])
    everything = in_order(scene)
    places = NodeReach(seen.topology, None)
    for option, wanted in zip(options(world, seen), ways(world), strict=True):
        expected = predicates(scene, everything, wanted)
        for gate in gates_of(option, seen, places):
            if gate.kind is Kind.POOL:
                continue
            test = expected[gate.kind].pop(0)
            answers = [test(device) for device in everything]
            if gate.kind is Kind.COUNTERS:  # of shares, who drew first drew for all; of groups, not here
                assert [bool(a) for a in answers] == gate.passed.tolist()
                continue
            assert [a is True for a in answers] == gate.passed.tolist(), gate.about
            failed = [a is None for a in answers]
            assert failed == (gate.error.tolist() if gate.error is not None else [False] * len(failed))
        left = [test for kind, tests in expected.items() for test in tests if tests]
        assert all(test(device) for test in left for device in everything), "gates left out stop nobody"


@examples(40)
@given(worlds())
def test_the_funnel_counts_what_passes_gate_after_gate(world: World):
    seen = world.snapshot()
    places = NodeReach(seen.topology, None)
    explanation = {(r.claim.name, r.request): r for r in explain(world.wanted(), seen).requests}
    for option in options(world, seen):
        request = explanation[world.wanted()[option.claim].key.name, option.name]
        alive = [True] * seen.fleet.size
        for gate, step in zip(gates_of(option, seen, places), request.funnel, strict=False):
            errors = gate.error.tolist() if gate.error is not None else [False] * len(alive)
            assert step.errors == sum(a and e for a, e in zip(alive, errors, strict=True))
            alive = [a and p for a, p in zip(alive, gate.passed.tolist(), strict=True)]
            assert (step.kind, step.left) == (gate.kind, sum(alive))
        left = [step.left for step in request.funnel]
        assert left == sorted(left, reverse=True)
        assert request.left == left[-1]


def reach(places: NodeReach) -> list[list[int]]:
    """Rows by node."""
    return [places.at(n).nonzero()[0].tolist() for n in range(len(places.names))]


def _excludes(gates: list[Gate], chosen: tuple[int, ...], option: RequestOption, places: NodeReach) -> bool:
    """Whether some gates alone leave every node short, by loops."""

    def passes(row: int, numbers: list[int]) -> bool:
        return all(gates[n].passed[row] for n in numbers)

    picks = [n for n in range(len(gates)) if gates[n].kind in SELECTION]
    for rows in reach(places):
        if not option.all:
            if sum(passes(row, list(chosen)) for row in rows) >= option.source.wanted:
                return False
            continue
        meant = [row for row in rows if passes(row, picks)]
        some = [row for row in rows if passes(row, [n for n in chosen if n in picks])]
        if some and all(passes(row, [n for n in chosen if n not in picks]) for row in meant):
            return False
    return True


@examples(40)
@given(worlds(features=EVERYTHING))
def test_the_smallest_sets_are_those_that_trying_every_subset_finds(world: World):
    seen = world.snapshot()
    places = NodeReach(seen.topology, None)
    for option in options(world, seen):
        gates = gates_of(option, seen, places)
        wanted = None if option.all else option.source.wanted
        found = smallest_sets(gates, wanted, places)
        stopping = [n for n, gate in enumerate(gates) if not gate.passed.all()]
        by_size = [
            [chosen for chosen in combinations(stopping, size) if _excludes(gates, chosen, option, places)]
            for size in range(len(stopping) + 1)
        ]
        first = next((sets for sets in by_size if sets), [])
        names = [tuple(gates[n].about for n in chosen) for chosen in first]
        assert list(found) == names[: len(found)]
        assert bool(found) == bool(names)


def test_many_selectors_count_as_one_gate_so_that_all_subsets_can_be_tried():
    texts = [f'device.driver == "no{n}"' for n in range(20)]
    world = World(
        [resource_slice("s", devices("A"), nodeName="n")], asks(request(selectors=selectors(*texts)))
    )
    (explanation,) = explain(world.wanted(), world.snapshot()).requests
    assert explanation.smallest == (("the 20 selectors",),)


@examples(60)
@given(st.one_of(worlds(), contests()))
def test_gates_that_exclude_everything_mean_a_refusal_and_a_refusal_has_an_explanation(world: World):
    seen = world.snapshot()
    explanation = explain(world.wanted(), seen)
    by_request: dict[tuple[str, str], list[Request]] = {}
    for way in explanation.requests:
        by_request.setdefault((way.claim.name, way.request.partition("/")[0]), []).append(way)
    stopped = any(all(way.smallest for way in ways) for ways in by_request.values())
    if stopped:
        assert not explanation.allocatable
    if explanation.allocatable:
        assert explanation.node
        assert all(any(way.possible for way in ways) for ways in by_request.values())
        return
    assert explanation.remedy
    if not Reason(explanation.reason).is_error and explanation.reason != Reason.GAVE_UP:
        assert stopped or explanation.conflict


def test_an_ask_sifts_a_fleet_without_devices():
    world = World([], asks(request()))
    seen = world.snapshot()
    (option,) = options(world, seen)
    result = apply_gates(option, seen, NodeReach(seen.topology, None))
    assert result.left.shape == (0,)
    (explanation,) = explain(world.wanted(), seen).requests
    assert (explanation.devices, explanation.smallest) == (0, ((),))


FEATURED = {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}


def reached(world: World, name: str) -> list[bool]:
    scene = Scene(world, name)
    return [reaches(d.place, scene.node) and scene.may_operate(d) for d in in_order(scene)]


@examples(50)
@given(worlds(features=EVERYTHING, always=("places",)))
def test_a_node_reaches_what_a_loop_says(world: World):
    seen = world.snapshot()
    names = [n["metadata"]["name"] for n in world.nodes]
    for chosen in (None, names[:1]):
        places = NodeReach(seen.topology, chosen)
        expected = {name: reached(world, name) for name in places.names}
        for number, name in enumerate(places.names):
            assert places.at(number).tolist() == expected[name]
        total = [sum(expected[name]) for name in places.names]
        every = np.arange(seen.fleet.size)
        assert places.counts(every).tolist() == total
        union = [any(column) for column in zip(*expected.values(), strict=True)]
        assert places.reached().tolist() == union
        assert places.counts(every[1::2]).tolist() == [sum(expected[name][1::2]) for name in places.names]


def test_devices_that_skip_operations_count_on_nodes_that_know_of_it():
    slices = [
        resource_slice("s", devices("A"), skipNodeOperations=["*"], allNodes=True),
        resource_slice("t", devices("B"), pool="q", allNodes=True),
    ]
    nodes = [{**node("new"), **FEATURED}, node("old")]
    places = NodeReach(World(slices, asks(request()), nodes=nodes).snapshot().topology, None)
    assert dict(zip(places.names, places.counts(np.arange(2)).tolist(), strict=True)) == {"new": 2, "old": 1}
    assert places.at(1).tolist() == [False, True]


def test_without_nodes_nothing_is_reached():
    world = World([resource_slice("s", devices("A"), allNodes=True)], asks(request()))
    places = NodeReach(world.snapshot().topology, [])
    assert (places.names, places.reached().tolist()) == ((), [False])
