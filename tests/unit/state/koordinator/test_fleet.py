"""The fleet: the mask is sound, and updates by row equal a fresh fleet."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.filters import WHY, Verdict, feasible
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.objects import Device, LabelSelector
from reconciler.plugins.koordinator.rules import Rules, Semantics
from tests.tools.examples import examples
from tests.tools.koordinator_builders import demand, device, gpu, minors, nic, pod
from tests.tools.koordinator_strategies import PODS, TABLE, TAGGED, devices, read

SELECTOR = LabelSelector.model_validate(TAGGED)


@pytest.mark.parametrize("semantics", Semantics)
@examples(50)
@given(data=st.data())
def test_no_machine_that_could_serve_is_left_out(semantics: Semantics, data: st.DataObject):
    rules = Rules(semantics)
    fleet = Fleet(rules)
    names = ["a", "b", "c"]
    for name in names:
        fleet.put(data.draw(devices(name)), {})
    for number, wants in enumerate(data.draw(st.lists(PODS, max_size=6))):
        asked = read(wants, rules)
        candidates = fleet.candidates(asked)
        for name in names:
            answer = fleet.decide(asked, name)
            if isinstance(answer, Failure):
                continue
            assert name in candidates
            if name == candidates[0]:
                fleet.hold(ObjectKey("default", str(number)), name, answer, asked.hints)


@pytest.mark.parametrize("semantics", Semantics)
@examples(50)
@given(data=st.data())
def test_quick_refusals_equal_the_exact_choice(semantics: Semantics, data: st.DataObject):
    """Except for machines with a partition table: the reason may name the table instead."""
    rules = Rules(semantics)
    fleet = Fleet(rules)
    for name in "abc":
        fleet.put(data.draw(devices(name)), {})
    for number, wants in enumerate(data.draw(st.lists(PODS, max_size=6))):
        asked = read(wants, rules)
        told = feasible(fleet.columns.every(), asked, fleet._tables, upstream=rules.upstream)
        for name, verdict in zip(fleet.names, told.tolist(), strict=True):
            answer = fleet.decide(asked, name)
            if Verdict(verdict) in WHY:
                assert isinstance(answer, Failure)
                assert answer == WHY[Verdict(verdict)] or fleet.machines[name].partitions is not None
            elif not isinstance(answer, Failure) and data.draw(st.booleans()):
                fleet.hold(ObjectKey("default", f"{number}"), name, answer, asked.hints)


def picture(fleet: Fleet) -> list[Any]:
    """The rows in use, without their positions."""
    columns = fleet.columns
    rows = np.flatnonzero(columns.owner >= 0)

    def name(row: Any) -> tuple[int, ...]:
        return (int(columns.kind[row]), int(columns.minor[row])) if row >= 0 else ()

    return sorted(
        (
            fleet._names[columns.owner[row]],
            name(row),
            columns.total[row].tolist(),
            columns.free[row].tolist(),
            columns.reported[row].tolist(),
            int(columns.vfs[row]),
            columns.function_labels.matching(SELECTOR)[columns.functions_of[row]],
            columns.function_labels.matching(SELECTOR)[columns.free_functions_of[row]],
            bool(columns.held[row]),
            bool(columns.closed[row]),
            name(columns.numa[row]),
            name(columns.pcie[row]),
            name(columns.switch[row]),
        )
        for row in rows
    )


@examples(50)
@given(st.data())
def test_any_events_equal_a_fresh_list(data: st.DataObject):
    rules = Rules()
    fleet = Fleet(rules)
    last: dict[str, Device] = {}
    held: dict[ObjectKey, Any] = {}
    for step in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from(["a", "b", "c"]))
        if data.draw(st.booleans()):
            last[name] = data.draw(devices(name))
            fleet.put(last[name], {})
        else:
            asked = read(data.draw(PODS), rules)
            key = ObjectKey("default", str(step % 3))
            fleet.release(key)
            held.pop(key, None)
            answer = fleet.decide(asked, name)
            if not isinstance(answer, Failure):
                fleet.hold(key, name, answer, asked.hints)
                held[key] = (name, answer, asked.hints)
    fresh = Fleet(rules)
    for found in last.values():
        fresh.put(found, {})
    for key, (name, answer, said) in held.items():
        fresh.hold(key, name, answer, said)
    assert picture(fleet) == picture(fresh)


def fleet_of(names: Sequence[str], *entries: Any) -> Fleet:
    fleet = Fleet(Rules(scoring=None))
    for name in names:
        fleet.put(device(*entries, name=name), {})
    return fleet


def test_used_machines_are_skipped():
    fleet = fleet_of(["n1", "n2"], gpu(0), gpu(1))
    both = demand(pod({"nvidia.com/gpu": 2}))
    answer = fleet.decide(both, "n1")
    assert not isinstance(answer, Failure)
    fleet.hold(ObjectKey("default", "p"), "n1", answer, {})
    assert fleet.candidates(both) == ["n2"]
    fleet.release(ObjectKey("default", "p"))
    assert fleet.candidates(both) == ["n1", "n2"]


def test_a_machine_without_free_virtual_functions_is_skipped():
    fleet = fleet_of(["n"], nic(0, vfs=1))
    one = demand(pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}))
    answer = fleet.decide(one, "n")
    assert not isinstance(answer, Failure)
    assert fleet.candidates(one) == ["n"]
    fleet.hold(ObjectKey("default", "p"), "n", answer, {})
    assert fleet.candidates(one) == []


def test_a_release_does_not_compare_partitions_with_the_request():
    resources = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "1"}
    small = [gpu(minor) | {"resources": resources} for minor in (0, 2)]
    two = pod({"nvidia.com/gpu": 2})
    for semantics, expected in ((Semantics.PROPOSAL, []), (Semantics.UPSTREAM, ["n"])):
        fleet = Fleet(Rules(semantics))
        fleet.put(device(*small, name="n", annotations=TABLE), {})
        assert fleet.candidates(demand(two, semantics)) == expected


def test_a_machine_without_its_object_is_unhealthy_until_it_returns():
    fleet = fleet_of(["n"], gpu(0), gpu(1))
    one = demand(pod({"nvidia.com/gpu": 1}))
    answer = fleet.decide(one, "n")
    assert not isinstance(answer, Failure)
    fleet.hold(ObjectKey("default", "p"), "n", answer, {})
    fleet.remove("n")
    fleet.remove("never seen")
    assert fleet.candidates(one) == []
    assert minors(fleet.decide(one, "n")) == "insufficient-devices:gpu"
    fleet.put(device(gpu(0), gpu(1), name="n"), {})
    assert minors(fleet.decide(one, "n")) == {"gpu": [1]}


def test_an_unknown_node_is_accepted():
    assert fleet_of([]).decide(demand(pod({"rdma": 1})), "n") == {}


def test_holds_without_a_machine_are_kept():
    fleet = fleet_of([])
    key = ObjectKey("default", "p")
    answer = fleet_of(["n"], gpu(0)).decide(demand(pod({"nvidia.com/gpu": 1})), "n")
    assert not isinstance(answer, Failure)
    fleet.hold(key, "n", answer, {})
    one = demand(pod({"nvidia.com/gpu": 1}))
    assert minors(fleet.decide(one, "n")) == "no-devices-of-type:gpu"
    fleet.put(device(gpu(0), gpu(1), name="n"), {})
    assert minors(fleet.decide(one, "n")) == {"gpu": [1]}


def test_a_restart_keeps_exclusive_switches_closed():
    spots = [(0, "0"), (0, "0"), (0, "1")]
    fleet = fleet_of(["n"], *(nic(i, spot) for i, spot in enumerate(spots)))
    alone = demand(pod({"rdma": 1}, hint={"rdma": {"exclusivePolicy": "PCIeLevel"}}))
    answer = fleet.decide(alone, "n")
    assert not isinstance(answer, Failure)
    fleet.hold(ObjectKey("default", "p"), "n", answer, alone.hints)
    assert minors(fleet.decide(demand(pod({"rdma": 1})), "n")) == {"rdma": [2]}
    assert fleet.candidates(demand(pod({"rdma": 200}))) == []
