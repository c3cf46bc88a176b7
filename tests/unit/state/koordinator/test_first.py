"""The first machine that fits: caching between requests never changes an answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.answer_cache import MOST_FILTERS, ChangeLog, MachineFilters
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.refusals import Unserved
from reconciler.plugins.koordinator.rules import Rules, Semantics
from tests.tools.examples import examples
from tests.tools.koordinator_builders import demand, device, gpu, nic, pod
from tests.tools.koordinator_strategies import PODS, devices, read

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
    (count,) = fleet.counts(demand(selecting))
    assert (count.kind, count.wanted) == ("gpu", 2)
    assert [left for _, left in count.gates] == [3, 2, 1, 1, 1, 1]


def test_old_changes_are_dropped_and_detected():
    log = ChangeLog()
    for number in range(5 * MOST_FILTERS):
        log.note(number)
    assert log.since(0) is None
    assert log.since(log.end) == set()
    assert log.since(log.end - 2) == {5 * MOST_FILTERS - 2, 5 * MOST_FILTERS - 1}


def test_the_number_of_cached_demands_is_bounded():
    questions = MachineFilters()
    first = questions.of("first")
    for number in range(MOST_FILTERS - 1):
        questions.of(number)
        assert questions.of("first") is first
    for number in range(MOST_FILTERS):
        questions.of(("other", number))
    assert questions.of("first") is not first
