"""The allocation of a claim: results, configuration, node selector (docs/reference/rules/results.md)."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import NEW, OLD, World, local, on_node, spelled, without
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    devices,
    first_of,
    labelled,
    node,
    node_selector,
    only,
    opaque,
    request,
    resource_slice,
    selectors,
    wants,
)

NODE = node("n", zone="a", rack="r")
PINNED = node_selector({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})


def allocation(claims: Object, slices: Sequence[Object], **world: Any) -> Object:
    outcome = on_node(World(slices, [claims], nodes=[NODE], **world))
    assert isinstance(outcome, NodeGrant), outcome
    return outcome.plans[0].allocation.to_json()


def test_a_plain_result_carries_nothing_that_was_not_asked_for():
    """RES-5: no adminAccess, tolerations, share or conditions, and no timestamp (RES-11)."""
    assert allocation(claim("c", request()), [local(device("A"))]) == {
        "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "A"}]},
        "nodeSelector": PINNED,
    }


def test_results_are_in_the_order_of_claims_requests_and_positions():
    """RES-1, RES-2, RES-3."""
    claims = [
        claim("c1", request("r", selectors=only("C")), request("q", 2)),
        claim("c2", first_of("r", x=wants(3), y=wants())),
    ]
    outcome = on_node(World([local(*devices("A", "B", "C", "D"))], claims))
    assert spelled(outcome) == ["r=C q=A q=B", "r/y=D"]


@pytest.mark.parametrize(
    ("second", "slices", "alone"),
    [
        (request("q"), [local(*devices("A", "B"))], True),
        (request("q", adminAccess=True), [local(*devices("A", "B"))], False),
        (
            request("q"),
            [local(device("A")), resource_slice("t", [device("B")], pool="q", allNodes=True)],
            False,
        ),
    ],
    ids=["own", "administrators", "all nodes"],
)
def test_a_plan_names_devices_that_are_held_alone_before_its_allocation_is_made(
    second: Object, slices: Sequence[Object], alone: bool
):
    outcome = on_node(World(slices, [claim("c", request(), second)], nodes=[NODE]))
    assert isinstance(outcome, NodeGrant), outcome
    (plan,) = outcome.plans
    named = plan.plain
    assert named == (tuple([one.id for one in plan.allocation.devices.results]) if alone else ())


def test_tolerations_are_copied_whole_whether_needed_or_not():
    """RES-4: eviction reads them."""
    tolerations = [
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
        {"key": "l", "operator": "Equal", "value": "v"},
    ]
    made = allocation(claim("c", request(tolerations=tolerations)), [local(device("A"))])
    assert made["devices"]["results"][0]["tolerations"] == tolerations


@pytest.mark.parametrize(("asked", "written"), [(True, {"adminAccess": True}), (False, {})])
def test_only_administrative_access_is_marked(asked: bool, written: Object):
    """ADM-5."""
    made = allocation(claim("c", request(adminAccess=asked)), [local(device("A"))])
    assert {k: v for k, v in made["devices"]["results"][0].items() if k == "adminAccess"} == written


WAITING = local(device("A", bindingConditions=["x"], bindingFailureConditions=["y"]))


def test_binding_conditions_are_copied():
    """RES-6."""
    made = allocation(claim("c", request()), [WAITING])
    assert made["devices"]["results"][0]["bindingConditions"] == ["x"]
    assert made["devices"]["results"][0]["bindingFailureConditions"] == ["y"]


@pytest.mark.parametrize("gate", ["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"])
def test_without_either_gate_devices_with_binding_conditions_are_left_alone(gate: str):
    """SEL-1."""
    assert spelled(on_node(World([WAITING], [claim("c", request())], rules=without(gate)))) is None


# -- configuration

LEVELS = {"x": [opaque(level=1), opaque(level=2)], "y": []}
CLASSES = [device_class(name, config=config) for name, config in LEVELS.items()]
ABC = [local(*devices("A", "B", "C"))]


def of(name: str, device_class: str = "x", **fields: Any) -> Object:
    return request(name, device_class=device_class, **fields)


def configured(*requests: str) -> Object:
    return {"requests": list(requests), **opaque(of="claim")}


def entry(source: str, config: Object, *requests: str) -> Object:
    made = {"source": source, **config}
    return {**made, "requests": list(requests)} if requests else made


def config_of(wanted: Object, release: Any) -> list[Object]:
    return allocation(wanted, ABC, classes=CLASSES, rules=release)["devices"].get("config", [])


THREE = (of("r1"), of("r2"), of("r3", "y"))
ONE, TWO = LEVELS["x"]
MINE = opaque(of="claim")

CONFIGS = {
    "T32 a class used twice, by two of three requests": (
        claim("c", *THREE),
        [entry("FromClass", ONE, "r1", "r2"), entry("FromClass", TWO, "r1", "r2")],
        [entry("FromClass", ONE, "r1", "r2"), entry("FromClass", TWO, "r1", "r2")],
    ),
    "RES-10 a class used by all requests": (
        claim("c", of("r1"), of("r2")),
        [entry("FromClass", ONE), entry("FromClass", TWO)],
        [entry("FromClass", ONE, "r1", "r2"), entry("FromClass", TWO, "r1", "r2")],
    ),
    "RES-8 the chosen alternative's class, by its full name": (
        claim("c", of("r1", "y"), first_of("r2", a=wants(9, device_class="y"), b=wants(device_class="x"))),
        [entry("FromClass", ONE, "r2/b"), entry("FromClass", TWO, "r2/b")],
        [entry("FromClass", ONE, "r2/b"), entry("FromClass", TWO, "r2/b")],
    ),
    "T31 for two of three requests": (
        claim("c", *(of(r, "y") for r in ("r1", "r2", "r3")), config=[configured("r1", "r2")]),
        [entry("FromClaim", MINE, "r1", "r2")],
        [entry("FromClaim", MINE, "r1", "r2")] * 2,
    ),
    "T31b for all requests": (
        claim("c", of("r1", "y"), of("r2", "y"), config=[configured("r1", "r2")]),
        [entry("FromClaim", MINE)],
        [entry("FromClaim", MINE, "r1", "r2")] * 2,
    ),
    "RES-9 for no request in particular": (
        claim("c", of("r1", "y"), of("r2", "y"), config=[configured()]),
        [entry("FromClaim", MINE)],
        [entry("FromClaim", MINE)],
    ),
    "RES-9 for an alternative that was not chosen": (
        claim(
            "c",
            first_of("r", a=wants(9, device_class="y"), b=wants(device_class="y")),
            config=[configured("r/a")],
        ),
        [],
        [],
    ),
    "RES-9 for the alternative that was chosen": (
        claim(
            "c",
            of("q", "y"),
            first_of("r", a=wants(9, device_class="y"), b=wants(device_class="y")),
            config=[configured("r/a", "r/b")],
        ),
        [entry("FromClaim", MINE, "r/a", "r/b")],
        [entry("FromClaim", MINE, "r/a", "r/b")],
    ),
    "RES-9 for a request with alternatives": (
        claim(
            "c",
            of("q", "y"),
            first_of("r", a=wants(9, device_class="y"), b=wants(device_class="y")),
            config=[configured("r")],
        ),
        [entry("FromClaim", MINE, "r")],
        [entry("FromClaim", MINE, "r")],
    ),
    "classes first, then the claim": (
        claim("c", of("r1"), of("r2", "y"), config=[configured("r2")]),
        [entry("FromClass", ONE, "r1"), entry("FromClass", TWO, "r1"), entry("FromClaim", MINE, "r2")],
        [entry("FromClass", ONE, "r1"), entry("FromClass", TWO, "r1"), entry("FromClaim", MINE, "r2")],
    ),
}


@pytest.mark.parametrize(("wanted", "new", "_"), CONFIGS.values(), ids=CONFIGS)
def test_configuration_by_the_rules_of_1_37(wanted, new, _):
    assert config_of(wanted, NEW) == new


@pytest.mark.parametrize(("wanted", "_", "old"), CONFIGS.values(), ids=CONFIGS)
def test_configuration_by_the_rules_of_1_36(wanted, _, old):
    assert config_of(wanted, OLD) == old


# -- node selectors

ZONE, RACK, NEWER = labelled("zone", "a"), labelled("rack", "r"), labelled("zone", "a", "b")
ANYWHERE: Any = {"allNodes": True}


def placed(number: int, **place: Any) -> Object:
    return resource_slice(f"s{number}", devices(f"D{number}"), pool=f"p{number}", **place)


def chosen_by(*terms: Object) -> Object:
    return {"nodeSelector": node_selector(*terms)}


def conditions(*terms: Object) -> Object:
    return node_selector({"matchExpressions": [r for term in terms for r in term["matchExpressions"]]})


def both_terms(one: Object, other: Object) -> Object:
    return {"matchExpressions": [*one["matchExpressions"], *other["matchExpressions"]]}


def apart(name: str, **place: Any) -> Object:
    return resource_slice(name, [device(name, **place)], pool=name, perDeviceNodeSelection=True)


@pytest.mark.parametrize(
    ("slices", "selector"),
    [
        pytest.param([placed(0, **ANYWHERE)], None, id="T28 all nodes"),
        pytest.param([placed(0, **ANYWHERE), placed(1, nodeName="n")], PINNED, id="T29 one is local"),
        pytest.param(
            [placed(0, **chosen_by(ZONE)), placed(1, **chosen_by(both_terms(ZONE, RACK)))],
            conditions(ZONE, RACK),
            id="T30 requirements are merged",
        ),
        pytest.param(
            [placed(0, **chosen_by(labelled("zone", "b", "a"))), placed(1, **chosen_by(NEWER))],
            conditions(labelled("zone", "b", "a")),
            id="values are a set",
        ),
        pytest.param(
            [placed(0, **chosen_by(ZONE)), placed(1, **chosen_by(NEWER))],
            conditions(ZONE, NEWER),
            id="other values are another requirement",
        ),
        pytest.param(
            [
                placed(0, **chosen_by(ZONE)),
                resource_slice("b", [device("B", bindsToNode=True)], pool="q", **ANYWHERE),
            ],
            PINNED,
            id="a device that binds to the node",
        ),
        pytest.param([apart("A", nodeName="n"), placed(0, **ANYWHERE)], PINNED, id="local by itself"),
        pytest.param([apart("A", **chosen_by(ZONE))], conditions(ZONE), id="a device's own selector"),
        pytest.param([apart("A", **ANYWHERE)], None, id="a device for all nodes"),
    ],
)
def test_the_node_selector_says_where_the_devices_are_reached(slices, selector):
    """RES-12, RES-14: it does not name the node that the search ran for, unless a device does."""
    wanted = claim("c", request(count=len(slices)))
    assert allocation(wanted, slices).get("nodeSelector") == selector


def test_a_selector_of_two_terms_cannot_be_written():
    """RES-13."""
    world = World([apart("A", **chosen_by(ZONE, RACK))], [claim("c", request())], nodes=[NODE])
    outcome = on_node(world)
    assert spelled(outcome) is Reason.NODE_SELECTOR


def test_a_selector_of_two_terms_does_not_matter_behind_a_local_device():
    """RES-12: the first local device decides."""
    local_first = [apart("A", nodeName="n"), apart("B", **chosen_by(ZONE, RACK))]
    assert allocation(claim("c", request(count=2)), local_first)["nodeSelector"] == PINNED


def test_skipped_node_operations_are_copied_where_the_node_knows_of_them():
    """RES-7, SRCH-12."""
    slices = [local(device("A"), skipNodeOperations=["*"])]
    knowing = {**NODE, "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    outcome = on_node(World(slices, [claim("c", request())], nodes=[knowing]))
    assert isinstance(outcome, NodeGrant)
    assert outcome.plans[0].allocation.devices.results[0].skip_node_operations == ("*",)
    assert spelled(on_node(World(slices, [claim("c", request())], nodes=[NODE]))) is None


def test_each_claim_has_its_own_node_selector():
    slices = [placed(0, **ANYWHERE), placed(1, nodeName="n")]
    claims = [
        claim("c1", request(selectors=selectors('device.attributes["d"].id == "D0"'))),
        claim("c2", request()),
    ]
    outcome = on_node(World(slices, claims, nodes=[NODE]))
    assert isinstance(outcome, NodeGrant)
    assert [plan.allocation.node_selector is None for plan in outcome.plans] == [True, False]
