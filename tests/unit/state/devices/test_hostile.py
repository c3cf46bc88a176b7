"""Slices that no API server would accept: they affect only themselves."""

import numpy as np
import pytest

from reconciler.api.objects.semantics import GATES, LIST_ATTRIBUTES, Release, Semantics
from reconciler.cel.program import compile_selector
from reconciler.state.devices.pool import Usable
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import Object, counter_slice, device, node, resource_slice, snapshot, version
from tests.tools.store_picture import picture

ON_N: Object = {"nodeName": "n"}
GOOD = resource_slice("good", [device("G", {"model": "x"})], pool="good", **ON_N)


def see(*content: Object, rules: Semantics | None = None) -> Snapshot:
    return snapshot(node("n"), GOOD, resource_slice("bad", content, pool="bad", **ON_N), rules=rules)


def answers(seen: Snapshot, expression: str) -> str:
    """One letter for each device of the odd slice, which is first: yes, no, error."""
    masks = compile_selector(expression).masks(seen.fleet.cel)
    assert masks.true[-1], "the good device matches, whatever its neighbour is"
    pairs = zip(masks.true[:-1].tolist(), masks.error[:-1].tolist(), strict=True)
    return "".join("e" if error else "y" if true else "n" for true, error in pairs)


@pytest.mark.parametrize(
    ("attribute", "answer"),
    [
        pytest.param({"string": "y"}, "n", id="another value"),
        pytest.param({}, "e", id="no value"),
        pytest.param(version("1.2"), "e", id="a version that is none"),
        pytest.param({"int": 2**63}, "e", id="a number that is too large"),
        pytest.param({"int": -(2**63)}, "n", id="the smallest number"),
        pytest.param({"versions": ["1.0.0", "one"]}, "e", id="a list with a version that is none"),
        pytest.param({"strings": []}, "n", id="an empty list"),
        pytest.param({"string": ""}, "n", id="an empty text"),
    ],
)
def test_an_invalid_attribute_makes_every_selector_fail_on_its_device(attribute: Object, answer: str):
    """CEL-6: also a selector that does not use it."""
    seen = see(device("A", {"model": "x", "odd": attribute}), device("B", {"model": "x"}))
    expected = answer if answer == "e" else "y"
    assert answers(seen, 'device.attributes["d"].model == "x"') == expected + "y"


@pytest.mark.parametrize(
    ("release", "gate", "answer"), [("1.36", False, "e"), ("1.36", True, "y"), ("1.37", False, "y")]
)
def test_lists_make_selectors_fail_in_1_36_without_the_gate(release: Release, gate: bool, answer: str):
    """CEL-6."""
    gates = frozenset(GATES) if gate else frozenset(GATES) - {LIST_ATTRIBUTES}
    seen = see(device("A", {"model": "x", "list": ["a"]}), rules=Semantics(release, gates))
    assert answers(seen, 'device.attributes["d"].model == "x"') == answer


def test_a_qualified_attribute_wins_over_an_unqualified_one():
    """CEL-3, in either order."""
    one = device("A", {"model": "y", "d/model": "x"})
    other = device("B", {"d/model": "x", "model": "y"})
    assert answers(see(one, other), 'device.attributes["d"].model == "x"') == "yy"


def test_values_of_different_types_are_different_values():
    content = [device(str(n), {"v": value}) for n, value in enumerate([1, True, "1", "true", [1], [True]])]
    seen = see(*content)
    codes = seen.fleet.cel.attributes["d", "v"].codes[:6].tolist()
    assert len(set(codes)) == 6


def test_a_thousand_devices_of_one_name_are_one_invalid_pool():
    seen = see(*[device("A")] * 1000)
    bad, good = seen.topology.view("n").pools
    assert (bad.usable, good.usable) == (Usable.INVALID, Usable.YES)
    assert bad.problem == "two devices are named A"


@pytest.mark.parametrize("name", ["", "\0", "ä/ö", "A" * 10_000], ids=ascii)
def test_names_are_only_compared(name: str):
    seen = see(device(name), device("B"))
    assert sorted(d["id"].device for d in picture(seen)["devices"].values()) == sorted([name, "B", "G"])


def test_the_largest_numbers_of_slices_and_generations():
    huge = resource_slice("bad", [device("A")], pool="bad", generation=2**80, slices=2**80, **ON_N)
    seen = snapshot(node("n"), GOOD, huge)
    assert [pool.usable for pool in seen.topology.view("n").pools] == [Usable.INCOMPLETE, Usable.YES]


def test_a_wide_pool_does_not_change_the_draws_of_a_narrow_one():
    """One pool has many counters and many sets for each device, the other has few."""
    wide = {f"g{n}": {f"c{k}": 9 for k in range(100)} for n in range(8)}
    draws = {name: {"c7": 2} for name in wide}
    narrow = [
        counter_slice("t", {"g": {"m": 5}}, pool="narrow", slices=2, **ON_N),
        resource_slice("s", [device("N", draws={"g": {"m": 3}})], pool="narrow", slices=2, **ON_N),
    ]
    seen = snapshot(
        node("n"),
        *narrow,
        counter_slice("wt", wide, pool="wide", slices=2, **ON_N),
        resource_slice("ws", [device("W", draws=draws)], pool="wide", slices=2, **ON_N),
    )
    drawn = {place.device: d["draws"] for place, d in picture(seen)["devices"].items()}
    assert {key: amount for key, amount in drawn["N"].items() if amount} == {("g", "m"): 3 * 10**9}
    assert {key for key, amount in drawn["W"].items() if amount} == {(name, "c7") for name in wide}
    assert seen.occupancy.left.dtype == np.int64


def test_slices_without_anything():
    empty = resource_slice("empty", [], pool="empty", **ON_N)
    nothing = counter_slice("nothing", {}, pool="nothing", **ON_N)
    seen = snapshot(node("n"), empty, nothing)
    assert [pool.usable for pool in seen.topology.view("n").pools] == [Usable.YES, Usable.YES]
    assert len(seen.topology.view("n").rows) == 0
