"""Which claim holds which device: AS-1 to AS-6."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.quantity import NANO
from reconciler.api.objects.semantics import CONSUMABLE_CAPACITY, GATES, Semantics
from reconciler.state.devices.ledger import DeviceState, Holder, Ledger, Share
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


def test_a_share_id_makes_a_share():
    """AS-1.2: with or without consumed capacity."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(share("s", "A", mem="1Gi"), share("t", "B")))
    assert alone(ledger, A) == alone(ledger, B) == []
    assert ledger.state(A).consumed == {"mem": 2**30 * NANO}
    assert ledger.state(B).consumed == {}
    assert ledger.state(A).holders == ledger.state(B).holders == [ANNE]


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


RESULTS = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.sampled_from("pq"),
        st.sampled_from(["", "s", "s", "t"]),
        st.dictionaries(st.sampled_from(["mem", "d/mem"]), st.integers(0, 2), min_size=1),
    ),
    max_size=4,
)
STEPS = st.lists(st.tuples(st.sampled_from([ANNE, BERT]), st.none() | RESULTS), max_size=8)
Held = tuple[dict[Holder, int], dict[Share, dict[str, int]]]
"""Who holds a device exclusively, how often, and who has which shares and consumes what by each"""


@given(st.booleans(), STEPS)
def test_any_history_leaves_what_the_last_allocations_hold(
    sharing: bool, steps: list[tuple[Holder, list[Any] | None]]
):
    """A slow twin adds up what each claim holds."""
    ledger, last = Ledger(NEW if sharing else WITHOUT_SHARES), dict[Holder, list[Any]]()
    for holder, results in steps:
        before = held_by(last, sharing)
        if results is None:
            changed = ledger.release(holder.uid)
            last.pop(holder, None)
        else:
            changed = ledger.hold(holder, allocation(*(result(*one) for one in results)))
            last[holder] = results
        now = held_by(last, sharing)
        assert changed >= {device for device in {*before, *now} if before.get(device) != now.get(device)}
    expected = held_by(last, sharing)
    assert {device: as_held(ledger.state(device)) for device in ledger.devices()} == expected
    for pool in "pq":
        names = {device.device for device in expected if device.pool == pool}
        assert set(ledger.held_in(("d", pool))) == names


def result(device: str, pool: str, id_: str, consumed: Mapping[str, int]) -> Object:
    shared: Object = {"shareID": id_} if id_ else {}
    amounts = {key: str(amount) for key, amount in consumed.items()}
    return hold(device, pool=pool, consumedCapacity=amounts, **shared)


def as_held(state: DeviceState) -> Held:
    return dict(state.alone), {share: dict(consumed) for share, consumed in state.shares.items()}


def held_by(allocations: Mapping[Holder, list[Any]], sharing: bool) -> dict[DeviceID, Held]:
    found: dict[DeviceID, Held] = {}
    for holder, results in allocations.items():
        for device, pool, id_, consumed in results:
            alone, shares = found.setdefault(DeviceID("d", pool, device), ({}, {}))
            if id_ and sharing:
                total = shares.setdefault(Share(holder, id_), {})
                for key, amount in consumed.items():
                    total[key] = total.get(key, 0) + amount * NANO
            else:
                alone[holder] = alone.get(holder, 0) + 1
    return found


def test_two_results_with_one_share_id_consume_twice():
    """The server does not compare share ids, so both consume."""
    ledger = Ledger(NEW)
    ledger.hold(ANNE, allocation(share("s", mem="1"), share("s", mem="2")))
    assert ledger.state(A).consumed == {"mem": 3 * NANO}
    assert ledger.release(ANNE.uid) == {A}
    assert list(ledger.devices()) == []


def test_an_empty_allocation_is_known_and_holds_nothing():
    """T38: a claim without requests."""
    ledger = Ledger(NEW)
    assert ledger.hold(ANNE, Allocation()) == set()
    assert ANNE.uid in ledger
    assert ledger.release(ANNE.uid) == set()
