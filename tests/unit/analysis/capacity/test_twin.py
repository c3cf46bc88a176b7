"""Capacity analysis against a brute-force search over all choices of devices."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Measurement, Solver, measure
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.state.store import Store
from tests.tools.builders import Object, counter_slice, device, resource_slice, store
from tests.tools.examples import examples

COUNTERS = ("mem", "slice-0", "slice-1", "slice-2")
GROUPS = ("a", "b")


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Object], list[int]]:
    """Pools with counter sets, devices that draw from up to two of them, and the numbers of held devices."""
    sets = {
        f"s{number}": {name: draw(st.integers(1, 3)) for name in COUNTERS}
        for number in range(draw(st.integers(1, 2)))
    }
    content = [draw(devices(number, tuple(sets))) for number in range(draw(st.integers(1, 7)))]
    options: list[Object] = [{"nodeName": "n"}, {"allNodes": True}]
    nodes = draw(st.sampled_from(options))
    found = [counter_slice("c", sets, slices=2, **nodes), resource_slice("d", content, slices=2, **nodes)]
    return found, draw(st.lists(st.integers(0, 6), max_size=3))


@st.composite
def devices(draw: st.DrawFn, number: int, sets: tuple[str, ...]) -> Object:
    names = draw(st.lists(st.sampled_from(sets), unique=True, max_size=2))
    draws = {name: {c: draw(st.integers(0, 2)) for c in draw(drawn())} for name in names}
    attributes = {"profile": draw(st.sampled_from("pq"))} if draw(st.booleans()) else {}
    fields: Object = {}
    if draw(st.integers(0, 5)) == 0:
        effect = draw(st.sampled_from(["NoSchedule", "NoExecute", "None"]))
        fields["taints"] = [{"key": "k", "effect": effect}]
    if draw(st.integers(0, 5)) == 0:
        fields["allowMultipleAllocations"] = True
    made = device(f"d{number}", attributes, draws=draws, **fields)
    for entry in made.get("consumesCounters", ()):
        if draw(st.integers(0, 3)) == 0:
            groups = st.lists(st.sampled_from(GROUPS), unique=True, min_size=1, max_size=2)
            entry["compatibilityGroups"] = draw(groups)
    return made


def drawn() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(COUNTERS), unique=True, min_size=1, max_size=3)


def take(picture: Store, device: DeviceID, name: str) -> Plan:
    result = {"request": "r", "driver": device.driver, "pool": device.pool, "device": device.device}
    allocation = Allocation.model_validate({"devices": {"results": [result]}})
    plan = Plan(ObjectKey("x", name), name, "1", "n", allocation)
    picture.assume(plan)
    return plan


def choices_of(picture: Store, rows: list[int]) -> Iterator[tuple[int, ...]]:
    """Every choice of devices that can be allocated together."""
    yield ()
    for at, row in enumerate(rows):
        world = picture.snapshot()
        if not world.occupancy.free[row]:
            continue
        plan = take(picture, world.fleet.id_of(row), f"try-{row}")
        for more in choices_of(picture, rows[at + 1 :]):
            yield (row, *more)
        picture.forget(plan)


def measured(picture: Store) -> Measurement:
    world = picture.snapshot()
    return measure(fleet_layout(world.topology), world.occupancy, Solver())


def prepared(fleet: tuple[list[Object], list[int]]) -> tuple[Store, Measurement]:
    objects, held = fleet
    picture = store(*objects)
    for number in held:
        world = picture.snapshot()
        if number < world.fleet.size and world.occupancy.free[number] and not world.fleet.shared[number]:
            take(picture, world.fleet.id_of(number), f"held-{number}")
    return picture, measured(picture)


@examples(60)
@given(fleets())
def test_no_other_choice_has_more_devices_of_a_profile(fleet: tuple[list[Object], list[int]]):
    picture, found = prepared(fleet)
    layout = found.layout
    excluding = layout.fleet.exclusion is not None
    for line in lines(found, "driver"):
        for usage in line.profiles:
            number = layout.profiles.names.index((line.driver, usage.profile))
            mine = [
                row
                for row in range(layout.fleet.size)
                if layout.profiles.of[row] == number and layout.offered[row] and not layout.tainted[row]
            ]
            best = max(map(len, choices_of(picture, mine)))
            assert usage.fits <= best <= usage.at_most
            assert excluding or usage.fits == best


@examples(50)
@given(fleets())
def test_what_is_stranded_is_what_no_choice_takes(fleet: tuple[list[Object], list[int]]):
    picture, found = prepared(fleet)
    layout, world = found.layout, picture.snapshot()
    rows = [r for r in range(world.fleet.size) if layout.offered[r] and not layout.tainted[r]]
    choices = list(choices_of(picture, rows))
    excluding = world.fleet.exclusion is not None
    usage = {left.counter: left for line in lines(found, "driver") for left in line.counters}
    for family in ("mem", "slice-*"):
        mine = [c for c in COUNTERS if c.startswith(family.removesuffix("-*"))]
        stranded = 0
        for number, columns in enumerate(world.fleet.set_columns):
            at = [columns.counters.index(c) for c in mine if layout.used[number, columns.counters.index(c)]]
            units = [columns.units[c] for c in at]
            left = [max(0, int(world.occupancy.left[number, c])) for c in at]
            taken = max(_taken(choice, number, at, units, picture) for choice in choices)
            stranded += sum(n * u for n, u in zip(left, units, strict=True)) - taken
        if family in usage:
            assert usage[family].stranded <= stranded
            assert excluding or (usage[family].stranded, usage[family].exact) == (stranded, True)
        else:
            assert stranded == 0


def _taken(choice: tuple[int, ...], number: int, at: list[int], units: list[int], picture: Store) -> int:
    world = picture.snapshot()
    fleet, total = world.fleet, 0
    for row in choice:
        if world.occupancy.sharing[row]:
            continue
        for own, draw in zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True):
            if own == number:
                total += sum(int(fleet.table[draw, c]) * unit for c, unit in zip(at, units, strict=True))
    return total


def parts(pool: str, mem: int, *content: Object) -> list[Object]:
    here: Object = {"nodeName": "n", "pool": pool, "slices": 2}
    return [counter_slice(f"{pool}-c", {"g": {"mem": mem}}, **here), resource_slice(pool, content, **here)]


def half(name: str, profile: str = "p", mem: int = 1, groups: tuple[str, ...] = ()) -> Object:
    made = device(name, {"profile": profile}, draws={"g": {"mem": mem}})
    if groups:
        made["consumesCounters"][0]["compatibilityGroups"] = list(groups)
    return made


def test_sets_that_are_drawn_from_alike_differ_by_what_is_left():
    objects = [
        one for pool in "qr" for one in parts(pool, 3, half("other", "o"), *map(half, ("a", "b", "c", "d")))
    ]
    picture = store(*objects)
    take(picture, DeviceID("d", "q", "other"), "held")
    found = {
        (line.pool, one.profile): one.fits
        for line in lines(measured(picture), "pool")
        for one in line.profiles
    }
    assert (found["q", "p"], found["r", "p"]) == (2, 3)


def test_devices_that_go_together_may_not_go_with_what_is_held():
    """Each shares a group with the held device. They share another group that the held one lacks."""
    objects = parts(
        "q",
        9,
        half("old", "o", groups=("a", "b")),
        half("x", groups=("a", "c")),
        half("y", groups=("b", "c")),
    )
    picture = store(*objects)
    assert [one.fits for one in lines(measured(picture), "driver")[0].profiles if one.profile == "p"] == [2]
    take(picture, DeviceID("d", "q", "old"), "held")
    (usage,) = [one for one in lines(measured(picture), "driver")[0].profiles if one.profile == "p"]
    assert (usage.fits, usage.at_most) == (1, 2)


def test_devices_exclude_each_other_in_whichever_of_their_sets_they_meet():
    sets = {name: {"mem": 4} for name in ("s", "t")}
    content = []
    for name, order in (("x", ("s", "t")), ("y", ("t", "s"))):
        made = device(name, {"profile": "p"}, draws={one: {"mem": 1} for one in order})
        made["consumesCounters"][order.index("s")]["compatibilityGroups"] = [name]
        content.append(made)
    here: Object = {"nodeName": "n", "slices": 2}
    picture = store(counter_slice("c", sets, **here), resource_slice("d", content, **here))
    (usage,) = lines(measured(picture), "driver")[0].profiles
    assert (usage.fits, usage.at_most) == (1, 2)
