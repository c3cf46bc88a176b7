"""Shared devices that their first holder locks to a mode (AFF-1 to AFF-5), a preview of 1.38."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.semantics import SHARING_AFFINITY
from reconciler.state.devices.affinity import KEPT_TEXT, mode_of
from reconciler.state.devices.encoding.block import Extractor
from reconciler.state.devices.exclusion_modes import sharing_modes
from reconciler.state.trial import load
from tests.tools.allocation_world import NEW, World, decide, on_node, spelled
from tests.tools.builders import (
    DRIVER,
    Object,
    claim,
    device,
    device_class,
    held,
    hold,
    node,
    only,
    opaque,
    request,
    resource_slice,
    snapshot,
    store,
    typed,
)
from tests.tools.examples import examples

ON = replace(NEW, gates=NEW.gates | {SHARING_AFFINITY})
SUBNET = 'object.kind == "NIC" ? object.subnet : ""'
PKEY = 'object.kind == "NIC" && has(object.pkey) ? object.pkey : ""'


def pool(*content: Object, affinity: list[Object] | None = None) -> list[Object]:
    meta = resource_slice("m", slices=2, nodeName="n")
    del meta["spec"]["devices"]
    meta["spec"]["sharingAffinity"] = affinity or [{"cel": {"subnet": SUBNET}}]
    return [resource_slice("s", content, slices=2, nodeName="n"), meta]


def nic(name: str, **fields: Any) -> Object:
    """A NIC of four shares."""
    slots = {"value": "4", "requestPolicy": {"default": "1"}}
    return device(name, {"id": name}, {"slots": slots}, allowMultipleAllocations=True, **fields)


def in_mode(name: str, *subnets: str | None, **more: str) -> Object:
    """A claim with a request for each subnet; None is a request without a configuration."""
    requests = [request(f"r{at}") for at in range(len(subnets))]
    config = [
        {**opaque(DRIVER, kind="NIC", subnet=subnet, **more), "requests": [f"r{at}"]}
        for at, subnet in enumerate(subnets)
        if subnet is not None
    ]
    return claim(name, *requests, config=config)


def configured(*config: Object) -> Object:
    return claim("c", request(), config=config)


def sharing(name: str, device: str, subnet: str) -> Object:
    """A claim that holds a share in a mode."""
    made = held(name, hold(device, shareID=name, consumedCapacity={"slots": "1"}))
    made["status"]["allocation"]["devices"]["config"] = [
        {**opaque(DRIVER, kind="NIC", subnet=subnet), "source": "FromClaim"}
    ]
    return made


NICS = pool(nic("A"), nic("B"))

CASES: dict[str, Any] = {
    "AFF-3 the same mode": (NICS, in_mode("c", "a"), [sharing("h", "A", "a")], ["r0=A"]),
    "AFF-3 another mode": (NICS, in_mode("c", "b"), [sharing("h", "A", "a")], ["r0=B"]),
    "AFF-3 no device is left": (
        NICS, in_mode("c", "c"), [sharing("h", "A", "a"), sharing("i", "B", "b")], None,
    ),
    "AFF-4 holders of two modes": (
        NICS, in_mode("c", "a"), [sharing("h", "A", "a"), sharing("i", "A", "b")], ["r0=B"],
    ),
    "AFF-4 a holder without a mode": (
        NICS, in_mode("c", "a"), [held("h", hold("A", shareID="h"))], ["r0=B"],
    ),
    "AFF-5 two requests of one mode": (NICS, in_mode("c", "a", "a"), [], ["r0=A r1=A"]),
    "AFF-5 two requests of two modes": (NICS, in_mode("c", "a", "b"), [], ["r0=A r1=B"]),
    "AFF-2 without a configuration": (NICS, in_mode("c", None), [], None),
    "AFF-2 for another driver": (NICS, configured(opaque("e", kind="NIC", subnet="a")), [], None),
    "AFF-2 of another schema": (NICS, configured(opaque(DRIVER, kind="VF")), [], None),
    "AFF-2 a field is missing": (NICS, configured(opaque(DRIVER, kind="NIC")), [], None),
    "AFF-2 not a text": (NICS, configured(opaque(DRIVER, kind="NIC", subnet=1)), [], None),
    "AFF-2 two texts for one key": (
        NICS, configured(*[opaque(DRIVER, kind="NIC", subnet=one) for one in "ab"]), [], None,
    ),
    "AFF-2 every key is needed": (
        pool(nic("A"), affinity=[{"cel": {"subnet": SUBNET, "pkey": PKEY}}]), in_mode("c", "a"), [], None,
    ),
    "AFF-2 and has a part": (
        pool(nic("A"), affinity=[{"cel": {"subnet": SUBNET, "pkey": PKEY}}]), in_mode("c", "a", pkey="1"), [],
        ["r0=A"],
    ),
    "AFF-1 by selectors": (
        pool(nic("A"), nic("B"), affinity=[{"selector": only("A")[0], "cel": {"subnet": SUBNET}}]),
        in_mode("c", None), [], ["r0=B"],
    ),
    "AFF-1 two entries with one key": (
        pool(nic("A"), affinity=[{"cel": {"k": SUBNET}}, {"selector": only("A")[0], "cel": {"k": PKEY}}]),
        in_mode("c", "a"), [], None,
    ),
    "AFF-1 devices that are not shared": (pool(device("A", {"id": "A"})), in_mode("c", None), [], ["r0=A"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_holders_of_a_device_agree_on_its_mode(case: Any):
    """One case a rule, with and without pruning."""
    slices, wanted, holders, expected = case
    world = World(slices, [wanted], holders, rules=ON)
    assert spelled(on_node(world)) == spelled(on_node(world, pruned=False)) == expected


def test_a_refusal_says_who_locks_a_device_and_why_a_request_has_no_mode():
    """AFF-5."""
    locked = [sharing("h", "A", "a"), sharing("i", "B", "b")]
    refused = decide(World(NICS, [in_mode("c", "c")], locked, rules=ON))
    assert isinstance(refused, Unsatisfied)
    assert refused.reason is Reason.EXCLUDED
    assert (
        "A is locked to subnet=a by default/h (preview); B is locked to subnet=b by default/i (preview)"
        in refused.message
    )
    untold = decide(World(NICS, [in_mode("c", None)], rules=ON))
    assert isinstance(untold, Unsatisfied)
    assert (
        "sharingAffinity subnet: no opaque configuration of the request gives it (preview)" in untold.message
    )
    assert untold.message.endswith("the request needs 1 device")


def test_locks_groups_and_expressions_exclude_together():
    """AFF-5, GRP-3, GRP-11: a device is given only if none of them stands against it."""

    def grouped(name: str, group: str, **fields: Any) -> Object:
        made = nic(name, draws={"cs": {"m": 1}}, **fields)
        made["consumesCounters"][0]["compatibilityGroups"] = [group]
        return made

    no_raw = {"expression": f'device.attributes["{DRIVER}"].id != "R"'}
    raw = device("R", {"id": "R"}, draws={"cs": {"m": 1}})
    parts = [grouped("A", "eth"), grouped("B", "rdma"), grouped("C", "eth", compatibleOnlyWith=no_raw), raw]
    slices = pool(*parts)
    slices[0]["spec"]["sharedCounters"] = [{"name": "cs", "counters": {"m": {"value": "9"}}}]
    of_b = in_mode("c", "a")
    of_b["spec"]["devices"]["requests"] = [request("r0", selectors=only("B"))]
    of_r = claim("c", request("r0", selectors=only("R")))
    holders = [sharing("h", "A", "a"), sharing("i", "C", "b")]
    for wanted, before, expected in [
        (in_mode("c", "b"), holders[:1], ["r0=C"]),  # A is locked to a, and B is of another group
        (in_mode("c", "a", "b"), [], ["r0=A r1=C"]),
        (in_mode("c", "a"), holders, ["r0=A"]),
        (of_b, [], ["r0=B"]),
        (of_b, holders[:1], None),  # of the same mode
        (of_r, holders[:1], ["r0=R"]),
        (of_r, holders, None),
        (in_mode("c", "c"), holders, None),
    ]:
        world = World(slices, [wanted], before, rules=ON)
        assert spelled(on_node(world)) == spelled(on_node(world, pruned=False)) == expected
    refused = decide(World(slices, [in_mode("c", "c")], holders, rules=ON))
    assert isinstance(refused, Unsatisfied)
    assert "A is locked to subnet=a by default/h (preview)" in refused.message
    assert "A is held by default/h with group eth" in refused.message


def test_without_the_gate_modes_do_not_matter():
    """AFF-1."""
    assert spelled(on_node(World(NICS, [in_mode("c", "b")], [sharing("h", "A", "a")]))) == ["r0=A"]


def test_no_device_stays_locked_once_its_pool_has_no_extractors():
    """AFF-1."""
    supply, holder = [node("n"), device_class(), *pool(nic("A"))], sharing("h", "A", "a")
    kept = store(*supply, holder, rules=ON)
    assert [lock.mode for lock in sharing_modes(kept.snapshot())] == ["subnet=a"]
    del supply[-1]["spec"]["sharingAffinity"]
    load(kept, [typed(supply[-1])])
    assert sharing_modes(kept.snapshot()) == sharing_modes(snapshot(*supply, holder, rules=ON)) == []


def test_devices_stay_locked_when_other_pools_change_and_old_modes_are_forgotten():
    """AFF-3."""
    others = [resource_slice("o", [device(one)], pool="q", nodeName="n") for one in ("X", "Y")]
    kept = store(node("n"), device_class(), *pool(nic("A"), nic("B")), others[0], rules=ON)
    for subnet in ("a", "b", "c"):
        load(kept, [typed(sharing("h", "A", subnet)), typed(sharing("i", "B", "c"))])
        kept.snapshot()
    load(kept, [typed(others[1])])
    seen = kept.snapshot()
    assert [lock.mode for lock in sharing_modes(seen)] == ["subnet=c"] * 2
    assert seen.occupancy.locks.values[2:] == [(("subnet", "c"),)]


def twin(holders: dict[str, list[tuple[str, str]]], subnets: tuple[str | None, ...]) -> list[str] | None:
    """The first devices, in order, that the requests of a claim can have: tries them all."""
    for choice in product("ABX", repeat=len(subnets)):
        modes = {name: [mode for _, mode in of] for name, of in holders.items()}
        fine = True
        for name, subnet in zip(choice, subnets, strict=True):
            mode = subnet if name != "X" else "any"
            fine &= mode is not None and {*modes[name]} <= {mode} and len(modes[name]) < 4
            modes[name].append(str(mode))
        if fine:
            return list(choice)
    return None


SUBNETS = st.lists(st.sampled_from(["a", "b", "b", None]), min_size=1, max_size=3).map(tuple)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 4), SUBNETS, st.booleans()), max_size=10))
def test_whatever_comes_and_goes_a_device_has_one_mode(steps: list[tuple[int, Any, bool]]):
    """AFF-1 to AFF-5, against a twin that tries everything, and as if all came anew. X has no mode."""
    selector = only("A")[0]["cel"]["expression"] + " || " + only("B")[0]["cel"]["expression"]
    affinity = [{"selector": {"cel": {"expression": selector}}, "cel": {"subnet": SUBNET}}]
    supply = [node("n"), device_class(), *pool(nic("A"), nic("B"), nic("X"), affinity=affinity)]
    kept, current = store(*supply, rules=ON), dict[str, Object]()
    holders: dict[str, list[tuple[str, str]]] = {"A": [], "B": [], "X": []}
    for at, subnets, republished in steps:
        name = f"c{at}"
        if name in current:
            kept.apply(Removed("ResourceClaim", ObjectKey("default", name)))
            del current[name]
            holders = {one: [hold for hold in of if hold[0] != name] for one, of in holders.items()}
        else:
            wanted = in_mode(name, *subnets)
            pending = typed(wanted)
            assert isinstance(pending, ResourceClaim)
            outcome, expected = allocate([pending], kept.snapshot()), twin(holders, subnets)
            assert isinstance(outcome, Granted) == (expected is not None)
            if isinstance(outcome, Granted) and expected is not None:
                allocation = outcome.plans[0].allocation.to_json()
                assert [r["device"] for r in allocation["devices"]["results"]] == expected
                current[name] = {**wanted, "status": {"allocation": allocation}}
                load(kept, [typed(current[name])])
                for one, subnet in zip(expected, subnets, strict=True):
                    holders[one].append((name, str(subnet) if one != "X" else "any"))
        if republished:
            load(kept, map(typed, supply[2:]))
        modes = {lock.device.device: lock.mode for lock in sharing_modes(kept.snapshot())}
        assert modes == {one: f"subnet={holders[one][0][1]}" for one in "AB" if holders[one]}
        anew = snapshot(*supply, *current.values(), rules=ON)
        assert {lock.device.device: lock.mode for lock in sharing_modes(anew)} == modes


def test_long_configurations_are_not_kept_and_give_the_same_mode():
    """The cache of modes is bounded in characters: configurations may have 640 KiB."""
    extractors = (Extractor(None, (("subnet", "object.subnet"),)),)
    short, long = ('{"subnet": "a"}',), ('{"subnet": "a", "more": "%s"}' % ("x" * KEPT_TEXT),)
    assert mode_of(extractors, long) == mode_of(extractors, short) == (("subnet", "a"),)
    assert mode_of(extractors, short) is mode_of(extractors, short)
    assert mode_of(extractors, long) is not mode_of(extractors, long)
