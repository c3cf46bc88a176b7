"""Devices that consume from each other: what counters allow is what a walk of the tree allows."""

import random
from itertools import pairwise
from typing import Any

import pytest

from reconciler.api.objects.plan import Granted
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.consumption import CounterLimit, drop_redundant, pack
from reconciler.api.versions.reading import read, to_v1
from reconciler.errors import Malformed
from tests.tools.allocation_world import World, decide
from tests.tools.builders import claim, device_class, held, hold, request, selectors
from tests.tools.examples import seeds
from tests.tools.first_revision import Object, Walk, composite, first_revision, partitions

KEYS = ("memory", "engines", "jpeg-engines")
WHERE = {"driver": "gpu.nvidia.com", "pool": "n"}


def some_tree(seed: int) -> list[Object]:
    """Up to nine devices in one or two trees of any depth; now and then a second source, or itself."""
    rng = random.Random(seed)
    names = [f"d{number}" for number in range(2 + seed // 40)]
    devices = []
    for at, name in enumerate(names):
        # Deep rather than wide in every other case: the source is one of the last two.
        above = names[max(0, at - 2) : at] if seed % 2 else names[:at]
        sources = [rng.choice(above)] if above and rng.random() < 0.9 else None
        if sources and rng.random() < 0.15:
            sources.append(rng.choice([*above, name]))
        room = 4 if sources is None else 3 if rng.random() < 0.3 else 1
        amounts = {key: rng.randint(0, room) for key in KEYS if rng.random() < 0.7}
        devices.append(composite(name, sources, **{key.replace("-", "_"): v for key, v in amounts.items()}))
    rng.shuffle(devices)
    return devices


def granted(source: Object, taken: list[str], name: str) -> bool:
    """Whether our allocator gives a device while others are held."""
    world = World(
        [source],
        [claim("c", request(selectors=selectors(f'device.attributes["gpu.nvidia.com"].name == "{name}"')))],
        held=[held(f"held-{one}", hold(one, **WHERE)) for one in taken],
        classes=[device_class()],
    )
    return isinstance(decide(world), Granted)


@pytest.mark.parametrize("seed", seeds(320))
def test_the_allocator_gives_what_a_walk_of_the_tree_gives(seed: int):
    raw = first_revision(devices=some_tree(seed))
    source = dict(to_v1(raw))
    walk = Walk(partitions(raw["spec"]))
    rng = random.Random(-seed)
    for _ in range(6):
        name = rng.choice(list(walk.devices))
        expected = walk.possible(name)
        if name not in walk.held:
            assert granted(source, walk.held, name) == expected, (walk.held, name)
        if expected:
            walk.held.append(name)
        elif walk.held and rng.random() < 0.5:
            walk.held.pop(rng.randrange(len(walk.held)))


def allows(tallies: list[CounterLimit], chosen: list[str]) -> bool:
    """Whether every counter has enough for these devices together."""
    return all(
        sum(tally.draws[name].nanos for name in chosen if name in tally.draws) <= tally.total.nanos
        for tally in tallies
    )


def flat_tallies(raw: Object) -> list[CounterLimit]:
    source = read(raw)
    assert isinstance(source, ResourceSlice)
    return [
        CounterLimit(
            f"{counters.name} {key}",
            counter["value"],
            {
                device.name: draw.counters[key]["value"]
                for device in source.spec.devices
                for draw in device.consumes_counters
                if draw.counter_set == counters.name and key in draw.counters
            },
        )
        for counters in source.spec.shared_counters
        for key, counter in counters.counters.items()
    ]


@pytest.mark.parametrize("seed", seeds(200))
def test_folding_changes_no_answer(seed: int):
    raw = first_revision(devices=some_tree(seed))
    tallies = flat_tallies(raw)
    folded = drop_redundant(tallies)
    assert len(folded) <= len(tallies)
    names = [device["name"] for device in raw["spec"]["devices"]]
    for number in range(2 ** len(names)):
        chosen = [name for at, name in enumerate(names) if number >> at & 1]
        assert allows(folded, chosen) == allows(tallies, chosen), chosen


def test_slots_of_a_nested_source_fold_into_those_of_the_root():
    """The source in the middle covers two of the root's four slots; its own counters say nothing new."""
    devices = [
        composite("gpu", s0=1, s1=1, s2=1, s3=1),
        composite("half", ["gpu"], s0=1, s1=1),
        composite("leaf-0", ["half"], s0=1),
        composite("leaf-1", ["half"], s1=1),
        composite("other", ["gpu"], s2=1, s3=1),
    ]
    folded = drop_redundant(flat_tallies(first_revision(devices=devices)))
    assert [tally.name for tally in folded] == ["gpu gpu:s0", "gpu gpu:s1", "gpu gpu:s2"]


def test_a_chain_of_a_hundred_partitions_is_one_counter_set():
    names = [f"d{number}" for number in range(100)]
    devices = [composite(names[0], memory=100)] + [
        composite(name, [above], memory=100 - at) for at, (above, name) in enumerate(pairwise(names))
    ]
    source = dict(to_v1(first_revision(devices=devices)))
    assert granted(source, [], "d99")
    assert granted(source, [], "d0")
    assert not granted(source, ["d99"], "d50")
    assert not granted(source, ["d50"], "d99")


def test_a_deep_and_wide_tree_of_many_capacities_is_folded_until_it_fits():
    """Eight levels of twenty capacities with two leaves each: more than one set holds, and not foldable."""
    devices = [composite("d0", None, **{f"c{key}": 64 for key in range(20)})]
    for level in range(1, 9):
        amounts = {f"c{key}": 64 - 7 * level for key in range(20)}
        devices.append(composite(f"d{level}", [f"d{level - 1}"], **amounts))
        devices += [composite(f"l{level}-{at}", [f"d{level}"], c0=5, **{f"c{level}": 3}) for at in range(2)]
    raw = first_revision(devices=devices)
    source = dict(to_v1(raw))
    walk = Walk(partitions(raw["spec"]))
    for name in ("l8-0", "l3-1", "d8", "d5", "l8-1", "l1-0", "d0"):
        expected = walk.possible(name)
        assert granted(source, walk.held, name) == expected
        if expected:
            walk.held.append(name)


def test_counters_of_one_source_stay_in_one_set():
    groups = [
        [
            CounterLimit(f"{owner}:{at}", Quantity.of(1), {owner: Quantity.of(1), "leaf": Quantity.of(1)})
            for at in range(3)
        ]
        for owner in ("a", "b", "c")
    ]
    packed = pack(groups, size=6, most=2)
    found = [[tally.name for tally in members] for members in packed.sets]
    assert found == [["a:0", "a:1", "a:2", "b:0", "b:1", "b:2"], ["c:0", "c:1", "c:2"]]
    assert packed.too_many == {}
    assert pack(groups, size=3, most=2).too_many == {"leaf": 3}


def refusal(devices: list[Object], **content: Any) -> str:
    with pytest.raises(Malformed) as refused:
        read(first_revision(devices=devices, **content))
    return str(refused.value).removeprefix("ResourceSlice s: ")


def test_sources_in_a_circle_are_refused_with_the_way_round():
    devices = [composite("a"), composite("b", ["a", "d"]), composite("c", ["b"]), composite("d", ["c"])]
    assert refusal(devices) == "consumesCapacityFrom: has a cycle: b -> d -> c -> b"


def test_a_source_that_is_not_there_is_refused():
    found = refusal([composite("a", ["b"])])
    assert found == "device a: consumesCapacityFrom: names b, which is not a device of this slice"


def test_a_mixin_that_is_not_there_is_refused():
    device = composite("a")
    device["composite"]["includes"] = [{"name": "x"}]
    found = refusal([device], deviceMixins=[{"name": "y", "composite": {}}])
    assert found == "spec.devices[0].composite.includes[0]: the slice has no such mixin as x; it has y"


@pytest.mark.parametrize(
    ("mixin", "line"),
    [
        ({"name": "m"}, "spec.deviceMixins[0]: must have exactly one type, composite; it has name"),
        (
            {"name": "m", "composite": {}, "basic": {}},
            "spec.deviceMixins[0]: must have exactly one type, composite; it has name, and basic",
        ),
        (
            {"name": "m", "composite": {"includes": [{"name": "n"}]}},
            "spec.deviceMixins[0].composite.includes: a mixin cannot include mixins;"
            " list them in the devices",
        ),
        (
            {"name": "M_1", "composite": {}},
            "spec.deviceMixins[0].name: must be a DNS label: at most 63 lower case letters, digits and '-'",
        ),
    ],
)
def test_a_mixin_that_is_none_is_refused(mixin: dict[str, Any], line: str):
    assert refusal([composite("a")], deviceMixins=[mixin]) == line


def test_a_basic_device_includes_nothing():
    device = {"name": "a", "basic": {"includes": [{"name": "m"}]}}
    assert refusal([device], deviceMixins=[{"name": "m", "composite": {}}]) == (
        "spec.devices[0].basic.includes: only a composite device includes mixins; "
        "write `composite` in place of `basic`"
    )


def test_more_than_eight_includes_are_refused():
    device = composite("a")
    device["composite"]["includes"] = [{"name": "y"}] * 9
    found = refusal([device], deviceMixins=[{"name": "y", "composite": {}}])
    assert found == "spec.devices[0].composite.includes: names 9 mixins; at most 8 are allowed"


@pytest.mark.parametrize(
    ("devices", "line"),
    [
        ([composite("a"), composite("a")], "spec.devices: two devices are named a"),
        ([composite("a", memory=-1)], "spec.devices[0]: capacity memory: must not be negative, got -1"),
        ([{"composite": {}}], "spec.devices[0].name: must be a string"),
        (
            [composite("a"), {"name": "b"}],
            "spec.devices[1]: has neither of basic and composite; set exactly one",
        ),
        (
            [{**composite("a"), "basic": {}}],
            "spec.devices[0]: has both of basic and composite; set exactly one",
        ),
    ],
)
def test_devices_that_cannot_be_told_or_counted_are_refused(devices: list[Object], line: str):
    assert refusal(devices) == line


def test_a_device_that_is_its_own_source_is_a_root():
    source = dict(
        to_v1(first_revision(devices=[composite("a", ["a"], memory=4), composite("b", ["a"], memory=4)]))
    )
    assert granted(source, [], "a")
    assert granted(source, [], "b")
    assert not granted(source, ["a"], "b")
    assert not granted(source, ["b"], "a")


def test_of_several_sources_the_last_that_has_a_capacity_gives_it():
    devices = [
        composite("a", memory=4, engines=1),
        composite("b", memory=4),
        composite("sink", ["a", "b"], memory=4, engines=1),
        composite("of-a", ["a"], memory=4),
        composite("of-b", ["b"], memory=1),
    ]
    source = dict(to_v1(first_revision(devices=devices)))
    assert granted(source, ["sink"], "of-a")
    assert not granted(source, ["sink"], "of-b")
    assert not granted(source, ["sink"], "a")
    assert not granted(source, ["sink"], "b")


def test_basic_devices_stand_beside_composite_ones():
    basic = {
        "name": "plain",
        "basic": {"attributes": {"name": {"string": "plain"}}, "capacity": {"memory": "1Gi"}},
    }
    source = dict(to_v1(first_revision(devices=[basic, composite("a")])))
    assert granted(source, ["a"], "plain")
    assert source["spec"]["devices"][0]["capacity"] == {"memory": {"value": "1Gi"}}
    assert "sharedCounters" not in source["spec"]
