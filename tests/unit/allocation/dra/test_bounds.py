"""Cases that a too strong bound would hide: solutions, and errors.

Bounds are only asked once a search has turned back. So each case begins with a request for A or B and one
for A alone: first fit gives A away, fails, and begins again with B.
"""

from typing import Any

import pytest

from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import Case, local
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
    match,
    only,
    request,
    selectors,
    wants,
)

START = (request("r0", selectors=only("A", "B")), request("r1", selectors=only("A")))


def drawing(name: str, amount: int, **fields: Any) -> Object:
    return device(name, {"id": name}, draws={"g": {"m": amount}}, **fields)


def pool(total: int, *content: Object) -> list[Object]:
    return [local(*content, slices=2), counter_slice("t", {"g": {"m": total}}, slices=2, nodeName="n")]


CASES = {
    "administrators of a later claim take what is taken": Case(
        ["r0=B r1=A", "r=A"],
        local(*devices("A", "B")),
        [claim("c1", *START), claim("c2", request(adminAccess=True, selectors=only("A")))],
    ),
    "also what the claim at hand took before": Case(
        ["r0=B r1=A", "r=B"],
        local(*devices("A", "B")),
        [claim("c1", *START), claim("c2", request(adminAccess=True, selectors=only("B")))],
    ),
    "a shared device serves several requests": Case(
        ["r0=B r1=A r2=S r3=S"],
        local(*devices("A", "B"), *devices("S", allowMultipleAllocations=True)),
        [claim("c", *START, request("r2", selectors=only("S")), request("r3", selectors=only("S")))],
    ),
    "and draws its counters once": Case(
        ["r0=B r1=A r2=S r3=S"],
        pool(4, *devices("A", "B"), drawing("S", 4, allowMultipleAllocations=True)),
        [claim("c", *START, request("r2", selectors=only("S")), request("r3", selectors=only("S")))],
    ),
    "an error comes before a request that cannot be met": Case(
        Reason.CEL_RUNTIME,
        local(*devices("A", "B", "C")),
        [
            claim(
                "c",
                *START,
                request("r2", selectors=selectors('device.attributes["d"].missing == 1')),
                request("r3", selectors=selectors("false")),
            )
        ],
    ),
    "an error of mode All comes before a request that cannot be met": Case(
        Reason.CONSTRAINT_VIOLATED,
        local(*(device(name, {"id": name, "m": name}) for name in "ABCD")),
        [
            claim(
                "c",
                *START,
                request("r2", None, selectors=only("C", "D")),
                request("r3", selectors=selectors("false")),
                constraints=[match("d/m", "r2")],
            )
        ],
    ),
    "the smallest alternative counts": Case(
        ["r0=B r1=A r2/y=C"],
        local(*devices("A", "B", "C")),
        [claim("c", *START, first_of("r2", x=wants(2), y=wants()))],
    ),
    "the alternative that draws least counts": Case(
        ["r0=B r1=A r2/y=D"],
        pool(4, drawing("A", 1), drawing("B", 0), drawing("C", 4), drawing("D", 1)),
        [claim("c", *START, first_of("r2", x=wants(selectors=only("C")), y=wants(selectors=only("D"))))],
    ),
    "exactly what is left can be drawn": Case(
        ["r0=B r1=A r2=C"],
        pool(4, drawing("A", 2), drawing("B", 0), drawing("C", 2)),
        [claim("c", *START, request("r2", selectors=only("C")))],
    ),
    "an alternative that is not tied escapes the constraint": Case(
        ["r0=B r1=A r2/y=C"],
        local(*(device(name, {"id": name, "m": name}) for name in "ABC")),
        [claim("c", *START, first_of("r2", x=wants(), y=wants()), constraints=[match("d/m", "r1", "r2/x")])],
    ),
    "values in common count, not the whole list": Case(
        ["r0=B r1=A r2=C"],
        local(
            device("A", {"id": "A", "m": ["x", "y"]}),
            *devices("B"),
            device("C", {"id": "C", "m": ["y", "z"]}),
        ),
        [claim("c", *START, request("r2", selectors=only("C")), constraints=[match("d/m", "r1", "r2")])],
    ),
    "a claim may hold as many as the limit": Case(
        [" ".join(["r0=B", "r1=A", *(f"r2=d{number:02}" for number in range(30))])],
        local(*devices("A", "B", *(f"d{number:02}" for number in range(30)))),
        [claim("c", *START, request("r2", 30))],
    ),
    "the next claim has a limit of its own": Case(
        ["r0=B r1=A", " ".join(f"r=d{number:02}" for number in range(32))],
        local(*devices("A", "B", *(f"d{number:02}" for number in range(32)))),
        [claim("c1", *START), claim("c2", request("r", 32))],
    ),
    "constraints of one claim do not bind the next": Case(
        ["r0=B r1=A", "r=C"],
        local(*(device(name, {"id": name, "m": name}) for name in "ABC")),
        [
            claim("c1", *START, constraints=[match("d/m", "r1")]),
            claim("c2", request(selectors=only("C")), constraints=[match("d/m")]),
        ],
    ),
}


def with_m(**values: Any) -> list[Object]:
    return [
        device(name, {"id": name, "m": value} if value else {"id": name}) for name, value in values.items()
    ]


SHARED = devices("A", "B", capacity={"mem": "4"}, allowMultipleAllocations=True)

EQUALS = {
    "another value of a constraint": Case(
        ["r1=B r2=C"],
        local(*with_m(A=1, B=2, C=2)),
        [claim("c", request("r1"), request("r2"), constraints=[match("d/m")])],
    ),
    "another draw": Case(
        ["r1=B r2=C"],
        pool(4, drawing("A", 2), drawing("B", 1), drawing("C", 3)),
        [claim("c", request("r1"), request("r2", selectors=only("C")))],
    ),
    "more consumed by shares": Case(
        ["r1=B r2=A"],
        local(*SHARED),
        [claim("c", request("r1", capacity={"mem": "1"}), request("r2", capacity={"mem": "4"}))],
        {"held": [held("h", hold("B", shareID="x", consumedCapacity={"mem": "2"}))]},
    ),
    "what was consumed on the way": Case(
        ["r1=A r2=B r3=A r4=B"],
        local(*SHARED),
        [claim("c", *(request(f"r{n}", capacity={"mem": m}) for n, m in enumerate("1133", 1)))],
    ),
    "an error for a later request": Case(
        Reason.CEL_RUNTIME,
        local(*devices("A", "B")),
        [
            claim(
                "c",
                request("r1"),
                request(
                    "r2",
                    selectors=selectors(
                        'device.attributes["d"].id == "A" && device.attributes["d"].missing == 1'
                    ),
                ),
            )
        ],
    ),
    "wanted by a later request": Case(
        ["r1=B r2=A"],
        local(*devices("A", "B")),
        [claim("c", request("r1"), request("r2", selectors=only("A")))],
    ),
    "another place in the list of mode All": Case(
        Reason.CONSTRAINT_VIOLATED,
        local(*with_m(A=1, B=0, C=0, D=1)),
        [claim("c", request("r1"), request("r2", None), constraints=[distinct("d/m")])],
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", EQUALS.values(), ids=EQUALS)
def test_a_device_is_tried_although_one_failed_that_differs_by(case: Case, pruned: bool):
    """The search skips devices equal to one that failed. These devices are not equal."""
    assert case.answer(pruned=pruned) == case.expected


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bound_hides_neither_a_solution_nor_an_error(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected
