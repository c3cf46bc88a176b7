"""Which claim holds which device: AS-1 to AS-6."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.quantity import NANO
from reconciler.api.objects.semantics import CONSUMABLE_CAPACITY, GATES, Semantics
from reconciler.state.devices.occupancy.ledger import Holder, Ledger
from tests.tools.builders import Object, hold

NEW = Semantics()
WITHOUT_SHARES = Semantics(gates=frozenset(GATES) - {CONSUMABLE_CAPACITY})

ANNE = Holder("u-anne", ObjectKey("default", "anne"))
BERT = Holder("u-bert", ObjectKey("default", "bert"))
A, B = DeviceID("d", "p", "A"), DeviceID("d", "p", "B")


def allocation(*results: Object) -> Allocation:
    return Allocation.model_validate({"devices": {"results": list(results)}})


def share(id_: str, device: str = "A", **consumed: str) -> Object:
    return hold(device, shareID=id_, consumedCapacity=consumed)


def alone(ledger: Ledger, device: DeviceID = A) -> list[Holder]:
    return list(ledger.state(device).alone)


def test_a_result_holds_its_device():
    """AS-1.3."""
    ledger = Ledger(NEW)
    assert ledger.hold(ANNE, allocation(hold("A"))) == {A}
    assert alone(ledger) == [ANNE]
    assert list(ledger.devices()) == [A]


def test_administrative_access_holds_nothing():
    """AS-1.1, with a share id too."""
    ledger = Ledger(NEW)
    both = allocation(hold("A", adminAccess=True), {**share("s", "B", mem="1Gi"), "adminAccess": True})
    assert ledger.hold(ANNE, both) == set()
    assert list(ledger.devices()) == []


def test_admin_access_may_be_false_or_unset():
    ledger = Ledger(NEW)
    assert ledger.hold(ANNE, allocation(hold("A", adminAccess=False))) == {A}


def test_a_share_id_makes_a_share():
    """AS-1.2: with or without consumed capacity."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(share("s", "A", mem="1Gi"), share("t", "B")))
    assert alone(ledger, A) == alone(ledger, B) == []
    assert ledger.state(A).consumed == {"mem": 2**30 * NANO}
    assert ledger.state(B).consumed == {}
    assert ledger.state(A).holders == ledger.state(B).holders == [ANNE]


def test_consumed_capacity_without_a_share_id_is_exclusive():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A", consumedCapacity={"mem": "1Gi"}), hold("B", shareID="")))
    assert (alone(ledger, A), alone(ledger, B)) == ([ANNE], [ANNE])


def test_without_consumable_capacity_shares_are_exclusive():
    """AS-2."""
    ledger = Ledger(WITHOUT_SHARES)
    ledger.hold(ANNE, allocation(share("s", mem="1Gi")))
    assert alone(ledger) == [ANNE]
    assert ledger.state(A).consumed == {}


def test_shares_are_added_by_key_as_written():
    """AS-5: `mem` and `d/mem` are two keys."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(share("s", mem="1"), share("t", mem="2", **{"d/mem": "4"})))
    ledger.hold(BERT, allocation(share("s", mem="500m")))
    assert ledger.state(A).consumed == {"mem": 3_500_000_000, "d/mem": 4 * NANO}
    ledger.release(ANNE.uid)
    assert ledger.state(A).consumed == {"mem": 500_000_000}
    ledger.release(BERT.uid)
    assert list(ledger.devices()) == []


def test_two_results_with_one_share_id_consume_twice():
    """The server does not compare share ids, so both consume."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(share("s", mem="1"), share("s", mem="2")))
    assert ledger.state(A).consumed == {"mem": 3 * NANO}
    assert ledger.release(ANNE.uid) == {A}
    assert list(ledger.devices()) == []


def test_a_device_allocated_twice_is_free_when_both_claims_release_it():
    """AS-6: a double allocation is counted and reported."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A")))
    ledger.hold(BERT, allocation(hold("A")))
    assert ledger.state(A).holders == [ANNE, BERT]
    assert ledger.release(ANNE.uid) == {A}
    assert alone(ledger) == [BERT]
    assert ledger.release(BERT.uid) == {A}
    assert alone(ledger) == []


def test_one_claim_may_hold_a_device_twice():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A"), hold("A"), share("s")))
    assert ledger.state(A).alone == {ANNE: 2}
    assert ledger.release(ANNE.uid) == {A}
    assert list(ledger.devices()) == []


def test_a_device_may_be_held_alone_and_in_shares_by_others():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A")))
    ledger.hold(BERT, allocation(share("s")))
    assert ledger.state(A).holders == [ANNE, BERT]
    ledger.release(ANNE.uid)
    assert alone(ledger) == []
    assert ledger.state(A).holders == [BERT]


def test_a_new_allocation_releases_the_previous_one():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A")))
    assert ledger.hold(ANNE, allocation(hold("B"))) == {A, B}
    assert list(ledger.devices()) == [B]


def test_the_same_allocation_again_changes_nothing():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A"), share("s", "B", mem="1Gi")))
    again = allocation(hold("A"), share("s", "B", mem="1024Mi"))
    assert ledger.hold(ANNE, again) == set()


def test_a_recreated_claim_is_another_holder():
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A")))
    later = Holder("u-anne-2", ANNE.claim)
    ledger.hold(later, allocation(hold("A")))
    ledger.release(ANNE.uid)
    assert alone(ledger) == [later]


@pytest.mark.parametrize("uid", ["nobody", ""])
def test_releasing_an_unknown_claim_changes_nothing(uid: str):
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(hold("A")))
    assert ledger.release(uid) == set()
    assert uid not in ledger
    assert list(ledger.devices()) == [A]
    assert ANNE.uid in ledger


def test_an_empty_allocation_is_known_and_holds_nothing():
    """T38: a claim without requests."""
    ledger = Ledger(NEW)
    assert ledger.hold(ANNE, Allocation()) == set()
    assert ANNE.uid in ledger
    assert ledger.release(ANNE.uid) == set()


RESULTS = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["p", "q"]), st.sampled_from(["", "s", "t"])), max_size=3
)
STEPS = st.lists(st.tuples(st.sampled_from([ANNE, BERT]), st.none() | RESULTS), max_size=8)


@given(STEPS)
def test_any_history_leaves_what_the_last_allocations_hold(steps: list[tuple[Holder, list[Any] | None]]):
    """A slow twin adds up what each claim holds."""
    ledger, last = Ledger(NEW), dict[Holder, list[Any]]()
    for holder, results in steps:
        before = held_by(last)
        if results is None:
            ledger.release(holder.uid)
            last.pop(holder, None)
        else:
            holds = [
                hold(device, pool=pool, **({"shareID": share} if share else {}))
                for device, pool, share in results
            ]
            changed = ledger.hold(holder, allocation(*holds))
            last[holder] = results
            now = held_by(last)
            assert changed >= {device for device in {*before, *now} if before.get(device) != now.get(device)}
    expected = held_by(last)
    assert set(ledger.devices()) == set(expected)
    for device, holders in expected.items():
        assert set(ledger.state(device).holders) == holders
        assert device.device in ledger.held_in(device.pool_id)


def held_by(allocations: Mapping[Holder, list[Any]]) -> dict[DeviceID, set[Holder]]:
    found: dict[DeviceID, set[Holder]] = {}
    for holder, results in allocations.items():
        for device, pool, _ in results:
            found.setdefault(DeviceID("d", pool, device), set()).add(holder)
    return found
