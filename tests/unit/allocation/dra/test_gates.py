"""The answers and errors for disabled feature gates, and for claims that are invalid with any devices."""

import pytest

from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import NEW, OLD, Case, World, local, on_node, without
from tests.tools.builders import (
    claim,
    counter_slice,
    device,
    device_class,
    devices,
    first_of,
    held,
    hold,
    labelled,
    node_selector,
    only,
    request,
    resource_slice,
    selectors,
    taint,
    taint_rule,
    wants,
)

A = local(*devices("A"))
DRAWING = [
    local(device("A", draws={"g": {"m": 1}}), *devices("B"), slices=2),
    counter_slice("t", {"g": {"m": 1}}, slices=2, nodeName="n"),
]
FAILS_ON_C = 'device.attributes["d"].id != "C" || device.attributes["d"].nope == 1'
SHARED = local(device("A", allowMultipleAllocations=True))


def off(gate: str) -> dict[str, object]:
    return {"rules": without(gate)}


CASES = {
    "PREP-1 firstAvailable": Case(
        Reason.FEATURE_DISABLED, A, [claim("c", first_of("r", a=wants()))], off("DRAPrioritizedList")
    ),
    "PREP-2 capacity": Case(
        Reason.FEATURE_DISABLED, A, [claim("c", request(capacity={"mem": "1"}))], off("DRAConsumableCapacity")
    ),
    "PREP-2 capacity of an alternative": Case(
        Reason.FEATURE_DISABLED,
        A,
        [claim("c", first_of("r", a=wants(), b=wants(capacity={"mem": "1"})))],
        off("DRAConsumableCapacity"),
    ),
    "PREP-4 a selector of another kind": Case(
        Reason.UNSUPPORTED_SELECTOR, A, [claim("c", request(selectors=[{}]))]
    ),
    "PREP-5 administrative access": Case(
        Reason.FEATURE_DISABLED, A, [claim("c", request(adminAccess=True))], off("DRAAdminAccess")
    ),
    "PREP-5 even if false": Case(
        Reason.FEATURE_DISABLED, A, [claim("c", request(adminAccess=False))], off("DRAAdminAccess")
    ),
    "PREP-6 no class given": Case(Reason.MISSING_CLASS, A, [claim("c", request(device_class=""))]),
    "PREP-6 no such class": Case(Reason.CLASS_NOT_FOUND, A, [claim("c", request(device_class="x"))]),
    "PREP-7 another mode": Case(Reason.UNSUPPORTED_MODE, A, [claim("c", request(allocationMode="Most"))]),
    "PREP-7 neither exactly nor firstAvailable": Case(
        Reason.UNSUPPORTED_MODE, A, [claim("c", {"name": "r"})]
    ),
    "PREP-10 a constraint of another kind": Case(
        Reason.UNSUPPORTED_CONSTRAINT, A, [claim("c", request(), constraints=[{"requests": []}])]
    ),
    "PREP-11 gates come before selectors": Case(
        Reason.FEATURE_DISABLED,
        A,
        [claim("c", request(selectors=[{}], capacity={"mem": "1"}))],
        off("DRAConsumableCapacity"),
    ),
    "PREP-11 selectors come before administrative access": Case(
        Reason.UNSUPPORTED_SELECTOR,
        A,
        [claim("c", request(selectors=[{}], adminAccess=True))],
        off("DRAAdminAccess"),
    ),
    "PREP-11 administrative access comes before the class": Case(
        Reason.FEATURE_DISABLED,
        A,
        [claim("c", request(device_class="x", adminAccess=True))],
        off("DRAAdminAccess"),
    ),
    "PREP-11 the class comes before the mode": Case(
        Reason.CLASS_NOT_FOUND, A, [claim("c", request(device_class="x", allocationMode="Most"))]
    ),
    "PREP-8 a selector fails although the device is in use": Case(
        Reason.CEL_RUNTIME,
        A,
        [claim("c", request(count=None, selectors=selectors('device.attributes["d"].x == 1')))],
        {"held": [held("h", hold("A"))]},
    ),
    "PREP-8 the first error in pool order: a selector": Case(
        Reason.CEL_RUNTIME,
        [A, resource_slice("t", pool="q", slices=2, nodeName="n")],
        [claim("c", request(count=None, selectors=selectors('device.attributes["d"].x == 1')))],
    ),
    "PREP-8 the first error in pool order: a pool": Case(
        Reason.INCOMPLETE_POOL,
        [A, resource_slice("t", pool="o", slices=2, nodeName="n")],
        [claim("c", request(count=None, selectors=selectors('device.attributes["d"].x == 1')))],
    ),
    "PREP-9 each claim before the next": Case(
        Reason.TOO_MANY_DEVICES,
        A,
        [
            claim("c1", request(count=33)),
            claim("c2", request(count=None, selectors=selectors('device.attributes["d"].x == 1'))),
        ],
    ),
    "POOL-2 counters": Case(["r=B"], DRAWING, [claim("c", request())], off("DRAPartitionableDevices")),
    "POOL-2 devices that choose their nodes": Case(
        None,
        resource_slice("s", [device("A", nodeName="n")], perDeviceNodeSelection=True),
        [claim("c", request())],
        off("DRAPartitionableDevices"),
    ),
    "CTR-11 nothing may draw": Case(
        None, DRAWING, [claim("c", request(count=2))], off("DRAPartitionableDevices")
    ),
    "CTR-11 not even from counters that do not exist": Case(
        ["r=B"],
        local(device("A", draws={"nowhere": {"m": 1}}), *devices("B")),
        [claim("c", request())],
        off("DRAPartitionableDevices"),
    ),
    "CAP-14 what can be shared is exclusive": Case(
        None, SHARED, [claim("c", request("r1"), request("r2"))], off("DRAConsumableCapacity")
    ),
    "CAP-14 shares block": Case(
        None,
        SHARED,
        [claim("c", request())],
        {**off("DRAConsumableCapacity"), "held": [held("h", hold("A", shareID="x"))]},
    ),
    "TNT-6 taints are ignored": Case(
        ["r=A"], local(device("A", taints=[taint("k")])), [claim("c", request())], off("DRADeviceTaints")
    ),
    "NM-1 a node selector that cannot be read": Case(
        Reason.NODE_SELECTOR,
        resource_slice(
            "s",
            devices("A"),
            nodeSelector=node_selector({"matchExpressions": [{"key": "k", "operator": "Near"}]}),
        ),
        [claim("c", request())],
    ),
    "SEL-3 an expression that does not compile": Case(
        Reason.CEL_COMPILE, A, [claim("c", request(selectors=selectors("device.nonsense")))]
    ),
    "SRCH-10 but not before a device is reached": Case(
        ["r=A r=B"],
        local(*devices("A", "B", "C")),
        [claim("c", request(count=2, selectors=selectors(FAILS_ON_C)))],
    ),
    "SEL-4 a selector fails on a device of another node": Case(
        Reason.CEL_RUNTIME,
        resource_slice(
            "s",
            [device("A", nodeName="m"), device("B", {"x": 1}, nodeName="n")],
            perDeviceNodeSelection=True,
        ),
        [claim("c", request(selectors=selectors('device.attributes["d"].x == 1')))],
    ),
    "POOL-3 a slice without any node": Case(None, resource_slice("s", devices("A")), [claim("c", request())]),
    "POOL-11 a counter set that does not exist": Case(
        Reason.INVALID_POOL,
        [local(device("A", draws={"x": {"m": 1}}), slices=2), DRAWING[1]],
        [claim("c", request())],
    ),
    "POOL-11 a counter that does not exist": Case(
        Reason.INVALID_POOL,
        [local(device("A", draws={"g": {"x": 1}}), slices=2), DRAWING[1]],
        [claim("c", request())],
    ),
    "POOL-11 two counter sets of one name": Case(
        Reason.INVALID_POOL,
        [
            local(*devices("A"), slices=3),
            counter_slice("t", {"g": {"m": 1}}, slices=3, nodeName="n"),
            counter_slice("u", {"g": {"m": 1}}, slices=3, nodeName="n"),
        ],
        [claim("c", request())],
    ),
    "POOL-7 by 1.37 counters of another node's pool are nobody's concern here": Case(
        ["r=A"],
        [A, counter_slice("t", {"g": {"m": 1}}, pool="q", slices=2, nodeName="m")],
        [claim("c", request(count=None))],
        {"rules": NEW},
    ),
    "POOL-7 by 1.36 they are": Case(
        Reason.INCOMPLETE_POOL,
        [A, counter_slice("t", {"g": {"m": 1}}, pool="q", slices=2, nodeName="m")],
        [claim("c", request(count=None))],
        {"rules": OLD},
    ),
    "CEL-6 by 1.36 without lists a list spoils the device": Case(
        Reason.CEL_RUNTIME,
        local(device("A", {"m": ["a"]})),
        [claim("c", request(selectors=selectors("true")))],
        {"rules": without("DRAListTypeAttributes", release=OLD)},
    ),
    "CEL-6 by 1.37 it does not": Case(
        ["r=A"],
        local(device("A", {"m": ["a"]})),
        [claim("c", request(selectors=selectors("true")))],
        {"rules": without("DRAListTypeAttributes")},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_first_thing_that_is_wrong_is_the_answer(case: Case):
    assert case.answer() == case.expected
    assert case.answer(pruned=False) == case.expected


def test_tolerations_are_written_although_taints_are_off():
    """TNT-6."""
    wanted = claim("c", request(tolerations=[{"operator": "Exists"}]))
    outcome = on_node(World([A], [wanted], rules=without("DRADeviceTaints")))
    assert isinstance(outcome, NodeGrant)
    assert len(outcome.plans[0].allocation.devices.results[0].tolerations) == 1


# -- preferences (SRCH-2, SRCH-6)

PREFERENCES = {
    "SRCH-2 an earlier request's first fit outranks a later one's preference": Case(
        ["r1=A r2/b=B"],
        local(*devices("A", "B")),
        [claim("c", request("r1"), first_of("r2", a=wants(selectors=only("A")), b=wants()))],
    ),
    "SRCH-2 unless nothing else can be had": Case(
        ["r1=B r2/a=A"],
        local(*devices("A", "B")),
        [claim("c", request("r1"), first_of("r2", a=wants(selectors=only("A"))))],
    ),
    "SRCH-2 a preference yields to a later claim's need": Case(
        ["r/b=B", "r=A"],
        local(*devices("A", "B")),
        [claim("c1", first_of("r", a=wants(2), b=wants(selectors=only("B")))), claim("c2", request())],
    ),
    "SRCH-1 one request takes rising positions": Case(
        ["r=A r=C q=B"],
        local(*devices("A", "B", "C")),
        [claim("c", request("r", 2), request("q", selectors=only("B")))],
    ),
    "SRCH-4 an alternative that wants all of nothing is passed over": Case(
        ["r/b=A"],
        local(*devices("A")),
        [claim("c", first_of("r", a=wants(None, selectors=selectors("false")), b=wants()))],
    ),
    "SRCH-6 an alternative beyond the limit of a claim is passed over": Case(
        [" ".join([f"q=d{n:02}" for n in range(31)] + ["r/b=d31"])],
        local(*devices(*(f"d{n:02}" for n in range(40)))),
        [claim("c", request("q", 31), first_of("r", a=wants(2), b=wants()))],
    ),
    "SRCH-8 what can be shared is taken once a request": Case(None, SHARED, [claim("c", request(count=2))]),
    "NM-2 a selector for the node": Case(
        None,
        resource_slice("s", devices("A"), nodeSelector=node_selector(labelled("zone", "a"))),
        [claim("c", request())],
    ),
}


@pytest.mark.parametrize("case", PREFERENCES.values(), ids=PREFERENCES)
def test_preferences_are_decided_in_order(case: Case):
    assert case.answer() == case.expected
    assert case.answer(pruned=False) == case.expected


# -- Taints and tolerations (docs/reference/rules/taints.md), one case a rule.


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
