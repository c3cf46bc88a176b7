"""What a slice may hold, and what a device may draw from."""

import json
import random
from typing import Any

import pytest

from reconciler.api.convert.layout import MAX_DEVICES, MAX_LARGE_DEVICES
from reconciler.api.versions.extensions import ANNOTATION
from tests.tools.builders import Object, counter_slice, device, devices, resource_slice, taint
from tests.tools.conversion_worlds import conversion, slices_of
from tests.tools.first_revision import composite, first_revision


def counter_sets(count: int, counters: int = 1) -> list[Object]:
    return [
        {"name": f"set-{at}", "counters": {f"c{n}": {"value": "1"} for n in range(counters)}}
        for at in range(count)
    ]


def names(made: list[Object], kind: str = "devices") -> dict[str, list[str]]:
    return {raw["metadata"]["name"]: [one["name"] for one in raw["spec"].get(kind, ())] for raw in made}


def converted(*raws: Object) -> list[Object]:
    result = conversion(*raws)
    assert result.problems == ()
    return slices_of(result)


def test_counters_go_into_slices_of_their_own_and_the_pool_counts_them():
    raw = resource_slice("s", devices("a"), nodeName="n", sharedCounters=counter_sets(1))
    counters, content = converted(raw)
    assert counters["metadata"]["name"] == "s-counters"
    assert content["metadata"]["name"] == "s"
    for made in (counters, content):
        assert made["spec"]["pool"]["resourceSliceCount"] == 2
        assert made["spec"]["nodeName"] == "n"
        assert ("devices" in made["spec"]) != ("sharedCounters" in made["spec"])


def test_what_fits_is_left_as_it_is():
    raw = resource_slice("s", [device("a", {"x": 1}, {"m": "1Gi"})], nodeName="n")
    assert conversion(raw).objects == (raw,)
    assert (conversion(raw).renames, conversion(raw).notes) == ((), ())


@pytest.mark.parametrize("nothing", [None, {}, {"value": None}])
def test_an_amount_of_null_is_zero(nothing: Object | None):
    drawing = {"counterSet": "set-0", "counters": {"c0": nothing}}
    one = {"name": "a", "capacity": {"d/size": nothing}, "consumesCounters": [drawing]}
    sets = [{"name": "set-0", "counters": {"c0": nothing}}]
    counters, content = converted(resource_slice("s", [one], nodeName="n", sharedCounters=sets))
    (made,) = content["spec"]["devices"]
    found = [made["capacity"]["d/size"]]
    found += [each["counters"]["c0"] for each in counters["spec"]["sharedCounters"]]
    found += [draw["counters"]["c0"] for draw in made.get("consumesCounters", ())]
    assert found == [{"value": "0"}] * 3


@pytest.mark.parametrize(("count", "slices"), [(8, 1), (9, 2), (16, 2), (17, 3)])
def test_a_slice_has_at_most_eight_counter_sets(count: int, slices: int):
    raw = resource_slice("s", devices("a"), nodeName="n", sharedCounters=counter_sets(count))
    made = converted(raw)
    sets = [len(found) for found in names(made, "sharedCounters").values() if found]
    assert len(sets) == slices
    assert max(sets) == 8
    assert sum(sets) == count


def test_a_slice_has_at_most_thirty_two_counters():
    raw = resource_slice("s", devices("a"), nodeName="n", sharedCounters=counter_sets(5, counters=15))
    found = names(converted(raw), "sharedCounters")
    assert [sets for sets in found.values() if sets] == [["set-0", "set-1"], ["set-2", "set-3"], ["set-4"]]


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, MAX_DEVICES),
        ({"taints": [taint("k")]}, MAX_LARGE_DEVICES),
        ({"draws": {"g": {"m": 1}}}, MAX_LARGE_DEVICES),
    ],
)
def test_devices_are_split_where_they_are_too_many_and_keep_their_order(fields: Any, most: int):
    wanted = [f"d{number:03}" for number in range(300)]
    made = converted(resource_slice("s", devices(*wanted, **fields), nodeName="n"))
    found = names(made)
    assert [name for slice_ in sorted(found) for name in found[slice_]] == wanted
    assert max(map(len, found.values())) == most
    assert list(found)[:2] == ["s", "s-002"]
    assert {raw["spec"]["pool"]["resourceSliceCount"] for raw in made} == {len(made)}


def test_slices_are_numbered_where_their_names_would_mix_up_the_order():
    """`a-0` sorts before `a-002`, so that the second part of `a` would come after it."""
    many = [f"d{number:03}" for number in range(200)]
    result = conversion(
        resource_slice("a", devices(*many), nodeName="n", slices=2),
        resource_slice("a-0", devices("last"), nodeName="n", slices=2),
    )
    found = names(slices_of(result))
    assert list(found) == ["a-0001", "a-0002", "a-0003"]
    assert [name for slice_ in sorted(found) for name in found[slice_]] == [*many, "last"]
    told = [str(rename) for rename in result.renames]
    assert told == ["slice a of the cluster is now a-0001", "slice a-0 of the cluster is now a-0003"]


def test_no_two_slices_of_the_cluster_get_one_name():
    made = converted(
        resource_slice("s", devices("a"), pool="p", nodeName="n", sharedCounters=counter_sets(1)),
        resource_slice("s-counters", devices("b"), pool="q", nodeName="n"),
    )
    assert list(names(made)) == ["s-counters-0001", "s-0002", "s-counters"]


def test_a_pool_of_which_slices_are_missing_stays_so():
    raw = resource_slice("s", devices("a"), nodeName="n", slices=3, sharedCounters=counter_sets(1))
    assert {made["spec"]["pool"]["resourceSliceCount"] for made in converted(raw)} == {4}


def test_what_a_server_filled_in_is_left_out():
    raw = resource_slice("s", devices("a"), nodeName="n")
    raw["metadata"] |= {"uid": "u", "resourceVersion": "5", "generateName": "s-", "labels": {"k": "v"}}
    (made,) = converted(raw)
    assert made["metadata"] == {"name": "s", "labels": {"k": "v"}}


def test_groups_and_exclusions_are_in_an_annotation():
    draws = [{"counterSet": "set-0", "counters": {"c0": {"value": "1"}}, "compatibilityGroups": ["mig"]}]
    only = {"expression": "device.driver == 'd'"}
    content = [
        device("a.1", consumesCounters=draws, compatibleOnlyWith=only),
        device("b", consumesCounters=[{**draws[0], "compatibilityGroups": None}]),
    ]
    _, made = converted(resource_slice("s", content, nodeName="n", sharedCounters=counter_sets(1)))
    assert json.loads(made["metadata"]["annotations"][ANNOTATION]) == {
        "a-1": {
            "consumesCounters": [{"counterSet": "set-0", "compatibilityGroups": ["mig"]}],
            "compatibleOnlyWith": only,
        }
    }
    # Groups stay in place as well, for servers that have the field.
    assert "compatibleOnlyWith" not in json.dumps(made["spec"])
    assert made["spec"]["devices"][0]["consumesCounters"] == draws
    assert "compatib" not in json.dumps(made["spec"]["devices"][1])


def test_a_tree_that_needs_more_than_two_sets_names_the_devices_that_cannot_be_had():
    """Five levels of twenty capacities, none of which follows from another."""
    rng = random.Random(1)
    keys = [f"c{number}" for number in range(20)]

    def some(least: int, most: int) -> dict[str, int]:
        return {key: rng.randint(least, most) for key in keys}

    content = [composite("d0", None, **some(50, 60))]
    for level in range(1, 5):
        content.append(composite(f"d{level}", [f"d{level - 1}"], **some(28 - 2 * level, 34 - 2 * level)))
        content += [composite(f"leaf{level}-{at}", [f"d{level}"], **some(1, 10)) for at in range(6)]
    result = conversion(first_revision(devices=content))
    assert result.problems
    for problem in result.problems:
        assert problem.startswith("device gpu.nvidia.com/n/")
        assert problem.endswith("counter sets of 32 counters; 2 are allowed")
    lost = {problem.split()[1].rpartition("/")[2] for problem in result.problems}
    written = {name for found in names(slices_of(result)).values() for name in found}
    assert written == {one["name"] for one in content} - lost
    assert "d0" in written


def test_groups_are_not_moved_to_other_sets():
    content = [
        device(
            "a",
            consumesCounters=[
                {"counterSet": f"set-{at}", "counters": {"c0": {"value": "1"}}, "compatibilityGroups": ["g"]}
                for at in range(3)
            ],
        )
    ]
    result = conversion(resource_slice("s", content, nodeName="n", sharedCounters=counter_sets(3)))
    assert result.problems == (
        "device d/p/a cannot be converted: its counter sets exceed the limits, "
        "and its groups or expression depend on them",
    )


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            resource_slice("s", devices("a", "a"), nodeName="n"),
            "pool d/p: two devices are named a; the pool is dropped",
        ),
        (
            resource_slice("s", devices("a")),
            "pool d/p: slice s has no node selection; set spec.nodeName; the pool is dropped",
        ),
    ],
)
def test_what_no_server_would_take_is_left_out_and_said(raw: Object, problem: str):
    result = conversion(raw)
    assert result.objects == ()
    assert result.problems == (problem,)


def test_a_slice_of_counters_without_nodes_is_explained_by_those_with_devices():
    """Documents print such slices."""
    counters = counter_slice("t", {"g": {"m": 4}}, slices=2)
    result = conversion(counters, resource_slice("s", devices("a"), slices=2, nodeName="n1"))
    (problem,) = result.problems
    assert "slice t has no node selection; slices of counters need one, too" in problem
    assert 'such as nodeName: "n1"' in problem


def test_fields_that_servers_would_drop_are_left_out_and_said():
    raw = resource_slice("s", [device("a", later=1)], nodeName="n")
    result = conversion(raw)
    assert result.notes == ("pool d/p: Kubernetes has no field spec.devices[].later; it is dropped",)
    assert result.objects == (resource_slice("s", [device("a")], nodeName="n"),)
