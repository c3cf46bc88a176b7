"""Constraints and administrative access, one case a rule (docs/reference/rules/constraints.md)."""

from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.cli import main
from tests.tools.allocation_world import Case, World, asks, decide, local, taken, without
from tests.tools.builders import (
    Object,
    claim,
    device,
    devices,
    distinct,
    first_of,
    held,
    hold,
    match,
    node,
    request,
    resource_slice,
    selectors,
    version,
    wants,
)
from tests.tools.checkout import DOCS

NO_LISTS = {"rules": without("DRAListTypeAttributes")}
X = ["r=A r=B"]


def pair(one: Any, other: Any, key: str = "m") -> Object:
    return local(*(device(name, {key: v} if v is not None else {}) for name, v in (("A", one), ("B", other))))


def both(*constraints: Object) -> list[Object]:
    return asks(request(count=2), constraints=constraints)


MATCH, DISTINCT = match("d/m"), distinct("d/m")


def matching(*requests: Object) -> list[Object]:
    return asks(*requests, constraints=[MATCH])


CONSTRAINTS = {
    "CON-11 what is held does not matter": Case(["r=B"], pair(1, 2), matching(request()), taken("A")),
    "any domain: values agree whatever their domains": Case(
        ["r=A r=B"], local(device("A", {"x.org/m": 1}), device("B", {"y.org/m": 1})), both(match("*/m"))
    ),
    "any domain: values that differ do not agree": Case(
        None, local(device("A", {"x.org/m": 1}), device("B", {"y.org/m": 2})), both(match("*/m"))
    ),
    "CLM-3 of two attributes the one that must match counts": Case(
        X, pair(1, 1), both({**MATCH, "distinctAttribute": "d/m"})
    ),
    "CON-2 never across claims": Case(
        ["r=A", "r=B"],
        pair(1, 2),
        (claim("c1", request(), constraints=[MATCH]), claim("c2", request(), constraints=[MATCH])),
    ),
    "CON-4 another domain may not": Case(None, pair(1, 1), both(match("e/m"))),
    "CON-4 qualified": Case(X, pair(1, 1, "e/m"), both(match("e/m"))),
    "CON-5 a version is no string": Case(None, pair("1.0.0", version("1.0.0")), both(MATCH)),
    "CON-5 build metadata differs": Case(None, pair(version("1.0.0+a"), version("1.0.0+b")), both(MATCH)),
    "CON-6 a list that is not understood stands alone": Case(None, pair(["a"], ["a"]), both(MATCH), NO_LISTS),
    "CON-6 but it may stand": Case(["r=A"], pair(["a"], "a"), matching(request()), NO_LISTS),
    "CON-6 a list is refused beside a scalar": Case(None, pair("a", ["a"]), both(MATCH), NO_LISTS),
    "SEL-6 in use comes before the constraint": Case(
        None, pair(1, 2), matching(request(count=None)), taken("B")
    ),
}


def derives(name: str, expression: str, count: int | None = 1, **fields: Any) -> Object:
    """A request with a derived attribute."""
    return request(name, count, derivedAttributes=[{"name": "v/x", "expression": expression}], **fields)


ON_X = match("v/x")


def on_x(*requests: Object) -> list[Object]:
    return asks(*requests, constraints=[ON_X])


M, BUS = "device.attributes['d'].m", "device.attributes['d'].m.split(':')[1]"
FAILING = derives("r", "device.attributes['d'].none")

DERIVED = {
    "CON-12 a part of one attribute is another attribute": Case(
        ["r1=B r2=C"],
        local(device("A", {"m": "0:1:0"}), device("B", {"m": "0:2:0"}), device("C", {"x.io/bus": "2"})),
        on_x(
            derives("r1", BUS, selectors=selectors("'d' in device.attributes")),
            derives(
                "r2", "device.attributes['x.io'].bus", selectors=selectors("'x.io' in device.attributes")
            ),
        ),
    ),
    "CON-12 it hides the attribute of the device": Case(X, pair(1, 2), on_x(derives("r", "'same'", 2))),
    "CON-12 it is seen by its request alone": Case(None, pair(1, 2), on_x(derives("r", M), request("s"))),
    "CON-12 beside an attribute of the same name": Case(
        ["r=B s=A"],
        local(device("A", {"v/x": 2}), device("B", {"m": 2})),
        on_x(derives("r", M, selectors=selectors("has(device.attributes['d'].m)")), request("s")),
    ),
    "CON-12 types differ": Case(None, pair(1, 1), on_x(derives("r", M), derives("s", f"string({M})"))),
    "CON-12 a list has a value in common": Case(
        ["r=A s=B"], pair(1, 2), on_x(derives("r", f"[{M}, dyn(9)]"), derives("s", "9"))
    ),
    "CON-12 an empty list has none": Case(None, pair(1, 2), on_x(derives("r", "[]"))),
    "CON-12 distinct values": Case(
        ["r=A r=C"],
        local(*(device(name, {"m": at}) for name, at in (("A", 0), ("B", 2), ("C", 1)))),
        asks(derives("r", f"{M} % 2", 2), constraints=[distinct("v/x")]),
    ),
    "CON-12 each alternative has its own": Case(
        ["r=A s/b=B"],
        pair(1, 2),
        on_x(
            derives("r", M),
            first_of(
                "s",
                a=wants(derivedAttributes=[{"name": "v/x", "expression": M}]),
                b=wants(derivedAttributes=[{"name": "v/x", "expression": f"{M} - 1"}]),
            ),
        ),
    ),
    "CON-12 what no constraint uses is not evaluated": Case(["r=A"], pair(1, 2), asks(FAILING)),
    "CON-12 the gate": Case(
        Reason.FEATURE_DISABLED, pair(1, 2), on_x(derives("r", M)), {"rules": without("DRADerivedAttributes")}
    ),
    "CON-13 a failure is an error": Case(Reason.DERIVED_ATTRIBUTE, pair(1, 2), on_x(FAILING)),
    "CON-13 so is what does not compile": Case(
        Reason.DERIVED_ATTRIBUTE, pair(1, 2), on_x(derives("r", "device.no"))
    ),
    "CON-13 so is a value that no attribute has": Case(
        Reason.DERIVED_ATTRIBUTE, pair(1, 2), on_x(derives("r", f"dyn(double({M}))"))
    ),
    "CON-13 only once the search reaches the device": Case(["r=A"], pair(1, None), on_x(derives("r", M))),
    "CON-13 not on a device that is not selected": Case(
        ["r=B"], pair(None, 1), on_x(derives("r", M, selectors=selectors("'d' in device.attributes")))
    ),
    "CON-13 not on a device in use": Case(["r=B"], pair(None, 1), on_x(derives("r", M)), taken("A")),
    "CON-13 not on a device that this decision took": Case(
        ["r=A s=B"], pair(None, 1), asks(request("r"), derives("s", M), constraints=[match("v/x", "s")])
    ),
    "CON-13 not on a device that an earlier constraint refuses": Case(
        ["r=B"],
        local(device("A", {}), device("B", {"m": 1, "k": 1})),
        asks(derives("r", M), constraints=[match("d/k"), ON_X]),
    ),
    "CON-13 in mode All": Case(Reason.DERIVED_ATTRIBUTE, pair(1, None), on_x(derives("r", M, None))),
    "CON-13 in mode All a device in use fails the request first": Case(
        None, pair(1, None), on_x(derives("r", M, None)), taken("B")
    ),
}

ADMIN = {
    "ADM-1 false is like unset": Case(None, local(device("A")), asks(request(adminAccess=False)), taken("A")),
    "ADM-5 what an administrator holds is free": Case(
        ["r=A"], local(device("A")), asks(request()), {"held": [held("h", hold("A", adminAccess=True))]}
    ),
    "ADM-6 capacity limits administrators": Case(
        None,
        local(device("A", capacity={"mem": "4"}, allowMultipleAllocations=True)),
        asks(request(adminAccess=True, capacity={"mem": "2"})),
        {"held": [held("h", hold("A", shareID="x", consumedCapacity={"mem": "3"}))]},
    ),
    "ADM-7 all devices, in use or not": Case(
        ["r=A r=B"], local(*devices("A", "B")), asks(request(count=None, adminAccess=True)), taken("B")
    ),
}


CASES = {**CONSTRAINTS, **DERIVED, **ADMIN}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_constraints_and_administrators(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected


def test_a_derived_attribute_that_fails_ends_the_decision_on_the_first_node_that_meets_it():
    """CON-13, unlike other errors, which exclude one node."""
    slices = [
        resource_slice("s1", [device("A", {})], pool="p1", nodeName="n1"),
        resource_slice("s2", [device("B", {"m": 1})], pool="p2", nodeName="n2"),
    ]
    claims = asks(derives("r", M), constraints=[ON_X])
    world = World(slices, claims, nodes=(node("n1"), node("n2")))
    outcome = decide(world)
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.DERIVED_ATTRIBUTE
    assert outcome.message == (
        "node n1: claim default/c, request r: derived attribute v/x: device d/p1/A: no such key: m"
    )
    assert isinstance(decide(replace(world, nodes=world.nodes[1:])), Granted)


def test_the_example_aligns_by_the_bus_of_an_address():
    result = CliRunner().invoke(main, ["allocate", "-f", str(DOCS / "examples" / "derived-attributes.yaml")])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["default/one-bus", "gpu", "gpu.nvidia.com/node-1/gpu-1", "node-1"] in lines
    assert ["default/one-bus", "nic", "dra.net/node-1/rdma0", "node-1"] in lines
    assert "device dra.net/node-1/eth0: no such key: pciAddressBus" in result.stdout
