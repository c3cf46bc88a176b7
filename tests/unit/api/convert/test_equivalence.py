"""What is converted gives every claim the same devices as what it was converted from."""

import random
from fractions import Fraction
from itertools import chain
from typing import Any

import pytest

from reconciler.analysis.doctor.checks import examine
from reconciler.analysis.doctor.findings import read_input
from reconciler.api.convert.layout import as_key, as_label, size, valid_keys, valid_labels
from reconciler.api.convert.objects import Converted, converted
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Release, Semantics
from reconciler.api.validation.fields import is_dns_label, is_key
from reconciler.api.versions.reading import to_v1
from reconciler.cli.convert import objections
from tests.tools.allocation_world import World, decide
from tests.tools.builders import (
    claim,
    device,
    devices,
    held,
    hold,
    node,
    request,
    resource_slice,
    selectors,
    taint,
    taint_rule,
)
from tests.tools.conversion_worlds import (
    conversion,
    device_map,
    devices_given,
    nothing_against,
    pool_of,
    readable,
    slices_of,
    some_claim,
)
from tests.tools.examples import seeds


@pytest.mark.parametrize("seed", seeds(40))
def test_claims_get_the_same_devices_before_and_after(seed: int):
    before = pool_of(seed)
    result = conversion(*before)
    assert result.problems == ()
    after = readable(slices_of(result))
    new_name = device_map(result)
    original = readable(before)
    rng = random.Random(-seed)
    taken: list[str] = []
    for _ in range(6):
        wanted = some_claim(rng)
        expected = devices_given(original, wanted, taken)
        found = devices_given(after, wanted, [new_name.get(name, name) for name in taken])
        if isinstance(expected, list):
            assert found == [new_name.get(name, name) for name in expected]
            taken += expected
        else:
            assert found == expected


@pytest.mark.parametrize("seed", seeds(30))
def test_a_server_takes_what_is_written(seed: int):
    for made in slices_of(conversion(*pool_of(seed))):
        assert objections(made) == []


@pytest.mark.parametrize("release", ["1.37", "1.36"])
@pytest.mark.parametrize("seed", range(12))
def test_nodes_reach_the_same_devices_before_and_after(release: Release, seed: int):
    """Counters beside devices that name their nodes themselves, or in slices of several nodes."""
    rng = random.Random(seed)
    shared = [{"name": "g.0", "counters": {"memory": {"value": "3"}}}]
    content = [
        device(name, {"id": name}, draws={"g.0": {"memory": rng.randint(1, 2)}}, nodeName=rng.choice("ab"))
        for name in ("d0", "d1", "d2", "d3")
    ]
    raws = [resource_slice("s", content, slices=2, perDeviceNodeSelection=True, sharedCounters=shared)]
    raws.append(resource_slice("t", devices("e0", "e1"), slices=2, nodeName="a"))
    after = slices_of(conversion(*raws))
    nodes = [node("a"), node("b")]
    taken: list[str] = []
    for _ in range(4):
        wanted = claim("c", request(count=rng.randint(1, 2)))
        holders = [held(f"by-{one}", hold(one)) for one in taken]
        outcomes = [
            decide(World(slices, [wanted], holders, nodes=nodes, rules=Semantics(release)))
            for slices in (raws, after)
        ]
        given = [
            [(plan.node, [r.device for r in plan.allocation.devices.results]) for plan in outcome.plans]
            if isinstance(outcome, Granted)
            else outcome.reason
            for outcome in outcomes
        ]
        assert given[0] == given[1]
        if isinstance(outcomes[0], Granted):
            taken += [r.device for plan in outcomes[0].plans for r in plan.allocation.devices.results]


# -- `convert --order-by-size`: smaller devices first, within slices for the same nodes (CTR-12).


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


@pytest.mark.parametrize("seed", seeds(60))
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


# -- Which names change, into what, and who is told.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpu-0", "gpu-0"),
        ("gpu-0-mig-1g.5gb-0", "gpu-0-mig-1g-5gb-0"),
        ("memorySlice0", "memory-slice-0"),
        ("GPU_0", "gpu-0"),
        ("gi:memory", "gi-memory"),
        ("...", "x"),
        ("a" * 70, "a" * 63),
    ],
)
def test_a_label_is_the_closest_there_is(before: str, after: str):
    assert as_label(before) == after
    assert is_dns_label(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("copy-engines", "copy_engines"),
        ("example.com/copy-engines", "example.com/copy_engines"),
        ("1g", "_1g"),
        ("k" * 40, "k" * 32),
    ],
)
def test_a_key_is_the_closest_there_is(before: str, after: str):
    assert as_key(before) == after
    assert is_key(after)


def test_names_that_would_meet_are_numbered_and_valid_ones_stay():
    found = valid_labels(["a.b", "a-b", "a_b", "A.B"])
    assert found == {"a.b": "a-b-2", "a-b": "a-b", "a_b": "a-b-3", "A.B": "a-b-4"}
    assert valid_keys(["a-b", "a_b"]) == {"a-b": "a_b_2", "a_b": "a_b"}


def test_a_long_name_makes_room_for_its_number():
    found = valid_labels(["x" * 70, "x" * 80])
    assert list(found.values()) == ["x" * 63, "x" * 61 + "-2"]


RAW = resource_slice(
    "s",
    [device("gpu.0", {"pci-root": "r"}, {"copy-engines": "7"}, {"gpu.0": {"Memory": 1}})],
    nodeName="n",
    sharedCounters=[{"name": "gpu.0", "counters": {"Memory": {"value": "1"}}}],
)


def test_every_new_name_is_in_the_map():
    assert [tuple(rename) for rename in conversion(RAW).renames] == [
        ("attribute", "d", "pci-root", "pci_root"),
        ("capacity", "d", "copy-engines", "copy_engines"),
        ("device", "d/p", "gpu.0", "gpu-0"),
        ("counter set", "d/p", "gpu.0", "gpu-0"),
        ("counter", "d/p, counter set gpu-0", "Memory", "memory"),
    ]


def test_what_is_drawn_and_published_is_renamed_alike():
    counters, content = conversion(RAW).objects
    assert counters["spec"]["sharedCounters"] == [{"name": "gpu-0", "counters": {"memory": {"value": "1"}}}]
    found = content["spec"]["devices"]
    assert found == [device("gpu-0", {"pci_root": "r"}, {"copy_engines": "7"}, {"gpu-0": {"memory": 1}})]


def test_claims_that_hold_a_device_hold_it_under_its_new_name():
    *_, holder = conversion(RAW, held("h", hold("gpu.0"))).objects
    (result,) = holder["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-0"


def test_a_taint_rule_for_a_device_follows_it():
    rule = taint_rule("t", {"driver": "d", "pool": "p", "device": "gpu.0"}, taint("k"))
    *_, made = conversion(RAW, rule).objects
    assert made["spec"]["deviceSelector"]["device"] == "gpu-0"
    assert made["apiVersion"] == "resource.k8s.io/v1"


def test_a_claim_that_names_a_renamed_key_is_told():
    wanted = claim("c", request(selectors=selectors('device.capacity["d"]["copy-engines"] == quantity("7")')))
    assert conversion(RAW, wanted).notes[-1:] == (
        "ResourceClaim default/c names copy-engines, which is now copy_engines",
    )


def test_a_driver_has_one_name_for_a_key_in_all_its_pools():
    other = resource_slice(
        "t", [device("x", capacity={"copy_engines": "1", "copy-engines": "1"})], pool="q", nodeName="n"
    )
    made = {raw["metadata"]["name"]: raw for raw in conversion(RAW, other).objects}
    assert list(made["s"]["spec"]["devices"][0]["capacity"]) == ["copy_engines_2"]
    assert list(made["t"]["spec"]["devices"][0]["capacity"]) == ["copy_engines", "copy_engines_2"]


def test_a_key_with_a_domain_is_told_by_what_changed():
    raw = resource_slice("s", [device("a", {"example.com/pci-root": "r"})], nodeName="n")
    wanted = claim("c", request(selectors=selectors('device.attributes["example.com"]["pci-root"] == "r"')))
    assert conversion(raw, wanted).notes == ("ResourceClaim default/c names pci-root, which is now pci_root",)


def test_an_exclusion_that_names_a_renamed_key_is_told():
    stated = 'device.attributes["d"]["pci-root"] == "r"'
    raw = resource_slice(
        "s", [device("a", {"pci-root": "r"}, compatibleOnlyWith={"expression": stated})], nodeName="n"
    )
    assert conversion(raw).notes == ("ResourceSlice s names pci-root, which is now pci_root",)
