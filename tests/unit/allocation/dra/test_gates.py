"""The answers and errors for disabled feature gates, and for claims that are invalid with any devices."""

import pytest

from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import NEW, OLD, Case, World, asks, local, on_node, without
from tests.tools.builders import (
    claim,
    counter_slice,
    device,
    devices,
    first_of,
    held,
    hold,
    node_selector,
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
        Reason.FEATURE_DISABLED, A, asks(first_of("r", a=wants())), off("DRAPrioritizedList")
    ),
    "PREP-2 capacity of an alternative": Case(
        Reason.FEATURE_DISABLED,
        A,
        asks(first_of("r", a=wants(), b=wants(capacity={"mem": "1"}))),
        off("DRAConsumableCapacity"),
    ),
    "PREP-10 a constraint of another kind": Case(
        Reason.UNSUPPORTED_CONSTRAINT, A, asks(request(), constraints=[{"requests": []}])
    ),
    "CTR-11 nothing may draw": Case(None, DRAWING, asks(request(count=2)), off("DRAPartitionableDevices")),
    "PREP-4 a selector of another kind": Case(Reason.UNSUPPORTED_SELECTOR, A, asks(request(selectors=[{}]))),
    "PREP-5 even if false": Case(
        Reason.FEATURE_DISABLED, A, asks(request(adminAccess=False)), off("DRAAdminAccess")
    ),
    "PREP-6 no class given": Case(Reason.MISSING_CLASS, A, asks(request(device_class=""))),
    "PREP-7 neither exactly nor firstAvailable": Case(Reason.UNSUPPORTED_MODE, A, asks({"name": "r"})),
    "PREP-11 gates come before selectors": Case(
        Reason.FEATURE_DISABLED,
        A,
        asks(request(selectors=[{}], capacity={"mem": "1"})),
        off("DRAConsumableCapacity"),
    ),
    "PREP-11 selectors come before administrative access": Case(
        Reason.UNSUPPORTED_SELECTOR, A, asks(request(selectors=[{}], adminAccess=True)), off("DRAAdminAccess")
    ),
    "PREP-11 administrative access comes before the class": Case(
        Reason.FEATURE_DISABLED, A, asks(request(device_class="x", adminAccess=True)), off("DRAAdminAccess")
    ),
    "PREP-11 the class comes before the mode": Case(
        Reason.CLASS_NOT_FOUND, A, asks(request(device_class="x", allocationMode="Most"))
    ),
    "PREP-8 a selector fails although the device is in use": Case(
        Reason.CEL_RUNTIME,
        A,
        asks(request(count=None, selectors=selectors('device.attributes["d"].x == 1'))),
        {"held": [held("h", hold("A"))]},
    ),
    "PREP-8 the first error in pool order: a selector": Case(
        Reason.CEL_RUNTIME,
        [A, resource_slice("t", pool="q", slices=2, nodeName="n")],
        asks(request(count=None, selectors=selectors('device.attributes["d"].x == 1'))),
    ),
    "PREP-8 the first error in pool order: a pool": Case(
        Reason.INCOMPLETE_POOL,
        [A, resource_slice("t", pool="o", slices=2, nodeName="n")],
        asks(request(count=None, selectors=selectors('device.attributes["d"].x == 1'))),
    ),
    "PREP-9 each claim before the next": Case(
        Reason.TOO_MANY_DEVICES,
        A,
        [
            claim("c1", request(count=33)),
            claim("c2", request(count=None, selectors=selectors('device.attributes["d"].x == 1'))),
        ],
    ),
    "POOL-2 counters": Case(["r=B"], DRAWING, asks(request()), off("DRAPartitionableDevices")),
    "CAP-14 shares block": Case(
        None,
        SHARED,
        asks(request()),
        {**off("DRAConsumableCapacity"), "held": [held("h", hold("A", shareID="x"))]},
    ),
    "NM-1 a node selector that cannot be read": Case(
        Reason.NODE_SELECTOR,
        resource_slice(
            "s",
            devices("A"),
            nodeSelector=node_selector({"matchExpressions": [{"key": "k", "operator": "Near"}]}),
        ),
        asks(request()),
    ),
    "SRCH-10 but not before a device is reached": Case(
        ["r=A r=B"], local(*devices("A", "B", "C")), asks(request(count=2, selectors=selectors(FAILS_ON_C)))
    ),
    "SEL-4 a selector fails on a device of another node": Case(
        Reason.CEL_RUNTIME,
        resource_slice(
            "s", [device("A", nodeName="m"), device("B", {"x": 1}, nodeName="n")], perDeviceNodeSelection=True
        ),
        asks(request(selectors=selectors('device.attributes["d"].x == 1'))),
    ),
    "POOL-3 a slice without any node": Case(None, resource_slice("s", devices("A")), asks(request())),
    "POOL-7 by 1.37 counters of another node's pool are nobody's concern here": Case(
        ["r=A"],
        [A, counter_slice("t", {"g": {"m": 1}}, pool="q", slices=2, nodeName="m")],
        asks(request(count=None)),
        {"rules": NEW},
    ),
    "POOL-7 by 1.36 they are": Case(
        Reason.INCOMPLETE_POOL,
        [A, counter_slice("t", {"g": {"m": 1}}, pool="q", slices=2, nodeName="m")],
        asks(request(count=None)),
        {"rules": OLD},
    ),
    "CEL-6 by 1.36 without lists a list spoils the device": Case(
        Reason.CEL_RUNTIME,
        local(device("A", {"m": ["a"]})),
        asks(request(selectors=selectors("true"))),
        {"rules": without("DRAListTypeAttributes", release=OLD)},
    ),
    "CEL-6 by 1.37 it does not": Case(
        ["r=A"],
        local(device("A", {"m": ["a"]})),
        asks(request(selectors=selectors("true"))),
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
    "SRCH-4 an alternative that wants all of nothing is passed over": Case(
        ["r/b=A"],
        local(*devices("A")),
        asks(first_of("r", a=wants(None, selectors=selectors("false")), b=wants())),
    ),
    "SRCH-8 what can be shared is taken once a request": Case(None, SHARED, asks(request(count=2))),
}


@pytest.mark.parametrize("case", PREFERENCES.values(), ids=PREFERENCES)
def test_preferences_are_decided_in_order(case: Case):
    assert case.answer() == case.expected
    assert case.answer(pruned=False) == case.expected


# -- Taints and tolerations (docs/reference/rules/taints.md), one case a rule.


TAINTED = taint("k", "NoSchedule", "v")


BIG = 'device.attributes["d"].size == "big"'
SIZES = local(device("A", {"size": "big"}), device("B", {"size": "small"}))

TAINTS = {
    "TNT-1 unknown effects do not": Case(
        ["r=A"], local(device("A", taints=[taint("k", "Later")])), asks(request())
    ),
    "TNT-3 seconds do not matter": Case(
        ["r=A"],
        local(device("A", taints=[taint("k", "NoExecute")])),
        asks(request(tolerations=[{"operator": "Exists", "tolerationSeconds": 0}])),
    ),
    "TNT-5 administrators tolerate nothing more": Case(
        None, local(device("A", taints=[TAINTED])), asks(request(adminAccess=True))
    ),
    "TNT-7 a rule without a selector matches nothing": Case(
        ["r=A"], local(*devices("A")), asks(request()), {"taint_rules": [taint_rule("x", None, TAINTED)]}
    ),
    "TNT-7 a rule whose class does not exist": Case(
        ["r=A"],
        SIZES,
        asks(request()),
        {"taint_rules": [taint_rule("x", {"deviceClassName": "missing"}, TAINTED)]},
    ),
    "TNT-7 an expression that fails matches nothing": Case(
        ["r=A"],
        SIZES,
        asks(request()),
        {"taint_rules": [taint_rule("x", {"selectors": selectors(BIG.replace("size", "no"))}, TAINTED)]},
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", TAINTS.values(), ids=TAINTS)
def test_taints_decide(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected
