"""Taints and tolerations (docs/reference/rules/taints.md), one case a rule."""

import pytest

from tests.tools.allocation_cases import Case, local
from tests.tools.builders import (
    claim,
    device,
    device_class,
    devices,
    first_of,
    request,
    selectors,
    taint,
    taint_rule,
    wants,
)

TAINTED = taint("k", "NoSchedule", "v")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": "k", "operator": "Exists"}, True, id="key exists"),
        pytest.param({"operator": "Exists"}, True, id="any key"),
        pytest.param({"key": "k", "operator": "Equal", "value": "v"}, True, id="same value"),
        pytest.param({"key": "k", "value": "v"}, True, id="no operator is Equal"),
        pytest.param({"value": "v"}, True, id="no key compares values"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="other value"),
        pytest.param({"key": "l", "operator": "Exists"}, False, id="other key"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="other effect"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True, id="same effect"),
        pytest.param({"key": "k", "operator": "Near"}, False, id="unknown operator"),
    ],
)
def test_a_toleration_matches_a_taint(toleration, tolerated):
    """TNT-2."""
    asks = claim("c", request(tolerations=[toleration]))
    case = Case(["r=A"] if tolerated else None, local(device("A", taints=[TAINTED])), [asks])
    assert case.answer() == case.expected


EXISTS = [{"operator": "Exists"}]
BIG = 'device.attributes["d"].size == "big"'
SIZES = local(device("A", {"size": "big"}), device("B", {"size": "small"}))

TAINTS = {
    "TNT-1 NoExecute keeps away": Case(
        None, local(device("A", taints=[taint("k", "NoExecute")])), (claim("c", request()),)
    ),
    "TNT-1 None does not": Case(
        ["r=A"], local(device("A", taints=[taint("k", "None")])), (claim("c", request()),)
    ),
    "TNT-1 unknown effects do not": Case(
        ["r=A"], local(device("A", taints=[taint("k", "Later")])), (claim("c", request()),)
    ),
    "TNT-1 tolerations are those of the alternative": Case(
        ["r/b=A"],
        local(device("A", taints=[TAINTED])),
        (claim("c", first_of("r", a=wants(), b=wants(tolerations=EXISTS))),),
    ),
    "TNT-3 seconds do not matter": Case(
        ["r=A"],
        local(device("A", taints=[taint("k", "NoExecute")])),
        (claim("c", request(tolerations=[{"operator": "Exists", "tolerationSeconds": 0}])),),
    ),
    "TNT-5 administrators tolerate nothing more": Case(
        None, local(device("A", taints=[TAINTED])), (claim("c", request(adminAccess=True)),)
    ),
    "TNT-7 a rule for all devices": Case(
        None,
        local(*devices("A", "B")),
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {}, TAINTED)]},
    ),
    "TNT-7 a rule for one device": Case(
        ["r=B"],
        local(*devices("A", "B")),
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {"device": "A", "pool": "p", "driver": "d"}, TAINTED)]},
    ),
    "TNT-7 a rule of another driver": Case(
        ["r=A"],
        local(*devices("A", "B")),
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {"device": "A", "driver": "e"}, TAINTED)]},
    ),
    "TNT-7 a rule without a selector matches nothing": Case(
        ["r=A"],
        local(*devices("A")),
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", None, TAINTED)]},
    ),
    "TNT-7 a rule by class": Case(
        ["r=B"],
        SIZES,
        (claim("c", request()),),
        {
            "classes": (device_class(), device_class("big", BIG)),
            "taint_rules": [taint_rule("x", {"deviceClassName": "big"}, TAINTED)],
        },
    ),
    "TNT-7 a rule by expression": Case(
        ["r=B"],
        SIZES,
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {"selectors": selectors(BIG)}, TAINTED)]},
    ),
    "TNT-7 a rule whose class does not exist": Case(
        ["r=A"],
        SIZES,
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {"deviceClassName": "missing"}, TAINTED)]},
    ),
    "TNT-7 an expression that fails matches nothing": Case(
        ["r=A"],
        SIZES,
        (claim("c", request()),),
        {"taint_rules": [taint_rule("x", {"selectors": selectors(BIG.replace("size", "no"))}, TAINTED)]},
    ),
    "TNT-8 a rule adds to what the slice says": Case(
        None,
        local(device("A", taints=[taint("l")])),
        (claim("c", request(tolerations=[{"key": "l", "operator": "Exists"}])),),
        {"taint_rules": [taint_rule("x", {}, TAINTED)]},
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", TAINTS.values(), ids=TAINTS)
def test_taints_decide(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected
