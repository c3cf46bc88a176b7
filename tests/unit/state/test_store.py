"""Changes of the store and their deltas: claims, plans, refused objects, lists."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.ledger import Holder
from reconciler.state.store import NOTHING, Delta, Store
from tests.tools.builders import (
    Object,
    claim,
    device_class,
    devices,
    held,
    hold,
    node,
    resource_slice,
    store,
    taint,
    taint_rule,
    typed,
)
from tests.tools.examples import examples
from tests.tools.store_objects import RULES
from tests.tools.store_picture import picture
from tests.tools.store_world import BEGINNING, CLAIM_EVENTS, EVENTS, Event, Look, World, happen, run

C = ObjectKey("default", "c")
A, B = DeviceID("d", "p", "A"), DeviceID("d", "p", "B")
P = PoolID("d", "p")
SLICE = resource_slice("s", devices("A", "B"), nodeName="n")


def fleet(*more: Object) -> Store:
    return store(node("n"), device_class("any"), SLICE, *more)


def seen(raw: Object, *, version: int = 1, uid: str = "u") -> Changed:
    """A change of a claim."""
    raw["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return Changed("ResourceClaim", typed(raw))


@pytest.mark.parametrize("part", ["slices", "taint_rules", "classes", "nodes"])
def test_what_another_thread_reads_of_the_supply_stays_as_it_is(part: str):
    rule = taint_rule("r", {"driver": "d"}, taint("k"))
    state = fleet(rule)
    read = getattr(state.supply, part)
    one = next(iter(read.values() if part in ("classes", "nodes") else read))
    for raw in (
        taint_rule("other", {"driver": "d"}, taint("k")), node("other"), device_class("other"),
        resource_slice("t", devices("C"), nodeName="n"),
    ):  # fmt: skip
        thing = typed(raw)
        state.apply(Changed(type(thing).__name__, thing))
    assert len(getattr(state.supply, part)) == 2
    assert list(read.values() if part in ("classes", "nodes") else read) == [one]


def plan() -> Plan:
    allocation = Allocation.model_validate({"devices": {"results": [hold("A")]}})
    return Plan(C, "u", "1", "n", allocation)


def holders(state: Store, device: DeviceID = A) -> list[str]:
    return [holder.uid for holder in state.holders(device)]


def claims(*names: str) -> Delta:
    return Delta(claims=frozenset(ObjectKey("default", name) for name in names))


def allocated(*names: str) -> Delta:
    return replace(claims(*names), allocated=claims(*names).claims)


def freed(*pools: PoolID) -> Delta:
    return Delta(freed=frozenset(pools))


def holders_changed(*devices: str) -> Delta:
    """Devices whose holders changed."""
    return Delta(devices=frozenset(DeviceID(*P, device) for device in devices))


# -- claims


def test_an_allocation_is_held_until_it_is_removed():
    state = fleet()
    assert state.apply(seen(held("c", hold("A")))) == allocated("c") | holders_changed("A")
    assert state.holders(A) == [Holder("u", C)]
    assert state.apply(seen(claim("c"), version=2)) == claims("c") | freed(P) | holders_changed("A")
    assert state.holders(A) == []


def test_an_allocation_is_held_until_its_claim_is_deleted():
    """AS-3: also while the claim is being deleted."""
    state = fleet()
    state.apply(seen(held("c", hold("A"))))
    dying = held("c", hold("A"))
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert state.apply(seen(dying, version=2)) == claims("c")
    assert holders(state) == ["u"]
    assert state.apply(Removed("ResourceClaim", C)) == claims("c") | freed(P) | holders_changed("A")
    assert holders(state) == []
    assert state.apply(Removed("ResourceClaim", C)) == NOTHING


def test_an_older_version_of_a_claim_is_ignored():
    state = fleet()
    state.apply(seen(held("c", hold("A")), version=10))
    assert state.apply(seen(claim("c"), version=9)) == NOTHING
    assert holders(state) == ["u"]
    assert state.claims[C].metadata.resource_version == "10"


def test_a_recreated_claim_does_not_inherit_holds():
    state = fleet()
    state.apply(seen(held("c", hold("A")), version=10))
    assert state.apply(seen(claim("c"), version=11, uid="v")) == claims("c") | freed(P) | holders_changed("A")
    assert holders(state) == []
    state.apply(seen(held("c", hold("B")), version=12, uid="v"))
    assert holders(state, B) == ["v"]


# -- plans


# -- objects that cannot be parsed


def test_a_claim_keeps_its_devices_when_its_newest_version_cannot_be_parsed():
    state = fleet()
    state.apply(seen(held("c", hold("A"))))
    assert state.apply(Refused("ResourceClaim", C, "spec: must be an object")) == NOTHING
    assert holders(state) == ["u"]
    assert state.refused == {("ResourceClaim", C): "spec: must be an object"}
    state.apply(seen(claim("c"), version=2))
    assert state.refused == {}
    assert holders(state) == []


def test_a_restored_server_is_trusted_although_its_versions_are_older():
    """Restored from a backup, it lacks allocations that were written later."""
    state = fleet()
    state.apply(seen(held("c", hold("A")), version=100))
    old = seen(claim("c"), version=5)
    assert state.apply(old) == NOTHING
    state.apply(Replaced("ResourceClaim", (old.object,), (), afresh=True))
    assert holders(state) == []
    state.apply(seen(held("c", hold("A")), version=6))
    assert holders(state) == ["u"]


# -- lists and deltas


def test_objects_that_are_not_listed_are_dropped():
    state = fleet(held("a", hold("A")), held("b", hold("B")))
    kept = typed(held("b", hold("B")))
    found = state.apply(Replaced("ResourceClaim", (kept,), ()))
    assert found == claims("a", "b") | freed(P) | holders_changed("A")
    assert set(state.claims) == {ObjectKey("default", "b")}
    assert holders(state) == []


@pytest.mark.parametrize("kind", ["ResourceSlice", "DeviceClass", "Node", "DeviceTaintRule", "Pod"])
def test_an_empty_list_drops_only_its_kind(kind: str):
    rule = taint_rule("r", {}, taint("t"))
    state = fleet(rule, held("c", hold("A")))
    state.apply(Changed("Pod", Pod.model_validate({"metadata": {"name": "p", "namespace": "default"}})))
    state.apply(Replaced(kind, (), ()))
    now = state.snapshot()
    assert bool(now.fleet.size) == (kind != "ResourceSlice")
    assert bool(now.classes) == (kind != "DeviceClass")
    assert bool(now.topology.nodes) == (kind != "Node")
    assert bool(state.pods) == (kind != "Pod")
    assert bool((now.fleet.codes["taints"] >= 0).any()) == (kind not in ("DeviceTaintRule", "ResourceSlice"))
    assert holders(state) == ["uid-c"]


def test_labels_of_a_node_affect_the_supply_and_heartbeats_do_not():
    state = fleet()
    assert state.apply(Changed("Node", typed(node("n")))) == NOTHING
    assert state.apply(Changed("Node", typed(node("n", zone="a")))) == Delta(supply=True)
    assert state.snapshot().topology.nodes["n"].labels == {"zone": "a"}


def test_an_unchanged_slice_or_class_affects_nothing():
    state = fleet()
    again = {**SLICE, "metadata": {"name": "s", "resourceVersion": "2", "labels": {"a": "b"}}}
    assert state.apply(Changed("ResourceSlice", typed(again))) == NOTHING
    assert state.apply(Changed("DeviceClass", typed(device_class("any")))) == NOTHING


def test_a_slice_that_moves_to_another_pool_leaves_the_old_one():
    state = fleet()
    state.snapshot()
    moved = resource_slice("s", devices("A"), pool="q", nodeName="n")
    state.apply(Changed("ResourceSlice", typed(moved)))
    assert [pool.id for pool in state.snapshot().fleet.pools] == [PoolID("d", "q")]
    assert [source.key.name for source in state.supply.slices] == ["s"]


@examples(50)
@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=20))
def test_any_sequence_of_events_equals_a_fresh_list(rules: Semantics, events: list[Event]):
    run(rules, [*BEGINNING, Look(keep=False), *events])


@examples(50)
@given(st.sampled_from(RULES), st.lists(CLAIM_EVENTS, min_size=3, max_size=20))
def test_holding_and_releasing_step_by_step_equals_holding_at_once(rules: Semantics, events: list[Event]):
    run(rules, [*BEGINNING, Look(keep=False), *events])


@examples(60)
@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=12), st.lists(st.integers(0, 4), max_size=30))
def test_pools_built_ahead_in_steps_equal_pools_built_at_once(
    rules: Semantics, events: list[Event], ahead: list[int]
):
    run(rules, [*BEGINNING, *events], ahead)


@examples(40)
@given(st.lists(EVENTS, max_size=8))
def test_an_empty_store_can_be_filled_in_any_order(events: list[Event]):
    run(Semantics(), events)


@examples(40)
@given(st.lists(EVENTS, max_size=12))
def test_a_snapshot_never_changes(events: list[Event]):
    """Whether it was read or not, later changes do not affect it."""
    store, world = Store(Semantics()), World()
    said = []
    for event in [*BEGINNING, *events]:
        happen(store, world, event, [])
        if isinstance(event, Look) and event.keep:
            seen = store.snapshot()
            said.append((seen, deepcopy(picture(seen))))
    store.snapshot()
    assert [picture(seen) for seen, _ in said] == [then for _, then in said]


def test_a_list_replaces_refused_objects():
    state = fleet()
    state.apply(Refused("Node", ObjectKey("", "x"), "why"))
    state.apply(Refused("ResourceSlice", ObjectKey("", "x"), "why"))
    refused = Refused("Node", ObjectKey("", "y"), "why not")
    state.apply(Replaced("Node", (), (refused,)))
    assert set(state.refused) == {("ResourceSlice", ObjectKey("", "x")), ("Node", ObjectKey("", "y"))}


def test_a_forgotten_plan_frees_its_devices():
    state = fleet()
    state.apply(seen(claim("c")))
    state.assume(plan())
    assert state.forget(plan()) == freed(P) | holders_changed("A")
    assert holders(state) == []
    assert state.forget(plan()) == NOTHING
