"""Nominations: devices and room are held for somebody, others see less, and a record is read again."""

import json
from dataclasses import replace
from gc import collect
from math import inf
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from reconciler.allocation.alignment.deciding import decide
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import NoFit, WantedPod
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import (
    MAX_LENGTH,
    MAX_NOMINATIONS,
    NOBODY,
    HeldPlace,
    Nomination,
    Nominee,
    NomineeKind,
    as_json,
    devices_of,
    of_claim,
    of_gang,
    of_pod,
    read_record,
    text_of,
)
from reconciler.state.store import Store
from reconciler.state.trial import Forked
from tests.tools import reference_kernels
from tests.tools.builders import counter_slice, device, hold, node, resource_slice, store, typed
from tests.tools.examples import examples
from tests.tools.pool_fitting import ON_N, TWO
from tests.tools.room_worlds import room_world

CPU = "cpu"


def machine() -> Nodes:
    """A node with four CPUs."""
    nodes = Nodes()
    nodes.note(Changed("Node", typed({**node("n"), "status": {"allocatable": {CPU: "4"}}})))
    return nodes


def room_nomination(nominee: Nominee, *, cpu: int = 0) -> Nomination:
    place = HeldPlace("n", (DeviceID("d", "p", "A"),), ((CPU, cpu),) if cpu else ())
    return Nomination(nominee, (place,), 0, 10.0, "2026-01-01T12:00:00Z")


def test_a_nomination_of_devices_alone_leaves_the_room_as_it_is():
    nodes, who = machine(), of_claim(ObjectKey("default", "c"))
    nodes.nominated.hold(room_nomination(who))
    assert nodes.room.fits(
        {CPU: 1}, frozenset(), but=nodes.nominated.charges_of(frozenset([who]))
    ).tolist() == [True]
    assert not nodes.nominated
    nodes.nominated.hold(room_nomination(who, cpu=1000))
    assert nodes.nominated
    assert nodes.nominated.hold(room_nomination(who))
    assert not nodes.nominated


def test_gangs_of_one_name_that_are_declared_in_two_ways_hold_room_of_their_own():
    nodes = machine()
    gangs = [
        of_gang(GangKey("default", source, "g")) for source in (GangSource.POD_GROUP, GangSource.ANNOTATION)
    ]
    free = nodes.room.left("n", CPU)
    for gang in gangs:
        nodes.nominated.hold(room_nomination(gang, cpu=1000))
    assert nodes.room.left("n", CPU) == free - 2000
    nodes.nominated.end(gangs[0])
    assert nodes.room.left("n", CPU) == free - 1000


def test_devices_with_admin_access_are_not_held():
    results = [hold("A"), hold("B", adminAccess=True)]
    allocation = Allocation.model_validate({"devices": {"results": results}})
    plan = Plan(ObjectKey("default", "c"), "u", "1", "n", allocation)
    assert devices_of([plan]) == (DeviceID("d", "p", "A"),)


NOON = "2026-01-01T12:00:00Z"
SOMEBODY = of_pod(ObjectKey("default", "somebody"))


def nomination(*devices: str, of: Store, name: str = "somebody") -> Nomination:
    """Devices by name."""
    fleet = of.snapshot().fleet
    found = [one for row in range(fleet.size) if (one := fleet.id_of(row)).device in devices]
    assert len(found) == len(devices)
    who = of_pod(ObjectKey("default", name))
    return Nomination(who, (HeldPlace("n", tuple(found)),), 0, 10.0, NOON)


@given(st.integers(0, 2**32), st.data())
@examples(40)
def test_others_see_what_the_plain_definition_says(seed: int, data: st.DataObject):
    """Also while devices are taken and freed, so that columns are followed row by row."""
    world = replace(room_world(seed), held=()).world()
    fleet = world.store.snapshot().fleet
    rows = data.draw(st.sets(st.integers(0, fleet.size - 1), max_size=4))
    devices = tuple(fleet.id_of(row) for row in sorted(rows))
    world.store.nominate(Nomination(SOMEBODY, (HeldPlace("n0", devices),), 0, 10.0, NOON))
    for key in [None, *list(world.store.claims)[:3]]:
        if key is not None:
            world.store.vacate(world.store.claims[key].metadata.uid)
        same_as_plain(world.store.snapshot(), world.store.snapshot_for(NOBODY), rows)
        assert world.store.snapshot_for(frozenset([SOMEBODY])) is world.store.snapshot()


def same_as_plain(base: Snapshot, seen: Snapshot, rows: set[int]) -> None:
    fleet, occupancy = base.fleet, base.occupancy
    unused = [row for row in sorted(rows) if not (occupancy.held[row] or occupancy.sharing[row])]
    sets, draws = fleet.sets[unused].tolist(), fleet.draws[unused].tolist()
    kept = reference_kernels.total_draw(len(fleet.totals), fleet.table.tolist(), sets, draws)
    left = reference_kernels.held_back(occupancy.left.tolist(), kept)
    assert seen.occupancy.left.tolist() == left
    table, all_sets, all_draws = fleet.table.tolist(), fleet.sets.tolist(), fleet.draws.tolist()
    fitting = reference_kernels.fits(left, table, all_sets, all_draws)
    for row in range(fleet.size):
        held = bool(occupancy.held[row]) or row in rows
        fit = fitting[row] and bool(occupancy.fits[row])
        assert bool(seen.occupancy.held[row]) == held
        assert bool(seen.occupancy.fits[row]) == fit
        assert bool(seen.occupancy.free[row]) == ((fit or bool(occupancy.sharing[row])) and not held)


@given(st.integers(0, 2**32))
@examples(40)
def test_what_is_held_is_still_there_when_the_others_have_taken_what_they_get(seed: int):
    """Others decide while pods that have to leave still hold devices."""
    drawn = replace(room_world(seed), held=())
    world = drawn.world()
    if not isinstance(drawn.wanted, WantedPod):
        return
    occupants = Occupants(world)
    everybody = frozenset(occupants.pods)
    with world.trial() as trial:
        for claim in occupants.freed(everybody):
            trial.release(world.store.claims[claim].metadata.uid)
        places = drawn.wanted.place(trial)
        if isinstance(places, NoFit):
            return
    plans = places[0].plans
    results = [one for plan in plans for one in plan.allocation.devices.results]
    devices = tuple(dict.fromkeys(one.id for one in results))
    world.store.nominate(Nomination(SOMEBODY, (HeldPlace(places[0].node, devices),), 0, 10.0, NOON))
    leaving = sorted(occupants.freed(everybody))
    for at in range(len(leaving) + 1):
        for one in drawn.wanted.claims:  # another claim like it, as often as it fits
            other = one.model_copy(
                update={"metadata": one.metadata.model_copy(update={"name": f"x{at}", "uid": f"x{at}"})}
            )
            found = decide([other], world.store.snapshot_for(NOBODY), nodes=None, steps=1000)
            if isinstance(found, Granted):
                world.store.assume(found.plans[0])
        if at < len(leaving):
            world.store.vacate(world.store.claims[leaving[at]].metadata.uid)
    for plan in plans:
        world.store.assume(plan)
    after = world.store.snapshot()
    assert (after.occupancy.left >= 0).all()
    for result in results:
        holders = [holder.claim.name for holder in world.store.holders(result.id)]
        assert not any(name.startswith("x") for name in holders)
        assert result.share_id or len(holders) == 1


def partitioned() -> Store:
    """One GPU of 40, as a whole, in two halves; and a device that draws nothing."""
    common = {"pool": "p", "driver": "d", **TWO, **ON_N}
    content = [
        device("full", draws={"g": {"m": 40}}),
        device("a", draws={"g": {"m": 20}}),
        device("b", draws={"g": {"m": 20}}),
        device("z"),
    ]
    return store(
        node("n"), counter_slice("t", {"g": {"m": 40}}, **common), resource_slice("s", content, **common)
    )


def free(seen: Snapshot) -> set[str]:
    return {seen.fleet.id_of(row).device for row in np.flatnonzero(seen.occupancy.free).tolist()}


def test_partitions_of_a_nominated_device_are_not_free_for_others():
    state = partitioned()
    state.nominate(nomination("full", of=state))
    assert free(state.snapshot()) == {"full", "a", "b", "z"}
    assert free(state.snapshot_for(NOBODY)) == {"z"}
    assert free(state.snapshot_for(frozenset([SOMEBODY]))) == {"full", "a", "b", "z"}


def test_a_nomination_never_makes_a_pool_look_over_committed():
    """Half of the device is still in use: then the other half is not free, and nothing is below zero."""
    state = partitioned()
    state.nominate(nomination("full", of=state))
    state.nominate(nomination("a", "b", of=state, name="another"))
    seen = state.snapshot_for(NOBODY)
    assert seen.occupancy.left.min() == 0
    assert free(seen) == {"z"}


def test_without_nominations_the_snapshot_is_the_same_object():
    state = partitioned()
    assert state.snapshot_for(NOBODY) is state.snapshot()
    state.nominate(nomination("a", of=state))
    state.end_nomination(SOMEBODY)
    assert state.snapshot_for(NOBODY) is state.snapshot()


def test_equal_states_have_one_version_and_others_another():
    """Refusals are remembered by the version of the snapshot."""
    state = partitioned()
    before = state.snapshot_for(NOBODY).version
    state.nominate(nomination("a", of=state))
    seen = state.snapshot_for(NOBODY)
    assert seen.version not in (before, state.snapshot().version)
    assert state.snapshot_for(NOBODY).version == seen.version
    state.nominate(nomination("b", of=state))
    assert state.snapshot_for(NOBODY).version != seen.version


def test_fleets_that_were_replaced_are_not_kept():
    state, both = partitioned(), frozenset([SOMEBODY])
    state.nominate(nomination("a", of=state))
    state.nominate(nomination("b", of=state, name="another"))
    for own in (NOBODY, both):
        state.snapshot_for(own)
    before = ref(state.snapshot().fleet)
    state.apply(Changed("ResourceSlice", typed(resource_slice("y", [device("y")], pool="y", nodeName="n"))))
    state.snapshot_for(NOBODY)
    collect()
    assert before() is None
    before = ref(state.snapshot().fleet)
    for who in (SOMEBODY, of_pod(ObjectKey("default", "another"))):
        state.end_nomination(who)
    state.apply(Removed("ResourceSlice", ObjectKey("", "y")))
    state.snapshot_for(NOBODY)
    collect()
    assert before() is None


def test_a_fork_has_its_own_nominations():
    state = partitioned()
    state.nominate(nomination("a", of=state))
    other = Forked.fork_of(state).store()
    other.end_nomination(SOMEBODY)
    assert free(other.snapshot_for(NOBODY)) == {"full", "a", "b", "z"}
    assert free(state.snapshot_for(NOBODY)) == {"b", "z"}


names = st.text(min_size=1, max_size=8)
places = st.builds(
    HeldPlace,
    names,
    st.lists(st.builds(DeviceID, names, names, names), max_size=3).map(tuple),
    st.dictionaries(names, st.integers(0, 2**62), max_size=2).map(lambda room: tuple(room.items())),
)
nominations = st.builds(
    Nomination,
    st.builds(Nominee, st.sampled_from(NomineeKind), st.builds(ObjectKey, names, names), names),
    st.lists(places, min_size=1, max_size=3).map(tuple),
    st.integers(-(2**31), 2**31 - 1),
    st.just(inf),
    names,
    names,
)


def any_nomination(name: str = "a", devices: int = 1) -> Nomination:
    place = HeldPlace("n", tuple(DeviceID("d", "p", str(at)) for at in range(devices)), (("cpu", 1000),))
    nominee = Nominee(NomineeKind.POD, ObjectKey("default", name))
    return Nomination(nominee, (place,), 5, inf, "2026-01-01T12:00:00Z", "u")


@given(st.lists(nominations, max_size=4))
def test_what_is_written_is_read_again(held: list[Nomination]):
    found = read_record(text_of(held), "here")
    assert found.nominations == tuple(held)
    assert found.refused == ()


def test_a_clock_of_the_process_is_not_written():
    assert text_of([replaced(any_nomination(), until=3.0)]) == text_of([any_nomination()])


@pytest.mark.parametrize(
    "wrong",
    [
        7,
        None,
        {},
        {"nominee": ["node", "default", "a", ""]},
        {"nominee": ["pod", "default", "a"]},
        {"nominee": ["pod", "default", 1, ""]},
        {"places": [{"node": "n", "devices": [["d", "p"]], "room": {}}]},
        {"places": [{"node": "n", "devices": [["d", "p", ["x"]]], "room": {}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": 1.5}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": 2**70}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": -1}}]},
        {"places": 3},
        {"places": []},
        {"priority": "high"},
        {"deadline": None},
    ],
)
def test_a_nomination_that_cannot_be_read_is_refused_alone(wrong: Any):
    bad = {**as_json(any_nomination("b")), **wrong} if isinstance(wrong, dict) and wrong else wrong
    found = read_record(json.dumps([as_json(any_nomination()), bad]), "ConfigMap default/held")
    assert found.nominations == (any_nomination(),)
    (problem,) = found.refused
    assert "ConfigMap default/held" in str(problem)
    assert "[1]" in str(problem)


@pytest.mark.parametrize(
    "text", ["{", "{}", '"x"', "[" * 100_000, "[0]" + " " * MAX_LENGTH, f"[{'0,' * MAX_NOMINATIONS}0]"]
)
def test_what_is_no_record_is_refused(text: str):
    with pytest.raises(Malformed, match="here"):
        read_record(text, "here")


def test_a_record_that_would_be_too_long_keeps_the_oldest():
    held = [any_nomination(str(number), devices=2_000) for number in range(30)]
    text = text_of(held)
    assert len(text) <= MAX_LENGTH
    kept = read_record(text, "here").nominations
    assert 0 < len(kept) < 30
    assert kept == tuple(held[: len(kept)])
