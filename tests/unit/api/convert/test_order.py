"""`convert --order-by-size`: smaller devices first, within slices for the same nodes (CTR-12)."""

from fractions import Fraction
from itertools import chain
from typing import Any

import pytest

from reconciler.analysis.doctor.checks import examine
from reconciler.analysis.doctor.findings import read_input
from reconciler.api.convert.layout import size
from reconciler.api.convert.objects import Converted, converted
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import to_v1
from tests.tools.builders import device, resource_slice
from tests.tools.conversion_worlds import nothing_against, pool_of, slices_of

SETS = [{"name": "g", "counters": {"memory": {"value": "8"}, "cores": {"value": "4"}}}]


def sorted_by_size(*raws: dict[str, Any]) -> Converted:
    return converted([to_v1(raw) for raw in raws], nothing_against, order_by_size=True)


def names(result: Converted) -> list[list[str]]:
    """The devices of each slice that has some."""
    found = [made["spec"].get("devices", ()) for made in slices_of(result)]
    return [[one["name"] for one in devices] for devices in found if devices]


def drawing(name: str, memory: int, cores: int = 0, **fields: Any) -> dict[str, Any]:
    return device(name, draws={"g": {"memory": memory, "cores": cores}}, **fields)


def early(result: Converted) -> list[str]:
    documents = [Document(Origin("a.yaml", at), made) for at, made in enumerate(result.objects, start=1)]
    found = examine(read_input(documents, Semantics()))
    return [one.what for one in found if one.check == "larger-first"]


@pytest.mark.parametrize("seed", range(60))
def test_no_device_precedes_a_smaller_one_of_its_set(seed: int):
    plain = converted([to_v1(raw) for raw in pool_of(seed)], nothing_against)
    ordered = sorted_by_size(*pool_of(seed))
    assert early(ordered) == []
    assert sorted(chain.from_iterable(names(ordered))) == sorted(chain.from_iterable(names(plain)))


def test_the_random_pools_have_larger_devices_first():
    plain = (converted([to_v1(raw) for raw in pool_of(seed)], nothing_against) for seed in range(60))
    assert sum(bool(early(result)) for result in plain) > 10


def test_smaller_devices_come_first_and_equal_ones_keep_their_order():
    content = [drawing("all", 8, 4), drawing("b", 2, 1), drawing("half", 4, 2), drawing("a", 2, 1)]
    result = sorted_by_size(
        resource_slice("s", [*content, device("whole")], sharedCounters=SETS, nodeName="n")
    )
    assert names(result) == [["b", "a", "half", "all", "whole"]]
    assert [note for note in result.notes if "smaller devices come first" in note]


def test_what_is_in_order_stays_without_a_note():
    content = [drawing("b", 2, 1), drawing("a", 2, 1), drawing("all", 8, 4)]
    result = sorted_by_size(resource_slice("s", content, sharedCounters=SETS, nodeName="n"))
    assert names(result) == [["b", "a", "all"]]
    assert [note for note in result.notes if "smaller devices come first" in note] == []


def test_devices_move_between_slices_of_the_same_nodes_only():
    first = resource_slice("s", [drawing("all", 8, 4), drawing("b", 2)], slices=3, nodeName="n")
    second = resource_slice("t", [drawing("a", 1)], slices=3, nodeName="n")
    other = resource_slice("u", [drawing("c", 4)], slices=3, nodeName="m", sharedCounters=SETS)
    assert names(sorted_by_size(first, second, other)) == [["a", "b"], ["all"], ["c"]]


@pytest.mark.parametrize(
    ("draws", "share"),
    [
        pytest.param({}, Fraction(1), id="no counters: a whole device"),
        pytest.param({"g": {"memory": 8, "cores": 4}}, Fraction(1), id="all of a set"),
        pytest.param({"g": {"memory": 4}}, Fraction(1, 4), id="half of one counter of two"),
        pytest.param({"g": {"memory": 8, "cores": 4}, "h": {"x": 1}}, Fraction(3, 2), id="two sets"),
        pytest.param({"i": {"none": 0}}, Fraction(), id="nothing of nothing"),
    ],
)
def test_the_size_is_the_average_share_of_the_counters(draws: dict[str, Any], share: Fraction):
    totals = {"g": {"memory": 8 * 10**9, "cores": 4 * 10**9}, "h": {"x": 2 * 10**9}, "i": {"none": 0}}
    assert size(device("a", draws=draws).get("consumesCounters", []), totals) == share
