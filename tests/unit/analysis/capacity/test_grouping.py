"""What namespaces hold, against a count device by device; and what is followed against a fresh look."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.analysis.capacity.use import NamespaceHoldings, PendingClaims, groups_of
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.state.store import Store
from tests.tools.builders import Object, device, node, partitioned, resource_slice, store
from tests.tools.examples import examples

SHARED = [device(f"nic-{at}", allowMultipleAllocations=True) for at in range(2)]
FLEET = [
    *(node(f"n{at}", rack=f"r{at // 2}") for at in range(3)),
    *(one for at in range(3) for one in partitioned(f"n{at}") if one["kind"] != "Node"),
    resource_slice("nics", SHARED, driver="nic", pool="nics", allNodes=True),
]
STEPS = st.lists(st.tuples(st.integers(0, 13), st.sampled_from("abc"), st.booleans()), max_size=12)


def plan(state: Store, row: int, namespace: str) -> Plan:
    fleet = state.snapshot().fleet
    one = fleet.id_of(row)
    result: Object = {"request": "r", "driver": one.driver, "pool": one.pool, "device": one.device}
    if fleet.shared[row]:
        result["shareID"] = f"{row}-{namespace}"
    allocation = Allocation.model_validate({"devices": {"results": [result]}})
    name = f"{namespace}-{row}"
    return Plan(ObjectKey(namespace, name), name, "1", "n", allocation)


@examples(60)
@given(STEPS)
def test_namespaces_are_counted_device_by_device(steps: list[tuple[int, str, bool]]):
    """Devices are held, some by several claims, and freed again."""
    state, followed = store(*FLEET), NamespaceHoldings()
    plans: dict[tuple[int, str], Plan] = {}
    waits = {"c": PendingClaims()}
    waits["c"].add("2026-01-01T00:00:00Z")
    for row, namespace, look in steps:
        if (known := plans.pop((row, namespace), None)) is not None:
            state.forget(known)
        else:
            plans[row, namespace] = made = plan(state, row, namespace)
            state.assume(made)
        if look:
            followed.look(state.snapshot(), waits)
    found = followed.look(state.snapshot(), waits)
    assert found == NamespaceHoldings().look(state.snapshot(), waits)
    assert {one.namespace: (one.held, round(one.use, 9)) for one in found} == {
        name: (held, round(float(use), 9))
        for name in "abc"
        for held, use in [expected(state, name)]
        if held or name in waits
    }
    assert [(one.pending, one.oldest) for one in found if one.pending] == [(1, "2026-01-01T00:00:00Z")]


def expected(state: Store, namespace: str) -> tuple[int, Fraction]:
    """Devices, and their share of five physical devices: three GPUs with two slices each, and two NICs."""
    held, use = 0, Fraction()
    fleet = state.snapshot().fleet
    for row in range(fleet.size):
        one = fleet.id_of(row)
        if any(holder.claim.namespace == namespace for holder in state.holders(one)):
            held += 1
            use += Fraction(1, 2) if one.device in ("left", "right", "right-too") else 1
    return held, use / 5


def test_the_use_of_all_namespaces_is_that_of_the_fleet():
    state = store(*FLEET)
    for row, namespace in ((1, "a"), (2, "b"), (4, "b")):
        state.assume(plan(state, row, namespace))
    snapshot = state.snapshot()
    found = measure(fleet_layout(snapshot.topology), snapshot.occupancy, Solver())
    for by in ("driver", "pool", "node", "model", "label=rack"):
        of_lines = sum(line.use * line.physical for line in lines(found, by))
        physical = sum(line.physical for line in lines(found, by))
        namespaces = NamespaceHoldings().look(snapshot, {})
        assert sum(one.use for one in namespaces) == pytest.approx(of_lines / physical), by
        assert sum(line.devices for line in lines(found, by)) == snapshot.fleet.size


def test_devices_without_a_label_are_in_a_group_without_a_name():
    groups = groups_of("label=rack", store(*FLEET).snapshot().topology)
    assert groups.names == ("", "r0", "r1")
    assert [int((groups.of == at).sum()) for at in range(3)] == [2, 8, 4]
