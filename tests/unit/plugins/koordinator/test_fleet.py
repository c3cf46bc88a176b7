"""The search over all machines, and what it keeps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.answer_cache import MOST_FILTERS, ChangeLog
from reconciler.plugins.koordinator.columns import MOST_SELECTORS, LabelCodes
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.filters import WHY, Verdict, counts, feasible
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.refusals import Unserved
from reconciler.plugins.koordinator.vocabulary import Device, LabelSelector, Rules, Semantics
from tests.tools.examples import examples
from tests.tools.koordinator_builders import (
    PODS,
    TABLE,
    TAGGED,
    demand,
    device,
    devices,
    gpu,
    minors,
    nic,
    pod,
    read,
)

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
        told = feasible(fleet.columns.every(), asked, fleet._tables)
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


NAMES = ["a", "b", "c", "d", "e", "f", "g"]
SAME = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}


def anywhere(_: str) -> bool:
    return True


def asked_one_by_one(fleet: Fleet, asked: Demand, names: list[str]) -> Placed | None:
    """The slow twin: the exact choice for every machine, by name."""
    for name in sorted(names):
        answer = fleet.decide(asked, name)
        if not isinstance(answer, Failure):
            return Placed(name, answer)
    return None


@pytest.mark.parametrize("semantics", Semantics)
@examples(50)
@given(data=st.data())
def test_caching_never_changes_an_answer(semantics: Semantics, data: st.DataObject):
    """Machines are added, change and are deleted, pods start and end; a few kinds of pods ask repeatedly."""
    rules = Rules(semantics)
    fleet = Fleet(rules)
    kinds = data.draw(st.lists(PODS, min_size=1, max_size=3))
    known: set[str] = set()
    for step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(NAMES))
        match data.draw(st.sampled_from(["put", "put", "remove", "release", "ask", "ask"])):
            case "put":
                fleet.put(data.draw(devices(name)), {})
                known.add(name)
            case "remove":
                fleet.remove(name)
            case "release":
                fleet.release(ObjectKey("default", str(data.draw(st.integers(0, 11)))))
            case "ask":
                asked = read(data.draw(st.sampled_from(kinds)), rules)
                allowed = [other for other in known if other != name]
                found = fleet.first(asked, allowed.__contains__)
                expected = asked_one_by_one(fleet, asked, allowed)
                if expected is None:
                    assert isinstance(found, Unserved)
                else:
                    assert found == expected
                    fleet.hold(ObjectKey("default", str(step)), found.node, found.allocation, asked.hints)


PAIR = {"gpu": {"requiredTopologyScope": "PCIe"}}


def odd_fleet(count: int) -> Fleet:
    """Machines with two GPUs on one switch but two NUMA nodes: only the exact choice can decide."""
    fleet = Fleet(Rules())
    for number in range(count):
        fleet.put(device(gpu(0, (0, "a")), gpu(1, (1, "a")), name=f"n{number}"), {})
    return fleet


def test_a_machine_that_refused_is_tried_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch):
    fleet = odd_fleet(3)
    pair = demand(pod({"nvidia.com/gpu": 2}, hint=PAIR))
    assert isinstance(fleet.first(pair, anywhere, tries=2 * 3 + 1), Unserved)
    decided: list[str] = []
    exact = fleet.decide

    def counting(asked: Demand, node: str) -> Any:
        decided.append(node)
        return exact(asked, node)

    monkeypatch.setattr(fleet, "decide", counting)
    refused = fleet.first(pair, anywhere)
    assert isinstance(refused, Unserved)
    assert decided == []
    assert sum(refused.refused.values()) == 3
    fleet.put(device(gpu(0, (0, "a")), gpu(1, (0, "a")), name="n1"), {})
    found = fleet.first(pair, anywhere)
    assert isinstance(found, Placed)
    assert (found.node, decided) == ("n1", ["n1"])


def test_a_long_search_yields_and_continues():
    fleet = odd_fleet(5)
    pair = demand(pod({"nvidia.com/gpu": 2}, hint=PAIR))
    calls = 1
    while fleet.first(pair, anywhere, tries=2) is None:
        calls += 1
    assert isinstance(fleet.first(pair, anywhere, tries=1), Unserved)
    assert 5 <= calls <= 6  # each machine is tried as it is, and as it would be at best


def test_machines_without_a_whole_switch_are_skipped(monkeypatch: pytest.MonkeyPatch):
    """Each has a free GPU and a free NIC, never on one switch; one machine does not suit the pod."""
    fleet = Fleet(Rules())
    for number in range(3):
        fleet.put(device(gpu(0, (0, "a")), nic(0, (0, "b")), name=f"n{number}"), {})
    joint = demand(pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=SAME))
    monkeypatch.setattr(fleet, "decide", lambda *_: pytest.fail("asked"))
    found = fleet.first(joint, lambda name: name != "n2")
    assert isinstance(found, Unserved)
    assert (found.machines, found.unsuited) == (3, 1)
    assert [(why.reason, n) for why, n in found.refused.items()] == [("joint-scope-impossible", 2)]
    scoped = demand(pod({"nvidia.com/gpu": 1, "rdma": 1}, hint=PAIR))
    assert fleet.candidates(scoped) == ["n0", "n1", "n2"]


def test_unsuitable_nodes_are_counted_separately():
    fleet = Fleet(Rules())
    for name in ("a", "b"):
        fleet.put(device(gpu(0), name=name), {})
    found = fleet.first(demand(pod({"nvidia.com/gpu": 1})), lambda name: name == "c")
    assert isinstance(found, Unserved)
    assert (found.machines, found.unsuited) == (2, 2)


def test_counts_after_each_test():
    fleet = Fleet(Rules())
    sick, other = gpu(1, health=False, labels={"t": "x"}), gpu(2)
    fleet.put(device(gpu(0, labels={"t": "x"}), sick, other, name="n"), {})
    selecting = pod({"nvidia.com/gpu": 2}, hint={"gpu": {"selector": {"matchLabels": {"t": "x"}}}})
    (count,) = counts(fleet.columns.every(), demand(selecting), selecting.key)
    assert (count.request, count.wanted) == ("gpu", 2)
    assert [gate.left for gate in count.gates] == [3, 2, 1, 1, 1, 1]


def test_old_changes_are_dropped_and_detected():
    log = ChangeLog()
    for number in range(5 * MOST_FILTERS):
        log.note(number)
    assert log.since(0) is None
    assert log.since(log.end) == set()
    assert log.since(log.end - 2) == {5 * MOST_FILTERS - 2, 5 * MOST_FILTERS - 1}


def selecting(value: str) -> LabelSelector:
    return LabelSelector(match_labels={"t": value})


def test_the_number_of_cached_selectors_is_bounded():
    codes = LabelCodes()
    codes.code({"t": "0"})
    for number in range(2 * MOST_SELECTORS):
        assert codes.matching(selecting(str(number))).tolist() == [number == 0]
    assert len(codes._answers) == MOST_SELECTORS
