"""Counts of devices, and recorded answers."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.annotations import Hint
from reconciler.plugins.koordinator.figures import STATES, MachineState, by_node, by_type, describe_machine
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.vocabulary import Rules, Semantics
from tests.conformance.documents import SHARED, documents
from tests.conformance.koordinator import recognises, run_by
from tests.tools.koordinator_builders import demand, device, gpu, nic, pod
from tests.tools.koordinator_recorded import DIFFERENCES, SKIPPED

ASKS = (
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 2, "rdma": 1},
    {"gpu-core": 40, "gpu-memory-ratio": 40},
    {"rdma": 30},
)
HINTS: tuple[Any, ...] = (None, {"rdma": {"vfSelector": {}}}, {"rdma": {"exclusivePolicy": "PCIeLevel"}})


def walked(machines: list[MachineState]) -> dict[tuple[str, str], tuple[tuple[int, ...], int, int]]:
    """The twin: machine and type -> devices in each state, functions and those that are free."""
    found = {}
    for machine in machines:
        for kind in dict.fromkeys(one.kind for one in machine.devices):
            mine = [one for one in machine.devices if one.kind == kind]
            counts = tuple(sum(one.state == state for one in mine) for state in STATES)
            found[machine.name, kind] = (
                counts,
                sum(one.vfs for one in mine),
                sum(one.vfs_free for one in mine),
            )
    return found


@given(
    seeds=st.lists(st.tuples(st.sampled_from(ASKS), st.sampled_from(HINTS), st.booleans()), max_size=14),
    sick=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3))),
    semantics=st.sampled_from(Semantics),
)
def test_tallies_equal_a_walk_over_the_machines(seeds, sick, semantics):
    fleet = Fleet(Rules(semantics))
    for at in range(3):
        gpus = [gpu(n, (0, f"p{n // 2}"), health=(at, n) not in sick) for n in range(4)]
        nics = [nic(n, (0, f"p{n}"), vfs=2) for n in range(2)]
        fleet.put(device(*gpus, *nics, name=f"m{2 - at}"), {})
    held: list[ObjectKey] = []
    for number, (requests, hint, leaves) in enumerate(seeds):
        if leaves and held:
            fleet.release(held.pop(0))
            continue
        asked, key = demand(pod(requests, hint=hint), semantics), ObjectKey("default", f"p{number}")
        answer = fleet.first(asked, lambda _: True)
        if isinstance(answer, Placed):
            fleet.hold(key, answer.node, answer.allocation, asked.hints)
            held.append(key)
    machines = [describe_machine(fleet, name) for name in sorted(fleet.machines)]
    expected = walked(machines)
    tallies = by_node(fleet)
    assert [(one.node, one.kind) for one in tallies] == sorted(expected)
    found = {(one.node, one.kind): (one.states, one.functions, one.functions_free) for one in tallies}
    assert found == expected
    for tally in by_type(fleet):
        mine = [one for machine in machines for one in machine.devices if one.kind == tally.kind]
        assert tally.states == tuple(Counter(one.state for one in mine)[state] for state in STATES)
        for name, total, free in tally.amounts:
            assert total == sum(one.total.get(name, 0) for one in mine)
            assert free == sum(one.free.get(name, 0) for one in mine)


def test_each_device_lists_its_holders():
    fleet = Fleet(Rules())
    fleet.put(device(gpu(0, (0, "x")), nic(0, (0, "x"), vfs=2), name="n"), {})
    alone = pod({"nvidia.com/gpu": 1, "rdma": 1}, hint={"rdma": {"vfSelector": {}}})
    asked = demand(alone)
    answer = fleet.first(asked, lambda _: True)
    assert isinstance(answer, Placed)
    fleet.hold(
        alone.key, "n", answer.allocation, {"rdma": Hint.model_validate({"exclusivePolicy": "DeviceLevel"})}
    )
    card, rdma = describe_machine(fleet, "n").devices
    assert (card.state, card.holders[0].pod) == ("held", alone.key)
    # Something of it is left, but its holder wants to be alone.
    assert (rdma.state, rdma.vfs_free, rdma.holders[0].vfs) == ("held", 1, ("00:00.0",))
    fleet.remove("n")
    assert [one.healthy for one in describe_machine(fleet, "n").devices] == [False, False]


@pytest.mark.parametrize("kind", [by_type, by_node])
def test_an_empty_fleet_counts_nothing(kind):
    assert kind(Fleet(Rules())) == []


DATA = SHARED / "koordinator"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no conformance data at {DATA}")


def test_the_proposals_decide_like_the_release_but_where_they_say_otherwise():
    found = [document for document in documents(DATA) if recognises(document.data)]
    outcomes = list(run_by(found, Semantics.PROPOSAL))
    assert {outcome.case for outcome in outcomes if outcome.mismatch} == set(DIFFERENCES)
    assert [outcome for outcome in outcomes if outcome.skipped] == SKIPPED


@pytest.mark.parametrize(
    ("number", "gpus", "nics"), [("508", [4, 5, 6], [3, 4]), ("700", [6], [4]), ("705", [6], [4])]
)
def test_an_exclusive_switch_is_searched_for(number: str, gpus: list[int], nics: list[int]):
    found = [d for d in documents(DATA) if d.data.get("name", "").startswith(number)]
    (outcome,) = run_by(found, Semantics.PROPOSAL)
    assert outcome.mismatch is not None
    given = outcome.mismatch.got["allocations"]
    assert [entry["minor"] for entry in given["gpu"]] == gpus
    assert [entry["minor"] for entry in given["rdma"]] == nics
