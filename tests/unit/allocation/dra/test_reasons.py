"""Refusals: every reason has a case, and the counts equal those of plain loops."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from tests.tools.allocation_strategies import CONTESTED, contests, worlds
from tests.tools.allocation_world import World, asks, decide, without
from tests.tools.builders import (
    Object,
    claim,
    device,
    devices,
    distinct,
    held,
    hold,
    match,
    node,
    only,
    request,
    resource_slice,
    selectors,
    taint,
)
from tests.tools.examples import examples
from tests.tools.naive_allocation import Device, Scene
from tests.tools.naive_rules import Failure
from tests.tools.refused_worlds import CASES, fits_counters, goes, has_capacity, published, silenced


def part_slice(*parts: Object) -> Object:
    made = resource_slice("s", parts, nodeName="n")
    made["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "9"}}}]
    return made


def test_every_reason_has_a_case():
    """The limit of steps, the room of nodes and pods that share a claim have tests of their own, and so have
    preferences, which the allocator ignores.
    """
    assert set(Reason) - set(CASES) == {
        Reason.GAVE_UP,
        Reason.ALIGNMENT,
        Reason.PARTITION,
        Reason.PREFERENCES_INVALID,
        Reason.PODS_COMPETE,
        Reason.NODE_ROOM,
    }


@pytest.mark.parametrize("reason", CASES, ids=str)
def test_a_refusal_gives_its_reason_and_names_the_claim_or_the_request(reason: Reason):
    outcome = decide(CASES[reason])
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is reason
    assert (
        "default/c" in outcome.message
        or "request r needs" in outcome.message
        or reason is Reason.NODE_SELECTOR
        or reason is Reason.CAPACITY_INVALID
        or reason is Reason.NO_NODES
    )


def test_the_message_of_a_plain_refusal_says_which_test_left_how_many():
    slices = [
        resource_slice("s", [*devices("A", "B"), *devices("C", "D", taints=[taint("k")])], nodeName="n")
    ]
    world = World(slices, asks(request("gpu", 2, selectors=only("A", "B", "C"))), [held("h", hold("A"))])
    outcome = decide(world)
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.TAINTED
    assert outcome.message == (
        "claim default/c, request gpu: 3 of 4 devices match class and selectors; "
        "2 are free; 2 have enough capacity; 2 fit the remaining counters; "
        "1 has only tolerated taints; the request needs 2 devices"
    )


GROUPED = device("A", draws={"g": {"m": 1}})
GROUPED["consumesCounters"][0]["compatibilityGroups"] = ["x"]


@pytest.mark.parametrize(
    ("gate", "slices"),
    [
        ("DRAPartitionableDevices", [part_slice(device("A", draws={"g": {"m": 1}}))]),
        (
            "DRAPartitionableDevices",
            [resource_slice("s", [device("A", nodeName="n")], perDeviceNodeSelection=True)],
        ),
        ("DRADeviceCompatibilityGroups", [part_slice(GROUPED)]),
        (
            "DRADeviceBindingConditions",
            [resource_slice("s", [device("A", bindingConditions=["ready"])], nodeName="n")],
        ),
        (
            "DRAResourceClaimDeviceStatus",
            [resource_slice("s", [device("A", bindingConditions=["ready"])], nodeName="n")],
        ),
    ],
)
def test_a_gate_that_is_off_is_a_reason_of_its_own_and_is_named(gate: str, slices: list[Object]):
    """Waiting does not help, and nobody holds anything."""
    outcome = decide(World(slices, asks(request("gpu")), rules=without(gate)))
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.GATE_OFF
    assert outcome.message == (
        "claim default/c, request gpu: 1 of 1 device matches class and selectors; "
        f"0 need no disabled feature ({gate} is off); the request needs 1 device"
    )


HALVES: dict[str, Any] = {
    "allowMultipleAllocations": True,
    "capacity": {
        "m": {
            "value": "1500m",
            "requestPolicy": {"default": "500m", "validRange": {"min": "500m", "step": "500m"}},
        }
    },
}


@pytest.mark.parametrize(
    ("wanted", "held_before"),
    [("1500m", ()), ("500m", (held("h", hold("A", shareID="x", consumedCapacity={"m": "700m"})),))],
)
def test_amounts_that_are_rounded_without_a_gate_are_a_reason_of_their_own(
    wanted: str, held_before: tuple[Object, ...]
):
    """Rounded up to 2 and to 1 they do not fit, also beside what another claim consumes."""
    slices = [resource_slice("s", [device("A", **HALVES), device("B")], nodeName="n")]
    world = World(slices, asks(request(capacity={"m": wanted})), held_before)
    assert isinstance(decide(world), Granted)
    outcome = decide(replace(world, rules=without("DRAFractionalCapacityRange")))
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is (Reason.CAPACITY if held_before else Reason.GATE_OFF)
    assert "1 need no disabled feature (DRAFractionalCapacityRange is off)" in outcome.message.replace(
        "needs", "need"
    )


LISTS = [resource_slice("s", [device(one, {"m": [one, "x", "y"]}) for one in "AB"], nodeName="n")]


@pytest.mark.parametrize("count", [2, None])
def test_lists_that_are_not_compared_without_a_gate_are_a_reason_of_their_own(count: int | None):
    world = World(LISTS, asks(request(count=count), constraints=[match("d/m")]))
    assert isinstance(decide(world), Granted)
    outcome = decide(replace(world, rules=without("DRAListTypeAttributes")))
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.GATE_OFF
    assert (
        "2 of 2 devices that request r matches have a list as d/m, which needs the feature gate "
        "DRAListTypeAttributes; it is off"
    ) in outcome.message


def test_a_gate_is_no_reason_where_nothing_would_fit_with_it():
    """The constraint has no list to compare, or the lists have too few values."""
    other = World(LISTS, asks(request(count=2), constraints=[match("d/other")]))
    few = [resource_slice("s", [device(one, {"m": ["x"]}) for one in "AB"], nodeName="n")]
    for world in (other, World(few, asks(request(count=2), constraints=[distinct("d/m")]))):
        outcome = decide(replace(world, rules=without("DRAListTypeAttributes")))
        assert isinstance(outcome, Unsatisfied)
        assert outcome.reason is Reason.NEVER


@pytest.mark.parametrize("held_before", [False, True], ids=["none in common", "in use"])
def test_a_gate_is_no_reason_where_the_devices_that_it_would_help_are_not_to_be_had(held_before: bool):
    """Only the lists of A and B have a value in common, and A may be held."""
    lists = {"A": ["a", "x"], "B": ["b", "x"], "C": ["c"], "D": ["d"]}
    names = "ABCD" if held_before else "BCD"
    slices = [resource_slice("s", [device(one, {"m": lists[one]}) for one in names], nodeName="n")]
    holds = (held("h", hold("A")),) if held_before else ()
    world = World(slices, asks(request(count=2), constraints=[match("d/m")]), holds)
    with_gate, outcome = decide(world), decide(replace(world, rules=without("DRAListTypeAttributes")))
    assert isinstance(with_gate, Unsatisfied)
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is not Reason.GATE_OFF


@pytest.mark.parametrize(
    ("nodes", "considered", "granted"),
    [([], None, False), ([node("n")], [], False), ([node("n")], None, True)],
)
def test_no_node_at_all_is_another_reason_than_too_few_devices_on_each(
    nodes: list[Object], considered: list[str] | None, granted: bool
):
    slices = [
        resource_slice("s", devices("A"), nodeName="n"),
        resource_slice("t", devices("B"), allNodes=True),
    ]
    slices[1]["spec"]["pool"]["name"] = "q"
    outcome = decide(World(slices, asks(request()), nodes=nodes), nodes=considered)
    assert isinstance(outcome, Granted) == granted
    if isinstance(outcome, Unsatisfied):
        assert outcome.reason is Reason.NO_NODES
        assert outcome.message == "there is no node to allocate on"


def test_an_error_names_its_node():
    outcome = decide(CASES[Reason.CEL_RUNTIME])
    assert isinstance(outcome, Unsatisfied)
    assert [name for name, _ in outcome.nodes_refused] == ["n"]
    assert outcome.message.startswith("node n: claim default/c, request r: selector #0: device d/p/A: ")


def test_a_search_that_gave_up_says_after_how_many_steps():
    values = [device(f"d{n}", {"n": n}) for n in range(12)]
    wanted = claim("c", request("r", 7), constraints=[distinct("d/n")])
    outcome = decide(World([resource_slice("s", values, nodeName="n")], [wanted]), steps=2)
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.GAVE_UP
    assert outcome.message.startswith("gave up after 2 steps")


# -- the counts


def _naive(scene: Scene, everything: list[Device], wanted: Object) -> dict[str, int]:
    """The devices that pass each test, of those published for the nodes or for no single node."""
    names = [n["metadata"]["name"] for n in scene.world.nodes]
    left = [d for d in everything if d.place.get("nodeName", names[0]) in names]
    counts = {"devices": len(left)}
    tests: dict[str, Callable[[Device], bool]] = {
        "match class and selectors": lambda d: _matches(scene, wanted, d),
        "need no disabled feature": lambda d: d.key in scene.held.shares or not silenced(scene, d),
        "are not in use": lambda d: bool(wanted.get("adminAccess")) or d.key not in scene.held.dedicated,
        "have the capacity": lambda d: has_capacity(scene, wanted, d),
        "fit what is left of their counters": lambda d: fits_counters(scene, everything, d),
        "are not excluded by what is held": lambda d: goes(scene, d),
        "have only tolerated taints": lambda d: scene.tolerated(wanted, d),
    }
    for name, test in tests.items():
        left = [d for d in left if test(d)]
        counts[name] = len(left)
    return counts


def _matches(scene: Scene, wanted: Object, device: Device) -> bool:
    try:
        return scene.selectable(wanted, device)
    except Failure:
        return False


SOUND = tuple(feature for feature in CONTESTED if feature != "all")


@examples(60)
@given(st.one_of(contests(), worlds(features=SOUND)))
def test_the_counts_of_a_refusal_are_true(world: World):
    """For pools without errors. Each test can only remove devices."""
    assume(world.rules.has("DRAPartitionableDevices") and world.rules.binding_conditions)
    outcome = decide(world)
    if isinstance(outcome, Granted) or not outcome.counts:
        return
    scene = Scene(world, world.nodes[0]["metadata"]["name"])
    everything = published(scene)
    ways = [
        wanted
        for raw in world.claims
        for r in raw["spec"]["devices"]["requests"]
        for wanted in ([r["exactly"]] if "exactly" in r else r["firstAvailable"])
    ]
    for count, wanted in zip(outcome.counts, ways, strict=True):
        left = [gate.left for gate in count.gates]
        assert left == sorted(left, reverse=True)
        try:
            expected = _naive(scene, everything, wanted)
        except Failure:  # an amount that cannot be given: the test is left out
            assert "have the capacity" not in [gate.name for gate in count.gates]
            continue
        told = {gate.name: gate.left for gate in count.gates}
        # Whether pools are ready is a test too, which all of them pass here.
        assert told == {name: expected.get(name, told[name]) for name in told}


@examples(150)
@given(worlds(always=("trouble", "places")), st.booleans(), st.data())
def test_a_refusal_of_one_device_names_the_test_that_leaves_none(world: World, bound, data):
    """Requests cannot compete where there is one, and each test is exact on one device."""
    asked = replace(world, claims=asks(request()))
    names = [n["metadata"]["name"] for n in world.nodes]
    nodes = [data.draw(st.sampled_from(names))] if bound else None
    outcome = decide(asked, nodes=nodes)
    if isinstance(outcome, Granted):
        return
    event(outcome.reason)
    assert outcome.reason is not Reason.TOGETHER
    if not outcome.nodes_refused:
        (count,) = outcome.counts
        assert count.gates[-1].left == 0


FEATURED: Object = {"skipNodeOperations": ["*"]}


@pytest.mark.parametrize(
    ("slices", "nodes", "reason", "told"),
    [
        pytest.param(
            [resource_slice("s", devices("A"), nodeName="n")],
            ["m"],
            Reason.NO_NODE,
            "1 of 1 device matches class and selectors; 0 are on nodes that can use them (considered: m)",
            id="the pod may use other nodes only",
        ),
        pytest.param(
            [resource_slice("s", devices("A"), nodeName="n", **FEATURED)],
            None,
            Reason.NO_NODE,
            "0 are on nodes that can use them",
            id="the node does not declare a feature",
        ),
        pytest.param(
            [
                resource_slice("s", devices("A"), slices=2, nodeName="n"),
                resource_slice("t", devices("B"), slices=2, nodeName="n"),
                resource_slice("u", devices("A"), slices=2, generation=2, nodeName="n"),
            ],
            None,
            Reason.POOL,
            "(pool d/p: 1 of 2 slices of generation 2 are published)",
            id="an old generation is complete",
        ),
        pytest.param(
            [
                resource_slice("s", devices("A"), pool="q", slices=2, nodeName="n"),
                resource_slice("t", devices("B"), driver="e", pool="a", slices=3, nodeName="n"),
            ],
            None,
            Reason.POOL,
            "(pool d/q: 1 of 2 slices of generation 1 are published)",
            id="a broken pool of another driver is not named",
        ),
        pytest.param(
            [resource_slice("s", [device("A", nodeName="n")], nodeName="m", perDeviceNodeSelection=True)],
            None,
            Reason.POOL,
            "the node selection of slice s is invalid: set only one of nodeName, perDeviceNodeSelection",
            id="two node selections",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_with_pools_and_nodes(
    slices: list[Object], nodes: list[str] | None, reason: Reason, told: str
):
    wanted = request(selectors=selectors('device.driver == "d"'))
    world = World(slices, asks(wanted), nodes=[node("n"), node("m")])
    outcome = decide(world, nodes=nodes)
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is reason
    assert told in outcome.message


def kinds(attributes: list[tuple[str, object]]) -> list[Object]:
    """A slice of driver d and one of driver e, each with a device with an attribute."""
    return [
        resource_slice(driver, [device("A", {key: value})], driver=driver, pool=driver, nodeName="n")
        for driver, (key, value) in zip("de", attributes, strict=True)
    ]


BOTH = [request(name, selectors=selectors(f'device.driver == "{name}"')) for name in "de"]


@pytest.mark.parametrize(
    ("attributes", "constraint", "told"),
    [
        (
            [("x/a", 0), ("x/a", "0")],
            match("x/a"),
            "an int on devices of request d, and a string on those of e",
        ),
        ([("x/a", 0), ("x/a", 1)], match("x/a"), "devices of requests d and e have no value of it in common"),
        ([("x/a", 0), ("y/a", 0)], match("x/a"), "no device that request e matches has it; they have y/a"),
        ([("x/a", 0), ("x/b", 0)], match("x/a"), "no device that request e matches has it"),
        (
            [("x/a", 0), ("x/a", 0)],
            distinct("x/a"),
            "2 devices must differ in it, and it has 1 different value",
        ),
        ([("x/a", 0), ("x/a", 0)], match("x/a"), None),
        ([("x/a", 0), ("x/a", 1)], distinct("x/a"), None),
    ],
)
def test_a_constraint_that_can_never_hold_says_why(
    attributes: list[tuple[str, object]], constraint: Object, told: str | None
):
    outcome = decide(World(kinds(attributes), asks(*BOTH, constraints=[constraint])))
    assert isinstance(outcome, Granted) == (told is None)
    if isinstance(outcome, Unsatisfied):
        assert outcome.reason is Reason.NEVER
        assert f"the constraint on {attributes[0][0]} can never hold: " in outcome.message
        assert told is not None
        assert told in outcome.message


def test_devices_without_the_attribute_of_a_constraint_are_counted():
    devices = [device("A", {"x/a": 0}), device("B", {"x/a": 1}), device("C", {})]
    pools = [resource_slice("d", devices, driver="d", pool="d", nodeName="n")]
    outcome = decide(World(pools, asks(request("r", count=2), constraints=[match("x/a")])))
    assert isinstance(outcome, Unsatisfied)
    assert "1 of 3 devices that request r matches has no x/a" in outcome.message


@examples(150)
@given(st.one_of(contests(), worlds()))
def test_what_can_never_fit_does_not_fit_once_everything_is_free(world: World):
    """On any of the nodes; and whatever else is refused may fit then, or says so."""
    outcome = decide(world)
    if isinstance(outcome, Granted):
        return
    emptied = decide(replace(world, held=()))
    event(f"{outcome.reason is Reason.NEVER} {isinstance(emptied, Granted)}")
    if outcome.reason is Reason.NEVER:
        assert isinstance(emptied, Unsatisfied)
