"""Taints from DeviceTaintRules: TNT-7 and TNT-8."""

import pytest

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import GATES, TAINT_RULES, TAINTS, Semantics
from tests.tools.builders import (
    Object,
    device,
    node,
    resource_slice,
    snapshot,
    store,
    taint,
    taint_rule,
    typed,
)
from tests.tools.store_picture import picture

ON_N: Object = {"nodeName": "n"}
SLICES = [
    resource_slice("1", [device("A"), device("B", taints=[taint("own")])], driver="d", pool="p", **ON_N),
    resource_slice("2", [device("A")], driver="d", pool="q", **ON_N),
    resource_slice("3", [device("A")], driver="e", pool="p", **ON_N),
]


def taints(*rules: Object, semantics: Semantics | None = None) -> dict[str, str]:
    """Device -> keys of its taints; devices without taints are left out."""
    seen = snapshot(node("n"), *SLICES, *rules, rules=semantics)
    found = picture(seen)["devices"].values()
    return {str(d["id"]): " ".join(d["taints"]) for d in found if d["taints"]}


OWN = {"d/p/B": "own"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, OWN, id="no selector: nothing, as documented"),
        pytest.param(
            {},
            {"d/p/A": "t", "d/p/B": "own t", "d/q/A": "t", "e/p/A": "t"},
            id="empty: everything",
        ),
        pytest.param({"driver": "d"}, {"d/p/A": "t", "d/p/B": "own t", "d/q/A": "t"}, id="a driver"),
        pytest.param({"pool": "p"}, {"d/p/A": "t", "d/p/B": "own t", "e/p/A": "t"}, id="pools of one name"),
        pytest.param({"device": "A"}, {"d/p/A": "t", "d/q/A": "t", "e/p/A": "t"} | OWN, id="one name"),
        pytest.param({"driver": "d", "pool": "p", "device": "A"}, {"d/p/A": "t"} | OWN, id="one device"),
        pytest.param({"driver": "d", "device": "B"}, {"d/p/B": "own t"}, id="criteria are ANDed"),
        pytest.param({"driver": "nobody"}, OWN, id="a driver that is not there"),
        pytest.param({"pool": ""}, OWN, id="an empty name is a name"),
        pytest.param({"driver": "D"}, OWN, id="names are compared byte by byte"),
    ],
)
def test_a_rule_taints_the_devices_it_names(selector: Object | None, expected: dict[str, str]):
    assert taints(taint_rule("r", selector, taint("t"))) == expected


def test_rules_apply_in_the_order_of_their_names():
    rules = [taint_rule(name, {"device": "A"}, taint(f"t-{name}")) for name in ("b", "a", "c")]
    assert taints(*rules)["d/q/A"] == taints(*reversed(rules))["d/q/A"] == "t-a t-b t-c"


def test_a_taint_that_a_device_already_has_is_added_again():
    """TNT-8: each must be tolerated. The added taint may equal one of another device."""
    assert taints(taint_rule("a", {}, taint("own")), taint_rule("b", {}, taint("own"))) == {
        "d/p/A": "own own",
        "d/p/B": "own own own",
        "d/q/A": "own own",
        "e/p/A": "own own",
    }


@pytest.mark.parametrize("gate", [TAINTS, TAINT_RULES])
def test_without_the_gates_rules_are_ignored(gate: str):
    semantics = Semantics(gates=frozenset(GATES) - {gate})
    assert taints(taint_rule("r", {}, taint("t")), semantics=semantics) == OWN


def test_new_devices_are_tainted_and_deleted_rules_remove_their_taints():
    state = store(node("n"), SLICES[0], taint_rule("r", {"device": "A"}, taint("t")))
    before = state.snapshot()
    state.apply(Changed("ResourceSlice", typed(SLICES[2])))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [["t"], ["own"], ["t"]]
    state.apply(Changed("DeviceTaintRule", typed(taint_rule("r", {"device": "B"}, taint("u")))))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [[], ["own", "u"], []]
    state.apply(Removed("DeviceTaintRule", ObjectKey("", "r")))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [[], ["own"], []]
    assert [d["taints"] for d in picture(before)["devices"].values()] == [["t"], ["own"]]
