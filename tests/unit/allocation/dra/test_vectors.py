"""The end-to-end vectors of the rules, by their numbers: the devices of each claim, or the error.

Unless a case says otherwise: one node `n`, one pool of one slice with devices A, B, C, all free, each
request for one device of any kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from tests.tools.allocation_world import NEW, OLD, World, asks, on_node, spelled
from tests.tools.builders import (
    Object,
    amount,
    claim,
    counter_slice,
    device,
    device_class,
    devices,
    distinct,
    first_of,
    held,
    hold,
    match,
    only,
    request,
    resource_slice,
    selectors,
    taint,
    wants,
)

BOTH = (NEW, OLD)
FAILS_ON_B = selectors('device.attributes["d"].id != "B" || device.attributes["d"].missing == 1')
TOLERATES_K1 = [{"key": "k1", "operator": "Exists"}]


@dataclass(frozen=True)
class Vector:
    """A situation and its answer: one line a claim, an error, or None for "does not fit"."""

    expected: list[str] | Reason | None
    claims: Sequence[Object]
    slices: tuple[Object, ...]
    held: tuple[Object, ...] = ()
    classes: tuple[Object, ...] = field(default_factory=lambda: (device_class(),))
    releases: tuple[Semantics, ...] = BOTH


def local(name: str = "s", *, of: list[Object] | None = None, **fields: Any) -> Object:
    """A slice for node n."""
    return resource_slice(name, devices("A", "B", "C") if of is None else of, **{"nodeName": "n", **fields})


def many(count: int) -> Object:
    return local(of=devices(*(f"d{number:02}" for number in range(count))))


def with_m(**values: Any) -> list[Object]:
    return [device(name, {"m": value}) for name, value in values.items()]


ABC = (local(),)
JUST_A = (local(of=devices("A")),)
A_HELD = (held("h", hold("A")),)
SHARED_A = (
    local(of=devices("A", capacity={"mem": amount("10Gi", default="1Gi")}, allowMultipleAllocations=True)),
)
GROUP_40 = counter_slice("counters", {"g": {"m": 40}}, slices=2, nodeName="n")


def drawing(**amounts: int) -> Object:
    return local(of=[device(name, draws={"g": {"m": m}}) for name, m in amounts.items()], slices=2)


def admin(name: str) -> Object:
    return request(name, adminAccess=True)


VECTORS = {
    "T1": Vector(
        ["r=B r=C"], asks(request(count=2), constraints=[match("d/m")]), (local(of=with_m(A=1, B=2, C=2)),)
    ),
    "T2": Vector(["r1=B r2=A"], asks(request("r1"), request("r2", selectors=only("A"))), ABC),
    "T3": Vector(
        ["r1=A r2/y=B"],
        asks(request("r1"), first_of("r2", x=wants(selectors=only("A")), y=wants(selectors=only("B")))),
        ABC,
    ),
    "T4": Vector(
        ["r/small=B", "r=A"],
        (
            claim("c1", first_of("r", big=wants(selectors=only("A")), small=wants(selectors=only("B")))),
            claim("c2", request(selectors=only("A"))),
        ),
        ABC,
    ),
    "T5": Vector(None, asks(request(count=None)), ABC, A_HELD),
    "T6": Vector(["r=A r=B r=C"], asks(request(count=None, adminAccess=True)), ABC, A_HELD),
    "T7 nothing matches": Vector(None, asks(request(count=None, selectors=selectors("false"))), ABC),
    "T7 33 match": Vector(Reason.TOO_MANY_DEVICES, asks(request(count=None)), (many(33),)),
    "T7 32 match": Vector(
        [" ".join(f"r=d{number:02}" for number in range(32))], asks(request(count=None)), (many(32),)
    ),
    "T8 exact": Vector(
        ["r=A"],
        asks(request(selectors=selectors('device.driver == "d"'))),
        (*ABC, local("t", driver="e", pool="q", slices=2)),
    ),
    "T8 all": Vector(
        Reason.INCOMPLETE_POOL,
        asks(request(count=None, selectors=selectors('device.driver == "d"'))),
        (*ABC, local("t", driver="e", pool="q", slices=2)),
    ),
    "T9 satisfiable": Vector(["r=A"], asks(request()), (*ABC, local("t", driver="e", of=devices("X", "X")))),
    "T9 unsatisfiable": Vector(
        Reason.INVALID_POOL,
        asks(request(selectors=selectors("false"))),
        (*ABC, local("t", driver="e", of=devices("X", "X"))),
    ),
    "T10": Vector(["r=A"], asks(request()), (*ABC, local("t", of=devices("X"), generation=2, nodeName="m"))),
    "T11 exact": Vector(
        None, asks(request()), (local(slices=2), local("t", of=devices("X"), generation=2, nodeName="m"))
    ),
    "T11 all": Vector(
        None,
        asks(request(count=None)),
        (local(slices=2), local("t", of=devices("X"), generation=2, nodeName="m")),
    ),
    "T12 exact": Vector(None, asks(request()), (local("s1"), local("s2", of=devices("X")))),
    "T12 all": Vector(
        Reason.INCOMPLETE_POOL, asks(request(count=None)), (local("s1"), local("s2", of=devices("X")))
    ),
    "T13 one": Vector(
        ["r=B"],
        asks(request()),
        (
            local("s1", of=devices("A", bindingConditions=["x"], bindingFailureConditions=["y"]), pool="a"),
            local("s2", of=devices("B"), pool="b"),
        ),
    ),
    "T13 two": Vector(
        ["r=B r=A"],
        asks(request(count=2)),
        (
            local("s1", of=devices("A", bindingConditions=["x"], bindingFailureConditions=["y"]), pool="a"),
            local("s2", of=devices("B"), pool="b"),
        ),
    ),
    "T14": Vector(
        ["r=A"],
        asks(request()),
        (local("s-9", of=devices("B"), slices=2), local("s-10", of=devices("A"), slices=2)),
    ),
    "T15": Vector(None, asks(request(count=2)), SHARED_A),
    "T16": Vector(["r1=A r2=A"], asks(request("r1"), request("r2")), SHARED_A),
    "T17": Vector(None, asks(request("r1"), request("r2"), constraints=[distinct("d/id")]), SHARED_A),
    "T18 one": Vector(
        ["r=B"], asks(request()), (local(of=[*devices("A", taints=[taint("k1")]), *devices("B")]),)
    ),
    "T18 all": Vector(
        None, asks(request(count=None)), (local(of=[*devices("A", taints=[taint("k1")]), *devices("B")]),)
    ),
    "T19": Vector(
        ["r=B"],
        asks(request(tolerations=TOLERATES_K1)),
        (local(of=[*devices("A", taints=[taint("k1"), taint("k2")]), *devices("B")]),),
    ),
    "T20": Vector(
        Reason.CONSTRAINT_VIOLATED,
        asks(request(count=None), constraints=[match("d/m")]),
        (local(of=with_m(A=1, B=2)),),
    ),
    "T21 A free": Vector(["r=A"], asks(request(selectors=FAILS_ON_B)), ABC),
    "T21 A held": Vector(Reason.CEL_RUNTIME, asks(request(selectors=FAILS_ON_B)), ABC, A_HELD),
    "T22": Vector(
        ["r=C"],
        asks(request(selectors=FAILS_ON_B)),
        ABC,
        A_HELD,
        (device_class("any", 'device.attributes["d"].id != "B"'),),
    ),
    "T23": Vector(None, asks(admin("r1"), request("r2")), JUST_A),
    "T24": Vector(["r=A", "r=A"], (claim("c1", request()), claim("c2", admin("r"))), JUST_A),
    "T25": Vector(None, (claim("c1", admin("r")), claim("c2", request())), JUST_A),
    "T26": Vector(
        [
            " ".join(
                [f"r1=d{number:02}" for number in range(20)] + [f"r2/y=d{number}" for number in range(20, 32)]
            )
        ],
        asks(request("r1", 20), first_of("r2", x=wants(20), y=wants(12))),
        (many(40),),
    ),
    "T27": Vector(Reason.TOO_MANY_DEVICES, asks(request("r1", 20), request("r2", 20)), (many(40),)),
    "T33": Vector(
        ["r=B"],
        asks(request(capacity={"mem": "4Gi"})),
        (local(of=[device("A", capacity={"mem": "2Gi"}), device("B", capacity={"mem": "8Gi"})]),),
    ),
    "T34": Vector(None, asks(request(capacity={"mem": "1"})), ABC),
    "T35": Vector(["r=C"], asks(request()), (drawing(A=40, B=20, C=20), GROUP_40), (held("h", hold("B")),)),
    "T38": Vector([""], asks(), ABC),
    "T39": Vector(
        Reason.INVALID_POOL,
        asks(request(count=4)),
        (local("s1", slices=2), local("s2", of=devices("A"), slices=2)),
    ),
    "T40": Vector(
        ["r=A r=B r=C"],
        asks(request(count=3)),
        (local("s1", slices=2), local("s2", of=devices("A"), slices=2, nodeName="m")),
    ),
    "CTR full device tried first": Vector(
        ["r=a r=b"], asks(request(count=2)), (drawing(full=40, a=20, b=20, c=30), GROUP_40)
    ),
    "CTR half drawn": Vector(
        ["r=b"], asks(request()), (drawing(full=40, a=20, b=20, c=30), GROUP_40), (held("h", hold("a")),)
    ),
    "CTR too much drawn": Vector(
        None, asks(request()), (drawing(full=40, a=20, b=20, c=30), GROUP_40), (held("h", hold("c")),)
    ),
}


@pytest.mark.parametrize(
    ("vector", "rules"),
    [
        pytest.param(vector, rules, id=f"{name}, {rules.release}")
        for name, vector in VECTORS.items()
        for rules in vector.releases
    ],
)
def test_the_rules_give_this_answer(vector: Vector, rules: Semantics):
    world = World(vector.slices, vector.claims, vector.held, vector.classes, rules=rules)
    assert spelled(on_node(world)) == vector.expected
    assert spelled(on_node(world, pruned=False)) == vector.expected
