"""Single gates and constraints, in worlds made for them."""

from dataclasses import replace

from reconciler.allocation.explanation import Explanation, Kind, Request
from reconciler.analysis.explain.explain import explain
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import SHARING_AFFINITY
from tests.tools.allocation_world import NEW, World, asks
from tests.tools.builders import (
    claim,
    counter_slice,
    device,
    device_class,
    devices,
    distinct,
    held,
    hold,
    match,
    node,
    request,
    resource_slice,
    selectors,
)
from tests.tools.refused_worlds import CASES


def explanation_of(world: World, effort: int = 1000) -> Explanation:
    return explain(world.wanted(), world.snapshot(), effort=effort)


def left(request: Request) -> dict[Kind, int]:
    return {step.kind: step.left for step in request.funnel}


def test_a_pool_that_gave_out_more_than_it_has_gives_nothing_from_any_of_its_sets():
    content = [device("A", draws={"g": {"m": 5}}), device("B", draws={"h": {"m": 1}}), device("C")]
    slices = [
        resource_slice("s", content, slices=2, nodeName="n"),
        counter_slice("t", {"g": {"m": 4}, "h": {"m": 4}}, slices=2, nodeName="n"),
    ]
    wanted = claim("c", request("r", 2))
    explanation = explanation_of(World(slices, [wanted], [held("h", hold("A"))]))
    assert left(explanation.requests[0])[Kind.COUNTERS] == 1
    assert explanation.nearest[0].lacks[0].why == ("the pool of B is over-committed",)


def test_whoever_has_administrative_access_does_not_mind_who_holds_a_device():
    wanted = claim("c", request(adminAccess=True))
    explanation = explanation_of(
        World([resource_slice("s", devices("A"), nodeName="n")], [wanted], [held("h", hold("A"))])
    )
    assert left(explanation.requests[0])[Kind.HELD] == 1


def test_a_selector_of_a_class_is_not_tried_on_what_one_before_it_refuses():
    classes = [device_class("any", "false", "device.attributes['d'].nothing == 1")]
    world = World([resource_slice("s", devices("A"), nodeName="n")], asks(request()), classes=classes)
    (asked,) = explanation_of(world).requests
    assert (asked.failing, asked.funnel[0].errors, asked.funnel[0].left) == ((), 0, 0)


def test_an_amount_that_cannot_be_given_is_an_error_and_passes_nothing():
    (asked,) = explanation_of(CASES[Reason.CAPACITY_INVALID]).requests
    assert (left(asked)[Kind.CAPACITY], asked.smallest) == (0, (("capacity",),))
    assert str(asked.failing[0]).startswith("request r: capacity: device d/p/A: ")


def test_after_all_requests_together_nothing_is_left_of_a_refusal():
    world = World([resource_slice("s", devices("A", "B"), nodeName="n")], asks(request("r", 2), request("q")))
    assert [asked.left for asked in explanation_of(world).requests] == [0, 0]


def test_of_what_is_granted_only_nodes_that_serve_all_requests_are_left():
    of_kind = {kind: selectors(f'device.attributes["d"].kind == "{kind}"') for kind in "xy"}
    slices = [
        resource_slice("s", [device("A", {"kind": "x"}), device("B", {"kind": "y"})], pool="n", nodeName="n"),
        resource_slice("t", [device("C", {"kind": "x"})], pool="m", nodeName="m"),
    ]
    wanted = claim("c", request("r", selectors=of_kind["x"]), request("q", selectors=of_kind["y"]))
    explanation = explanation_of(World(slices, [wanted], nodes=[node("n"), node("m")]))
    assert explanation.node == "n"
    assert left(explanation.requests[0])[Kind.ENOUGH] == 2
    assert [asked.left for asked in explanation.requests] == [1, 1]


def test_the_nearest_node_lacks_fewest_devices_then_has_most_of_the_kind():
    of_x = selectors('device.attributes["d"].kind == "x"')

    def on(name: str, *kinds: str):
        content = [device(f"{name}{n}", {"kind": kind}) for n, kind in enumerate(kinds)]
        return resource_slice(name, content, pool=name, nodeName=name)

    slices = [on("a", "y", "y"), on("b", "x", "x"), on("c", "x", "y")]
    world = World(
        slices,
        asks(request("r", 2, selectors=of_x)),
        [held("h", hold("b0", pool="b"), hold("b1", pool="b"))],
        nodes=[node("a"), node("b"), node("c")],
    )
    assert [miss.node for miss in explanation_of(world).nearest] == ["c", "b", "a"]


def test_huge_counts_are_not_added_to_nonsense():
    count = 2**63 - 1
    slices = [
        resource_slice("a", devices("a0"), pool="a", nodeName="a"),
        resource_slice("b", devices("b0"), pool="b", nodeName="b"),
    ]
    wanted = claim("c", request("huge", count), request("r", 1), request("s", count))
    world = World(slices, [wanted], nodes=[node("a"), node("b")])
    (first, _) = explanation_of(world).nearest
    assert [lack.wanted for lack in first.lacks] == [count, count]


def test_of_the_sets_of_a_device_the_one_that_comes_closest_is_told():
    content = [device("A", draws={"g": {"m": 10}, "h": {"m": 10}})]
    slices = [
        resource_slice("s", content, slices=2, nodeName="n"),
        counter_slice("t", {"g": {"m": 7}, "h": {"m": 9}}, slices=2, nodeName="n"),
    ]
    (asked,) = explanation_of(World(slices, asks(request()))).requests
    (short,) = asked.shortages
    assert (short.set, str(short.short), short.devices) == ("h", "1", 2)


def test_without_effort_nothing_is_asked_again_and_nothing_is_claimed():
    content = [device("A", {"x": 1}), device("B", {"x": 2}), device("C", {"x": 3})]
    world = World(
        [resource_slice("s", content, nodeName="n")],
        asks(request("r", 2), request("q"), constraints=[match("d/x", "r")]),
    )
    explanation = explanation_of(world, effort=0)
    assert explanation.constraints == ()
    assert [name for _, name in explanation.conflict] == ["r", "q"]
    assert explanation_of(world).constraints == ("d/x",)


def test_requests_that_are_tied_need_a_value_that_serves_each_of_them():
    of_kind = {kind: selectors(f'device.attributes["d"].kind == "{kind}"') for kind in "xy"}
    content = [
        device("A", {"kind": "x", "v": 1}),
        device("B", {"kind": "x", "v": 2}),
        device("C", {"kind": "y", "v": 2}),
        device("D", {"kind": "y", "v": 3}),
    ]
    wanted = claim(
        "c",
        request("r", selectors=of_kind["x"]),
        request("q", selectors=of_kind["y"]),
        constraints=[match("d/v")],
    )
    explanation = explanation_of(World([resource_slice("s", content, nodeName="n")], [wanted]))
    assert [left(asked)[Kind.CONSTRAINT] for asked in explanation.requests] == [1, 1]
    apart = claim("c", request("r", 2), constraints=[distinct("d/v")])
    assert explanation_of(World([resource_slice("s", content, nodeName="n")], [apart])).allocatable


def test_of_a_node_the_device_that_fails_least_is_told_and_of_what_selects_the_first():
    tainted = {"key": "k", "effect": "NoSchedule"}
    content = [device("A", taints=[tainted]), device("B")]
    world = World(
        [resource_slice("s", content, nodeName="n")], asks(request()), [held("h", hold("A"), hold("B"))]
    )
    assert explanation_of(world).nearest[0].lacks[0].why == ("B is held by default/h",)
    other = claim("c", request(selectors=selectors("false")))
    foreign = World(
        [resource_slice("s", content, nodeName="n")], [other], classes=[device_class("any", "false")]
    )
    assert explanation_of(foreign).nearest[0].lacks[0].why == (
        "other devices on the node do not match class any",
    )


def test_a_request_that_asks_for_no_mode_is_told_so():
    """AFF-2: nothing is held here."""
    modes = resource_slice("m", slices=2, nodeName="n")
    del modes["spec"]["devices"]
    modes["spec"]["sharingAffinity"] = [{"cel": {"subnet": "object.subnet"}}]
    shared = device("A", allowMultipleAllocations=True)
    slices = [resource_slice("s", [shared], slices=2, nodeName="n"), modes]
    rules = replace(NEW, gates=NEW.gates | {SHARING_AFFINITY})
    explanation = explanation_of(World(slices, asks(request()), rules=rules))
    why = "A: sharingAffinity subnet: no opaque configuration of the request gives it (preview)"
    assert explanation.nearest[0].lacks[0].why == (f"A is excluded ({why})",)
    assert [step.detail for step in explanation.requests[0].funnel if step.kind is Kind.GROUPS] == [why]
