"""Counters of which a request says how much is drawn (SCC-1 to SCC-4), a preview of 1.38."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.changes import Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.quantity import NANO
from reconciler.api.objects.semantics import SHARED_CAPACITY
from reconciler.state.trial import load
from tests.tools.allocation_world import NEW, World, answer, decide, on_node, spelled
from tests.tools.builders import (
    DRIVER,
    Object,
    amount,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    node,
    only,
    request,
    resource_slice,
    snapshot,
    store,
    typed,
)
from tests.tools.examples import examples
from tests.tools.exhaustive_search import TooLarge, exhaustive
from tests.tools.naive_rules import exact

ON = replace(NEW, gates=NEW.gates | {SHARED_CAPACITY})
POLICY: dict[str, Any] = {"default": "1G", "validRange": {"min": "1G", "max": "60G", "step": "1G"}}


def vf(name: str, counter: str = "bandwidth", of: str = f"{DRIVER}/bandwidth", **fields: Any) -> Object:
    """A virtual function that draws what its request says of the bandwidth of its port."""
    draws = [{"counterSet": "port", "counters": {counter: {"valueFrom": {"capacityName": of}}}}]
    return device(name, {"id": name}, consumesCounters=draws, **fields)


def port(*content: Object, bandwidth: Object | None = None) -> list[Object]:
    """A port of 100G and its virtual functions."""
    counters = counter_slice("t", {"port": {"bandwidth": 0}}, slices=2, nodeName="n")
    entry = bandwidth or amount("100G", **POLICY)
    counters["spec"]["sharedCounters"][0]["counters"]["bandwidth"] = entry
    return [resource_slice("s", content, slices=2, nodeName="n"), counters]


def wants(name: str, much: str | None, **fields: Any) -> Object:
    capacity: Any = {"capacity": {f"{DRIVER}/bandwidth": much}} if much else {}
    return request(name, **capacity, **fields)


def drew(device: str, much: str, **fields: Any) -> Object:
    """A result that says what its device draws."""
    counters = [{"counterSet": "port", "counters": {"bandwidth": much}}]
    return hold(device, consumedCounters=counters, **fields)


VFS = port(vf("A"), vf("B"), vf("C"))

CASES = {
    "SCC-1 together they get no more than the port has": (VFS, ["60G", "50G"], (), None),
    "SCC-1 and no less": (VFS, ["60G", "40G"], (), ["r0=A r1=B"]),
    "SCC-1 without a request: the default": (VFS, ["60G", "39G", None], (), ["r0=A r1=B r2=C"]),
    "SCC-1 the default counts": (VFS, ["60G", "40G", None], (), None),
    "SCC-1 rounded up to a step": (VFS, ["59500M", "40500M"], (), None),
    "SCC-1 more than the policy allows": (VFS, ["61G"], (), None),
    "SCC-1 without a policy: what is asked for": (
        port(vf("A"), vf("B"), bandwidth=amount("100G")), ["99500M", "500M"], (), ["r0=A r1=B"],
    ),
    "SCC-1 without a policy and a request: all of it": (
        port(vf("A"), vf("B"), bandwidth=amount("100G")), [None, "1"], (), None,
    ),
    "SCC-1 more than there is": (port(vf("A"), bandwidth=amount("100G")), ["101G"], (), None),
    "SCC-1 a key without a domain is the driver's": (port(vf("A", of="bandwidth")), ["1G"], (), ["r0=A"]),
    "SCC-2 every share draws": (
        port(vf("A", allowMultipleAllocations=True)), ["60G", "41G"], (), None,
    ),
    "SCC-2 as much as it says": (
        port(vf("A", allowMultipleAllocations=True)), ["60G", "40G"], (), ["r0=A r1=A"],
    ),
    "SCC-3 what is held counts as its results say": (VFS, ["41G"], [drew("A", "60G")], None),
    "SCC-3 whatever the slices say now": (VFS, ["10G"], [drew("A", "90G")], ["r0=B"]),
    "SCC-3 also of devices that are gone": (VFS, ["11G"], [drew("gone", "90G")], None),
    "SCC-3 and of further shares": (
        port(vf("A", allowMultipleAllocations=True)), ["21G"],
        [drew("A", "40G", shareID="1"), drew("A", "40G", shareID="2")], None,
    ),
    "SCC-3 a hold that says nothing counts as all": (VFS, ["1G"], [hold("A")], None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_requests_draw_from_counters(case: Any):
    """One case a rule; each with and without pruning, and as a search that tries everything."""
    slices, wanted, holds, expected = case
    made = claim("c", *[wants(f"r{at}", much) for at, much in enumerate(wanted)])
    world = World(slices, [made], [held("h", *holds)] if holds else (), rules=ON)
    assert spelled(on_node(world)) == spelled(on_node(world, pruned=False)) == expected
    assert (exhaustive(world) is not None) == (expected is not None)


def test_a_hold_that_says_nothing_leaves_other_counters_as_they_are():
    """SCC-3, CTR-6: it counts as all of its counter, which is not more than there is."""
    slices = port(vf("A"), vf("B"), vf("C"))
    slices[1]["spec"]["sharedCounters"].append({**slices[1]["spec"]["sharedCounters"][0], "name": "other"})
    slices[0]["spec"]["devices"][2]["consumesCounters"][0]["counterSet"] = "other"
    world = World(slices, [claim("c", wants("r0", "100M"))], [held("h", hold("A"))], rules=ON)
    assert spelled(on_node(world)) == ["r0=C"]


def test_the_result_says_what_its_device_draws():
    """SCC-3: also what other devices of the same counters draw in any case."""
    fixed = device("F", {"id": "F"}, draws={"port": {"bandwidth": "5G"}})
    made = claim("c", wants("a", "2500M"), wants("b", None, selectors=only("F")))
    outcome = on_node(World(port(vf("A"), fixed), [made], rules=ON))
    assert isinstance(outcome, NodeGrant)
    results = outcome.plans[0].allocation.to_json()["devices"]["results"]
    found = [r["consumedCounters"] for r in results]
    assert found == [[{"counterSet": "port", "counters": {"bandwidth": much}}] for much in ("3G", "5G")]


def test_a_device_that_names_a_set_twice_is_charged_what_it_draws_in_both():
    """SCC-3: an API server refuses it; without one, neither of both amounts may be forgotten."""
    both = vf("S", allowMultipleAllocations=True)
    both["consumesCounters"].append({"counterSet": "port", "counters": {"bandwidth": amount("5G")}})
    kept = store(node("n"), device_class(), *port(both), rules=ON)

    def asking(name: str, much: str) -> Granted | Unsatisfied:
        wanted = typed(claim(name, wants("r", much)))
        assert isinstance(wanted, ResourceClaim)
        return allocate([wanted], kept.snapshot())

    for name, left in (("c", "85G"), ("d", "75G"), ("e", "65G")):
        outcome = asking(name, "10G")
        assert isinstance(outcome, Granted)
        results = outcome.plans[0].allocation.to_json()["devices"]["results"]
        assert results[0]["consumedCounters"][0]["counters"] == {"bandwidth": "15G"}
        load(kept, [typed(held(name, *results))])
        seen = kept.snapshot()
        assert seen.occupancy.left[0, 0] * Fraction(seen.fleet.set_columns[0].units[0], NANO) == exact(left)
    assert isinstance(asking("f", "60G"), Granted)
    load(kept, [typed(held("f", drew("S", "11G", shareID="f")))])
    assert isinstance(asking("g", "60G"), Unsatisfied)


def test_without_the_gate_the_capacity_is_unknown_and_the_refusal_names_the_gate():
    """SCC-4: a device that no request asks the capacity of is given as before."""
    asked, plain = claim("c", wants("r", "1G")), claim("c", wants("r", None))
    refused = decide(World(VFS, [asked]))
    assert isinstance(refused, Unsatisfied)
    assert refused.reason is Reason.GATE_OFF
    assert "DRASharedConsumableCapacity (preview of 1.38) is off" in refused.message
    granted = decide(World(VFS, [plain]))
    assert isinstance(granted, Granted)
    assert "consumedCounters" not in str(granted.plans[0].allocation.to_json())


@pytest.mark.parametrize(
    ("much", "reason", "words"),
    [
        ("50G", Reason.COUNTERS, "0 fit the remaining counters (preview"),
        ("61G", Reason.NEVER, "0 have enough capacity (preview"),
    ],
)
def test_a_refusal_says_whether_the_counters_or_their_policy_stop_it(much: str, reason: Reason, words: str):
    refused = decide(World(VFS, [claim("c", wants("r", much))], [held("h", drew("A", "60G"))], rules=ON))
    assert isinstance(refused, Unsatisfied)
    assert (refused.reason, words in refused.message) == (reason, True)


AMOUNTS = st.sampled_from(["500m", "1", "1500m", "2", "3", "5", "7"])
POLICIES: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {"default": "1"},
        {"default": "2", "validRange": {"min": "1", "max": "5", "step": "1"}},
        {"default": "500m", "validRange": {"min": "500m"}},
        {"default": "2", "validValues": ["1", "2", "5"]},
    ]
)


@st.composite
def pools(draw: st.DrawFn) -> World:
    """Devices that draw from two sets, in any case or as requests say, and claims that hold some."""
    sets = counter_slice("t", {"g": {"m": 0, "s": 0}, "h": {"m": 0}}, slices=2, nodeName="n")
    for of_set in sets["spec"]["sharedCounters"]:
        for name in of_set["counters"]:
            of_set["counters"][name] = amount(
                draw(st.sampled_from(["4", "6", "7500m"])), **dict(draw(POLICIES))
            )
    content = []
    for name in draw(st.sampled_from(["AB", "ABC", "ABCD"])):
        consumed = []
        for of_set, counters in (("g", "ms"), ("h", "m")):
            drawn: Object = {}
            for counter in counters:
                match draw(st.sampled_from(["none", "fixed", "asked", "asked"])):
                    case "fixed":
                        drawn[counter] = {"value": draw(AMOUNTS)}
                    case "asked":
                        spelling = draw(st.sampled_from([counter, f"{DRIVER}/{counter}"]))
                        drawn[counter] = {"valueFrom": {"capacityName": spelling}}
            if drawn:
                consumed.append({"counterSet": of_set, "counters": drawn})
        fields: Any = {"allowMultipleAllocations": True} if draw(st.booleans()) else {}
        content.append(device(name, {"id": name}, consumesCounters=consumed, **fields))
    holds = []
    for one in content:
        for number in range(draw(st.integers(0, 2 if "allowMultipleAllocations" in one else 1))):
            said = [
                {"counterSet": c["counterSet"], "counters": dict.fromkeys(c["counters"], draw(AMOUNTS))}
                for c in one["consumesCounters"]
            ]
            if draw(st.integers(0, 5)):
                shares: Any = {"shareID": str(number)} if "allowMultipleAllocations" in one else {}
                if draw(st.integers(0, 4)):  # else it was made while the gate was off
                    shares["consumedCounters"] = said
                holds.append(hold(one["name"], **shares))
    made = claim("c", *[draw(_requests(f"r{at}")) for at in range(draw(st.integers(1, 3)))])
    slices = [resource_slice("s", content, slices=2, nodeName="n"), sets]
    return World(slices, [made], [held("h", *holds)] if holds else (), rules=ON)


@st.composite
def _requests(draw: st.DrawFn, name: str) -> Object:
    keys = draw(st.lists(st.sampled_from(["m", "s", f"{DRIVER}/m"]), max_size=2, unique=True))
    capacity: Any = {"capacity": {key: draw(AMOUNTS) for key in keys}} if keys else {}
    if draw(st.integers(0, 3)) == 0:
        return request(name, **capacity, allocationMode="All", selectors=only("A", "B"))
    return request(name, count=draw(st.integers(1, 2)), **capacity)


@examples(60)
@given(pools())
def test_the_answer_is_that_of_trying_everything(world: World):
    """SCC-1 to SCC-3, against a twin that adds fractions and computes everything anew."""
    try:
        expected = exhaustive(world, limit=4_000)
    except TooLarge:
        assume(False)
    assert answer(on_node(world)) == answer(on_node(world, pruned=False)) == expected


def test_ports_with_other_policies_are_other_nodes():
    """SCC-1: of equal ports, only the last one gives so little that two functions fit."""
    slices = []
    for number, least in enumerate(["60G"] * 5 + ["1G"]):
        policy = {**POLICY, "default": least, "validRange": {"min": least}}
        for one in port(vf("A"), vf("B"), bandwidth=amount("100G", **policy)):
            one["metadata"]["name"] += str(number)
            one["spec"]["pool"]["name"] += str(number)
            slices.append({**one, "spec": {**one["spec"], "nodeName": f"n{number}"}})
    nodes = [node(f"n{number}") for number in range(6)]
    granted = decide(World(slices, [claim("c", request("r", 2))], nodes=nodes, rules=ON))
    assert isinstance(granted, Granted)
    assert granted.node == "n5"


def _drawn(claims: list[Object]) -> Fraction:
    """What all results say."""
    results = [r for one in claims for r in one["status"]["allocation"]["devices"]["results"]]
    said = [of_set["counters"] for result in results for of_set in result["consumedCounters"]]
    return sum((exact(counters["bandwidth"]) for counters in said), Fraction(0))


WANTED = st.sampled_from([None, "1G", "9500M", "30G", "60G"])


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 5), WANTED, st.booleans()), max_size=14))
def test_whatever_comes_and_goes_counters_are_charged_what_results_say(steps: list[tuple[int, Any, bool]]):
    """SCC-1, SCC-3: at each step as if everything came anew, and never more than there is."""
    port_of = port(vf("A"), vf("B"), vf("S", allowMultipleAllocations=True))
    supply = [node("n"), device_class(), *port_of]
    kept, current = store(*supply, rules=ON), dict[str, Object]()
    for at, much, republished in steps:
        name = f"c{at}"
        if name in current:
            kept.apply(Removed("ResourceClaim", ObjectKey("default", name)))
            del current[name]
        else:
            wanted = typed(claim(name, wants("r", much)))
            assert isinstance(wanted, ResourceClaim)
            outcome = allocate([wanted], kept.snapshot())
            if isinstance(outcome, Granted):
                results = outcome.plans[0].allocation.to_json()["devices"]["results"]
                current[name] = held(name, *results)
                load(kept, [typed(current[name])])
        if republished:
            load(kept, map(typed, port(vf("A"), vf("new"), vf("S", allowMultipleAllocations=True))))
        seen = kept.snapshot()
        anew = snapshot(*supply, *current.values(), rules=ON)
        unit = Fraction(seen.fleet.set_columns[0].units[0], NANO)
        assert seen.occupancy.left[0, 0] * unit == exact("100G") - _drawn([*current.values()]) >= 0
        assert anew.occupancy.left.tolist() == seen.occupancy.left.tolist()
