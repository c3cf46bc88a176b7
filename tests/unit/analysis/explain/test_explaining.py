"""What explanations say in cases that can be checked by eye."""

from dataclasses import replace

from hypothesis import given

from reconciler.allocation.explanation import Explanation, Kind
from reconciler.analysis.explain.explain import as_json, explain
from reconciler.analysis.explain.shortage import Conflict, Relaxation
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import SHARED_CAPACITY
from tests.tools.allocation_strategies import contests
from tests.tools.allocation_world import NEW, World, asks, decide
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    devices,
    distinct,
    first_of,
    held,
    hold,
    labelled,
    match,
    node,
    node_selector,
    request,
    resource_slice,
    selectors,
    taint,
    wants,
)
from tests.tools.examples import examples


def explanation_of(world: World, nodes: list[str] | None = None) -> Explanation:
    return explain(world.wanted(), world.snapshot(), nodes=nodes)


def mig(on: str, left: int, *, taken: int) -> tuple[list[Object], Object]:
    """A GPU of 98 multiprocessors in partitions of 14 and one of 42; a claim holds `taken` small ones."""
    small = [device(f"{on}-s{n}", {"size": 14}, draws={"gpu-2": {"multiprocessors": 14}}) for n in range(7)]
    large = device(f"{on}-large", {"size": 42}, draws={"gpu-2": {"multiprocessors": 42}})
    slices = [
        resource_slice(f"{on}-d", [*small, large], slices=2, pool=on, nodeName=on),
        counter_slice(f"{on}-c", {"gpu-2": {"multiprocessors": left}}, slices=2, pool=on, nodeName=on),
    ]
    return slices, held(f"train-{on}", *(hold(f"{on}-s{n}", pool=on) for n in range(taken)))


def on_n(content: list[Object], *claims: Object, others: list[Object] | None = None) -> World:
    """Devices of one node, claims for them, and claims that hold some."""
    return World([resource_slice("s", content, nodeName="n")], claims, others or [])


def test_the_nearest_miss_names_counter_set_amount_and_holder():
    far, holds_far = mig("far", 98, taken=7)
    near, holds_near = mig("near", 98, taken=5)
    asked = claim("c", request("r", selectors=selectors('device.attributes["d"].size == 42')))
    world = World([*far, *near], [asked], [holds_far, holds_near], nodes=[node("far"), node("near")])
    explanation = explanation_of(world)
    (asked_for,) = explanation.requests
    (short,) = asked_for.shortages
    found = (str(short.short), short.counter, short.set, short.devices)
    assert found == ("14", "multiprocessors", "gpu-2", 2)
    assert short.holders == (ObjectKey("default", "train-near"),)
    assert asked_for.smallest == (("selector #0", "counters"),)
    assert explanation.reason == "CountersExhausted"
    by_node = {miss.node: str(miss) for miss in explanation.nearest}
    assert by_node["near"] == (
        "near: 0 of 1 for request r; counter set gpu-2 is short of 14 multiprocessors "
        "(held by default/train-near)"
    )


def test_the_best_case_of_a_counter_is_told_in_its_own_unit():
    sets: dict[str, dict[str, str | int]] = {"g": {"memory": "40Gi", "slots": 1}}
    world = World(
        [
            resource_slice(
                "s", [device("A", draws={"g": {"memory": "60Gi", "slots": 1}})], slices=2, nodeName="n"
            ),
            counter_slice("t", sets, slices=2, nodeName="n"),
        ],
        asks(request()),
    )
    (short,) = explanation_of(world).requests[0].shortages
    assert (str(short.short), str(short.left), str(short.wanted)) == ("20Gi", "40Gi", "60Gi")


def test_enough_one_by_one_but_not_at_once_says_how_many_fit():
    slices, _ = mig("n", 42, taken=0)
    world = World(slices, asks(request("r", 4, selectors=selectors('device.attributes["d"].size == 14'))))
    explanation = explanation_of(world)
    assert explanation.reason == "NeverFits"  # nothing is held
    assert explanation.conflict == ((ObjectKey("default", "c"), "r"),)
    assert str(explanation.nearest[0]) == "n: 3 of 4 devices for request r fit together"


def test_a_constraint_is_blamed_by_its_attribute_and_only_if_it_alone_stands_in_the_way():
    content = [device("A", {"x": 1, "y": 1}), device("B", {"x": 1, "y": 2})]
    world = on_n(content, claim("c", request("r", 2), constraints=[match("d/x"), match("d/y")]))
    explanation = explanation_of(world)
    assert explanation.constraints == ("d/y",)
    counts = {step.about: step.left for step in explanation.requests[0].funnel}
    assert (counts["constraint on d/x"], counts["constraint on d/y"]) == (2, 0)


def test_devices_without_the_attribute_do_not_pass_a_constraint():
    content = [device("A", {"x": 1}), device("B")]
    world = on_n(content, claim("c", request("r", 2), constraints=[distinct("d/x")]))
    counts = {step.about: step.left for step in explanation_of(world).requests[0].funnel}
    assert counts["constraint on d/x"] == 1


def test_requests_that_want_the_same_devices_are_named_and_no_others():
    content = [device("A", {"kind": "x"}), device("B", {"kind": "x"}), device("C", {"kind": "y"})]
    of_x, of_y = (selectors(f'device.attributes["d"].kind == "{kind}"') for kind in "xy")
    requests = [request("p", 2, selectors=of_x), request("q", selectors=of_y), request("r", selectors=of_x)]
    explanation = explanation_of(on_n(content, claim("c", *requests)))
    assert [name for _, name in explanation.conflict] == ["p", "r"]


def test_an_error_is_told_with_its_expression_and_a_device():
    content = [device("A", {"x": 1}), device("B"), device("C")]
    text = 'device.attributes["d"].x == 2'
    world = on_n(content, claim("c", request(selectors=selectors(text))))
    (failing,) = explanation_of(world).requests[0].failing
    assert (failing.expression, str(failing.device), failing.devices) == (text, "d/p/B", 2)
    assert "no such key" in failing.problem


def test_a_taint_is_spelled_and_a_tolerated_one_is_not():
    taints = [taint("k"), taint("maintenance", "NoExecute", "today")]
    world = on_n(
        [device("A", taints=taints)], claim("c", request(tolerations=[{"key": "k", "operator": "Exists"}]))
    )
    assert explanation_of(world).nearest[0].lacks[0].why == ("A has the taint maintenance=today:NoExecute",)


def test_two_gates_that_share_the_work_are_told_together():
    content = [*devices("A"), *devices("B", taints=[taint("k")])]
    world = on_n(content, claim("c", request()), others=[held("h", hold("A"))])
    assert explanation_of(world).requests[0].smallest == (("tolerated taints", "not held by other claims"),)


def test_nodes_that_are_not_considered_are_a_gate():
    slices = [resource_slice("s", devices("A"), nodeName="n")]
    world = World(slices, asks(request()), nodes=[node("n"), node("m")])
    explanation = explanation_of(world, ["m"])
    assert explanation.requests[0].smallest == ((),), "no node considered has any device"
    counts = {step.kind: step.left for step in explanation.requests[0].funnel}
    assert (counts[Kind.COUNTERS], counts[Kind.NODES]) == (1, 0)
    assert explanation.nodes == 1


def test_devices_that_a_selector_gives_to_nodes_count_on_each_of_them():
    zone = node_selector(labelled("zone", "a"))
    slices = [resource_slice("s", devices("A", "B"), nodeSelector=zone)]
    nodes = [node("n", zone="a"), node("m", zone="a"), node("o", zone="b")]
    world = World(slices, asks(request("r", 3)), nodes=nodes)
    found = [(miss.node, miss.lacks[0].have) for miss in explanation_of(world).nearest]
    assert found == [("m", 2), ("n", 2), ("o", 0)]


def test_the_alternatives_of_a_request_are_explained_one_by_one():
    world = on_n(devices("A"), claim("c", first_of("r", a=wants(3), b=wants(2))))
    explanation = explanation_of(world)
    assert [(r.request, r.wanted) for r in explanation.requests] == [("r/a", 3), ("r/b", 2)]
    assert explanation.nearest[0].lacks[0].request == "r/b"


def test_all_devices_of_a_node_lack_those_that_are_held():
    world = on_n(devices("A", "B"), claim("c", request(count=None)), others=[held("h", hold("B"))])
    explanation = explanation_of(world)
    (lack,) = explanation.nearest[0].lacks
    assert (lack.have, lack.wanted, lack.why) == (1, 2, ("B is held by default/h",))
    assert explanation.requests[0].smallest == (("not held by other claims",),)


def test_what_can_be_allocated_says_where_and_counts_all_the_same():
    explanation = explanation_of(on_n(devices("A"), claim("c", request())))
    assert (explanation.allocatable, explanation.node, explanation.reason) == (True, "n", "")
    assert explanation.requests[0].funnel[-1].kind is Kind.TOGETHER
    assert explanation.requests[0].left == 1


def test_claims_of_one_pod_are_explained_together():
    world = on_n(devices("A"), claim("c", request()), claim("d", request()))
    explanation = explanation_of(world)
    assert [str(key) for key, _ in explanation.conflict] == ["default/c", "default/d"]


@examples(40)
@given(contests())
def test_a_conflict_is_one_and_is_minimal(world: World):
    explanation = explanation_of(world)
    if not explanation.conflict:
        return
    found = Relaxation(world.wanted(), world.snapshot(), None).conflict()
    assert found.requests == explanation.conflict

    def fits(kept: Conflict) -> bool:
        claims = []
        for raw in world.claims:
            key, wanted = ObjectKey("default", raw["metadata"]["name"]), raw["spec"]["devices"]
            requests = [one for one in wanted["requests"] if (key, one["name"]) in kept.requests]
            every = enumerate(wanted.get("constraints", ()))
            constraints = [one for number, one in every if (key, number) in kept.constraints]
            if requests:
                devices = {**wanted, "requests": requests, "constraints": constraints}
                claims.append({**raw, "spec": {"devices": devices}})
        return isinstance(decide(replace(world, claims=claims)), Granted)

    assert not fits(found)
    for one in found.requests if len(found.requests) > 1 else ():
        assert fits(found._replace(requests=tuple([other for other in found.requests if other != one])))
    for constraint in found.constraints:
        assert fits(found._replace(constraints=tuple([c for c in found.constraints if c != constraint])))


def test_a_conflict_names_requests_and_constraints_and_how_many_devices_fit():
    """Four GPUs with three devices each: three and two devices have no place on different GPUs."""
    gpus = [device(f"g{gpu}-{at}", {"gpu": gpu, "numa": 0}) for gpu in range(4) for at in range(3)]
    asked = [request("r0"), request("r1", 2), request("r2"), request("r3", 3)]
    constraints = [distinct("d/gpu", "r1", "r3"), match("d/numa"), distinct("d/gpu", "r2")]
    world = World(
        [resource_slice(f"s-{name}", gpus, pool=name, nodeName=name) for name in ("n", "m")],
        asks(*asked, constraints=constraints),
        nodes=[node("m"), node("n")],
    )
    explanation = explanation_of(world)
    assert [name for _, name in explanation.conflict] == ["r1", "r3"]
    assert explanation.conflicting == ((ObjectKey("default", "c"), "distinct d/gpu"),)
    text = (
        "r1, r3 and distinct d/gpu cannot hold together; beside the others, 2 of 3 devices fit for request r3"
    )
    assert [str(miss) for miss in explanation.nearest] == [f"m: {text}", f"n: {text}"]
    assert "these cannot hold together: r1, r3, distinct d/gpu" in explanation.short()
    found = as_json(explanation)["constraintsNotTogether"]
    assert found == [{"claim": "default/c", "constraint": "distinct d/gpu"}]


def test_what_the_rules_of_a_preview_refuse_says_that_it_is_one():
    """A request policy of a counter, by shared consumable capacity."""
    counters = counter_slice("t", {"port": {"bandwidth": 0}}, slices=2, nodeName="n")
    policy = {"default": "1G", "validRange": {"min": "1G", "max": "60G"}}
    counters["spec"]["sharedCounters"][0]["counters"]["bandwidth"] = {
        "value": "100G",
        "requestPolicy": policy,
    }
    draws = [
        {"counterSet": "port", "counters": {"bandwidth": {"valueFrom": {"capacityName": "d/bandwidth"}}}}
    ]
    port = [counters, resource_slice("s", [device("vf", consumesCounters=draws)], slices=2, nodeName="n")]
    wanted = claim("c", request(capacity={"d/bandwidth": "61G"}))
    rules = replace(NEW, gates=NEW.gates | {SHARED_CAPACITY})
    (miss,) = explanation_of(World(port, [wanted], [], rules=rules)).nearest
    assert "request policies do not allow the requested amount (preview)" in str(miss)
