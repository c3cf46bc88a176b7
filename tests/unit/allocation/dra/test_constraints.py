"""Constraints and administrative access, one case a rule (docs/reference/rules/constraints.md)."""

from typing import Any

import pytest

from reconciler.api.objects.plan import Reason
from tests.tools.allocation_cases import Case, local, taken
from tests.tools.allocation_world import without
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
    request,
    selectors,
    version,
    wants,
)

NO_LISTS = {"rules": without("DRAListTypeAttributes")}
X = ["r=A r=B"]


def pair(one: Any, other: Any, key: str = "m") -> Object:
    return local(*(device(name, {key: v} if v is not None else {}) for name, v in (("A", one), ("B", other))))


def both(*constraints: Object) -> tuple[Object, ...]:
    return (claim("c", request(count=2), constraints=constraints),)


MATCH, DISTINCT = match("d/m"), distinct("d/m")

CONSTRAINTS = {
    "any domain: values agree whatever their domains": Case(
        ["r=A r=B"],
        local(device("A", {"x.org/m": 1}), device("B", {"y.org/m": 1})),
        both(match("*/m")),
    ),
    "any domain: values that differ do not agree": Case(
        None,
        local(device("A", {"x.org/m": 1}), device("B", {"y.org/m": 2})),
        both(match("*/m")),
    ),
    "CON-1 only the requests named": Case(
        ["r1=A r2=B"],
        pair(1, 2),
        (claim("c", request("r1"), request("r2"), constraints=[match("d/m", "r1")]),),
    ),
    "CON-1 only the alternative named": Case(
        ["r1=A r2/b=B"],
        pair(1, 2),
        (
            claim(
                "c",
                request("r1"),
                first_of("r2", a=wants(selectors=selectors("true")), b=wants()),
                constraints=[match("d/m", "r1", "r2/a")],
            ),
        ),
    ),
    "CON-1 a request named covers its alternatives": Case(
        None,
        pair(1, 2),
        (
            claim(
                "c",
                request("r1"),
                first_of("r2", a=wants(), b=wants()),
                constraints=[match("d/m", "r1", "r2")],
            ),
        ),
    ),
    "CLM-3 of two attributes the one that must match counts": Case(
        X, pair(1, 1), both({**MATCH, "distinctAttribute": "d/m"})
    ),
    "CON-2 never across claims": Case(
        ["r=A", "r=B"],
        pair(1, 2),
        (claim("c1", request(), constraints=[MATCH]), claim("c2", request(), constraints=[MATCH])),
    ),
    "CON-3 a device without the attribute is passed over": Case(
        ["r=B"], pair(None, 1), (claim("c", request(), constraints=[MATCH]),)
    ),
    "CON-3 under All it is an error": Case(
        Reason.CONSTRAINT_VIOLATED, pair(1, None), (claim("c", request(count=None), constraints=[MATCH]),)
    ),
    "CON-4 the driver's domain may be left out": Case(X, pair(1, 1), both(match("d/m"))),
    "CON-4 another domain may not": Case(None, pair(1, 1), both(match("e/m"))),
    "CON-4 qualified": Case(X, pair(1, 1, "e/m"), both(match("e/m"))),
    "CON-5 types differ": Case(None, pair(1, True), both(MATCH)),
    "CON-5 a version is no string": Case(None, pair("1.0.0", version("1.0.0")), both(MATCH)),
    "CON-5 build metadata differs": Case(None, pair(version("1.0.0+a"), version("1.0.0+b")), both(MATCH)),
    "CON-5 the same version": Case(X, pair(version("1.0.0+a"), version("1.0.0+a")), both(MATCH)),
    "CON-6 a list that is not understood stands alone": Case(None, pair(["a"], ["a"]), both(MATCH), NO_LISTS),
    "CON-6 but it may stand": Case(
        ["r=A"], pair(["a"], "a"), (claim("c", request(), constraints=[MATCH]),), NO_LISTS
    ),
    "CON-6 a list is refused beside a scalar": Case(None, pair("a", ["a"]), both(MATCH), NO_LISTS),
    "CON-7 lists with a common value": Case(X, pair(["a", "b"], ["b", "c"]), both(MATCH)),
    "CON-7 a scalar is a list of one": Case(X, pair(["a", "b"], "b"), both(MATCH)),
    "CON-7 nothing in common": Case(None, pair(["a"], ["b"]), both(MATCH)),
    "CON-7 lists of other types": Case(None, pair([1], ["1"]), both(MATCH)),
    "CON-7 common to all, not pair by pair": Case(
        None,
        local(device("A", {"m": ["a", "b"]}), device("B", {"m": ["b", "c"]}), device("C", {"m": ["c", "a"]})),
        (claim("c", request(count=3), constraints=[MATCH]),),
    ),
    "CON-8 distinct values": Case(X, pair(1, 2), both(DISTINCT)),
    "CON-8 equal values": Case(None, pair(1, 1), both(DISTINCT)),
    "CON-8 other types never collide": Case(X, pair(1, True), both(DISTINCT)),
    "CON-8 disjoint lists": Case(X, pair(["a"], ["b", "c"]), both(DISTINCT)),
    "CON-8 lists that overlap": Case(None, pair(["a", "b"], ["b", "c"]), both(DISTINCT)),
    "CON-8 all that were chosen count, not only the last": Case(
        None,
        local(device("A", {"m": 1}), device("B", {"m": 2}), device("C", {"m": 1})),
        (claim("c", request(count=3), constraints=[DISTINCT]),),
    ),
    "CON-11 what is held does not matter": Case(
        ["r=B"], pair(1, 2), (claim("c", request(), constraints=[MATCH]),), taken("A")
    ),
    "SEL-6 in use comes before the constraint": Case(
        None,
        pair(1, 2),
        (claim("c", request(count=None), constraints=[MATCH]),),
        taken("B"),
    ),
}

ADMIN = {
    "ADM-1 false is like unset": Case(
        None,
        local(device("A")),
        (claim("c", request(adminAccess=False)),),
        taken("A"),
    ),
    "ADM-2 held elsewhere": Case(
        ["r=A"],
        local(device("A")),
        (claim("c", request(adminAccess=True)),),
        taken("A"),
    ),
    "ADM-2 twice in one claim": Case(
        None,
        local(device("A")),
        (claim("c", request("r", adminAccess=True), request("s", adminAccess=True)),),
    ),
    "ADM-2 twice in one claim if it can be shared": Case(
        ["r=A s=A"],
        local(device("A", allowMultipleAllocations=True)),
        (claim("c", request("r", adminAccess=True), request("s", adminAccess=True)),),
    ),
    "ADM-2 in two claims": Case(
        ["r=A", "r=A"],
        local(device("A")),
        (claim("c1", request(adminAccess=True)), claim("c2", request(adminAccess=True))),
    ),
    "ADM-3 what an administrator took is taken": Case(
        None, local(device("A")), (claim("c1", request(adminAccess=True)), claim("c2", request()))
    ),
    "ADM-5 what an administrator holds is free": Case(
        ["r=A"],
        local(device("A")),
        (claim("c", request()),),
        {"held": [held("h", hold("A", adminAccess=True))]},
    ),
    "ADM-6 capacity limits administrators": Case(
        None,
        local(device("A", capacity={"mem": "4"}, allowMultipleAllocations=True)),
        (claim("c", request(adminAccess=True, capacity={"mem": "2"})),),
        {"held": [held("h", hold("A", shareID="x", consumedCapacity={"mem": "3"}))]},
    ),
    "ADM-7 all devices, in use or not": Case(
        ["r=A r=B"],
        local(*devices("A", "B")),
        (claim("c", request(count=None, adminAccess=True)),),
        taken("B"),
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", {**CONSTRAINTS, **ADMIN}.values(), ids=[*CONSTRAINTS, *ADMIN])
def test_constraints_and_administrators(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected
