"""Changes in, and what they touch: claims that come, go and come again, plans, what is refused."""

import pytest

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.state.delta import NOTHING, Delta
from reconciler.state.devices.occupancy.ledger import Holder
from reconciler.state.store import Store
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

C = ObjectKey("default", "c")
A, B = DeviceID("d", "p", "A"), DeviceID("d", "p", "B")
P = PoolID("d", "p")
SLICE = resource_slice("s", devices("A", "B"), nodeName="n")


def fleet(*more: Object) -> Store:
    return store(node("n"), device_class("any"), SLICE, *more)


def seen(raw: Object, *, version: int = 1, uid: str = "u") -> Changed:
    """News of a claim."""
    raw["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return Changed("ResourceClaim", typed(raw))


def plan(device: str = "A", *, uid: str = "u") -> Plan:
    allocation = Allocation.model_validate({"devices": {"results": [hold(device)]}})
    return Plan(C, uid, "1", "n", allocation)


def holders(picture: Store, device: DeviceID = A) -> list[str]:
    return [holder.uid for holder in picture.holders(device)]


def claims(*names: str) -> Delta:
    return Delta(claims=frozenset(ObjectKey("default", name) for name in names))


def freed(*pools: PoolID) -> Delta:
    return Delta(freed=frozenset(pools))


def regarding(*devices: str) -> Delta:
    """Devices that are held by others than before."""
    return Delta(devices=frozenset(DeviceID(*P, device) for device in devices))


# -- claims


def test_an_allocation_is_held_until_it_is_taken_back():
    picture = fleet()
    assert picture.apply(seen(held("c", hold("A")))) == claims("c") | regarding("A")
    assert picture.holders(A) == [Holder("u", C)]
    assert picture.apply(seen(claim("c"), version=2)) == claims("c") | freed(P) | regarding("A")
    assert picture.holders(A) == []


def test_an_allocation_is_held_until_its_claim_is_gone():
    """AS-3: whatever else becomes of the claim."""
    picture = fleet()
    picture.apply(seen(held("c", hold("A"))))
    dying = held("c", hold("A"))
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert picture.apply(seen(dying, version=2)) == claims("c")
    assert holders(picture) == ["u"]
    assert picture.apply(Removed("ResourceClaim", C)) == claims("c") | freed(P) | regarding("A")
    assert holders(picture) == []
    assert picture.apply(Removed("ResourceClaim", C)) == NOTHING


def test_older_news_of_a_claim_is_ignored():
    picture = fleet()
    picture.apply(seen(held("c", hold("A")), version=10))
    assert picture.apply(seen(claim("c"), version=9)) == NOTHING
    assert holders(picture) == ["u"]
    assert picture.claims[C].metadata.resource_version == "10"


def test_versions_are_numbers_not_texts():
    picture = fleet()
    picture.apply(seen(held("c", hold("A")), version=9))
    picture.apply(seen(claim("c"), version=10))
    assert holders(picture) == []


def test_a_claim_made_anew_under_its_name_does_not_inherit():
    picture = fleet()
    picture.apply(seen(held("c", hold("A")), version=10))
    assert picture.apply(seen(claim("c"), version=11, uid="v")) == claims("c") | freed(P) | regarding("A")
    assert holders(picture) == []
    picture.apply(seen(held("c", hold("B")), version=12, uid="v"))
    assert holders(picture, B) == ["v"]


def test_a_device_that_somebody_else_holds_too_is_not_freed():
    picture = fleet(held("other", hold("A")))
    picture.apply(seen(held("c", hold("A"))))
    assert holders(picture) == ["uid-other", "u"]
    assert picture.apply(Removed("ResourceClaim", C)) == claims("c") | regarding("A")
    assert holders(picture) == ["uid-other"]


def test_claims_may_hold_what_nobody_publishes():
    picture = fleet(held("c", hold("A", driver="nobody")))
    assert picture.snapshot().fleet.size == 2
    assert picture.holders(DeviceID("nobody", "p", "A")) == [Holder("uid-c", C)]


# -- plans


def test_a_plan_counts_before_it_is_written():
    picture = fleet(claim("c"))
    picture.apply(seen(claim("c")))
    before = picture.snapshot()
    picture.assume(plan())
    assert holders(picture) == ["u"]
    assert picture.assumed("u") == plan()
    assert picture.snapshot().occupancy.held.tolist() == [True, False]
    assert before.occupancy.held.tolist() == [False, False]


def test_older_and_equal_news_do_not_undo_a_plan():
    """The write may be under way."""
    picture = fleet()
    picture.apply(seen(claim("c"), version=5))
    picture.assume(plan())
    picture.apply(seen(claim("c"), version=4))
    picture.apply(seen(claim("c"), version=6))
    assert holders(picture) == ["u"]


def test_the_allocation_that_is_seen_takes_the_place_of_the_plan():
    picture = fleet()
    picture.apply(seen(claim("c")))
    picture.assume(plan("A"))
    assert picture.apply(seen(held("c", hold("B")), version=2)) == claims("c") | freed(P) | regarding(
        "A", "B"
    )
    assert (holders(picture, A), holders(picture, B)) == ([], ["u"])
    assert picture.assumed("u") is None
    assert picture.forget(plan("A")) == NOTHING
    assert picture.apply(seen(claim("c"), version=3)) == claims("c") | freed(P) | regarding("B")
    assert holders(picture, B) == []


def test_a_plan_that_is_forgotten_frees_its_devices():
    picture = fleet()
    picture.apply(seen(claim("c")))
    picture.assume(plan())
    assert picture.forget(plan()) == freed(P) | regarding("A")
    assert holders(picture) == []
    assert picture.forget(plan()) == NOTHING


def test_a_later_plan_is_not_forgotten_with_an_earlier_one():
    picture = fleet()
    picture.apply(seen(claim("c")))
    picture.assume(plan("A"))
    picture.assume(plan("B"))
    assert (holders(picture, A), holders(picture, B)) == ([], ["u"])
    assert picture.forget(plan("A")) == NOTHING
    assert holders(picture, B) == ["u"]


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(Removed("ResourceClaim", C), id="gone"),
        pytest.param(seen(claim("c"), version=9, uid="v"), id="made anew"),
        pytest.param(Replaced("ResourceClaim", (), ()), id="not listed"),
    ],
)
def test_the_plan_of_a_claim_that_is_gone_counts_no_more(news: Changed | Removed | Replaced):
    picture = fleet()
    picture.apply(seen(claim("c")))
    picture.assume(plan())
    assert picture.apply(news).freed == frozenset([P])
    assert picture.assumed("u") is None
    assert holders(picture) == []


# -- what cannot be read


def test_what_a_claim_holds_stays_held_when_its_newest_version_cannot_be_read():
    picture = fleet()
    picture.apply(seen(held("c", hold("A"))))
    assert picture.apply(Refused("ResourceClaim", C, "spec: must be an object")) == NOTHING
    assert holders(picture) == ["u"]
    assert picture.refused == {("ResourceClaim", C): "spec: must be an object"}
    picture.apply(seen(claim("c"), version=2))
    assert picture.refused == {}
    assert holders(picture) == []


def test_a_server_that_was_set_back_is_believed_although_its_versions_are_older():
    """Restored from a backup, it knows nothing of an allocation that was made since."""
    picture = fleet()
    picture.apply(seen(held("c", hold("A")), version=100))
    old = seen(claim("c"), version=5)
    assert picture.apply(old) == NOTHING
    picture.apply(Replaced("ResourceClaim", (old.object,), (), afresh=True))
    assert holders(picture) == []
    picture.apply(seen(held("c", hold("A")), version=6))
    assert holders(picture) == ["u"]


def test_a_slice_that_cannot_be_read_is_not_there():
    picture = fleet()
    key = ObjectKey("", "s")
    assert picture.apply(Refused("ResourceSlice", key, "why")) == Delta(supply=True)
    assert picture.snapshot().fleet.size == 0
    assert picture.apply(Changed("ResourceSlice", typed(SLICE))) == Delta(supply=True)
    assert picture.refused == {}
    assert picture.snapshot().fleet.size == 2


def test_a_listing_settles_what_was_refused():
    picture = fleet()
    picture.apply(Refused("Node", ObjectKey("", "x"), "why"))
    picture.apply(Refused("ResourceSlice", ObjectKey("", "x"), "why"))
    refused = Refused("Node", ObjectKey("", "y"), "why not")
    picture.apply(Replaced("Node", (), (refused,)))
    assert set(picture.refused) == {("ResourceSlice", ObjectKey("", "x")), ("Node", ObjectKey("", "y"))}


# -- listings, and what changes touch


def test_what_is_not_listed_is_gone():
    picture = fleet(held("a", hold("A")), held("b", hold("B")))
    kept = typed(held("b", hold("B")))
    assert picture.apply(Replaced("ResourceClaim", (kept,), ())) == claims("a", "b") | freed(P) | regarding(
        "A"
    )
    assert set(picture.claims) == {ObjectKey("default", "b")}
    assert holders(picture) == []


def test_a_listing_touches_claims_of_other_versions_alone():
    """Of ten thousand claims in a listing a few have changed."""
    picture = fleet()
    same, changed = seen(held("a", hold("A")), uid="a"), seen(claim("b"), uid="b")
    for news in (same, changed):
        picture.apply(news)
    newer = seen(held("b", hold("B")), version=2, uid="b")
    listing = Replaced("ResourceClaim", (same.object, newer.object), ())
    assert picture.apply(listing) == claims("b") | regarding("B")
    assert picture.apply(listing) == NOTHING
    assert (holders(picture, A), holders(picture, B)) == (["a"], ["b"])


def test_a_listing_mends_a_claim_that_could_not_be_read():
    picture = fleet()
    news = seen(claim("c"))
    picture.apply(news)
    picture.apply(Refused("ResourceClaim", C, "odd"))
    assert picture.apply(Replaced("ResourceClaim", (news.object,), ())) == claims("c")
    assert not picture.refused


@pytest.mark.parametrize("kind", ["ResourceSlice", "DeviceClass", "Node", "DeviceTaintRule", "Pod"])
def test_a_listing_of_nothing_empties_its_kind_only(kind: str):
    rule = taint_rule("r", {}, taint("t"))
    picture = fleet(rule, held("c", hold("A")))
    picture.apply(Changed("Pod", Pod.model_validate({"metadata": {"name": "p", "namespace": "default"}})))
    picture.apply(Replaced(kind, (), ()))
    now = picture.snapshot()
    assert bool(now.fleet.size) == (kind != "ResourceSlice")
    assert bool(now.classes) == (kind != "DeviceClass")
    assert bool(now.topology.nodes) == (kind != "Node")
    assert bool(picture.pods) == (kind != "Pod")
    assert bool((now.fleet.codes["taints"] >= 0).any()) == (kind not in ("DeviceTaintRule", "ResourceSlice"))
    assert holders(picture) == ["uid-c"]


def test_a_relabelled_node_touches_the_supply_and_its_heartbeat_does_not():
    picture = fleet()
    assert picture.apply(Changed("Node", typed(node("n")))) == NOTHING
    assert picture.apply(Changed("Node", typed(node("n", zone="a")))) == Delta(supply=True)
    assert picture.snapshot().topology.nodes["n"].labels == {"zone": "a"}


def test_a_slice_or_class_that_says_the_same_touches_nothing():
    picture = fleet()
    again = {**SLICE, "metadata": {"name": "s", "resourceVersion": "2", "labels": {"a": "b"}}}
    assert picture.apply(Changed("ResourceSlice", typed(again))) == NOTHING
    assert picture.apply(Changed("DeviceClass", typed(device_class("any")))) == NOTHING


def test_a_class_that_changes_touches_itself():
    picture = fleet()
    delta = Delta(classes=frozenset(["any"]))
    assert picture.apply(Changed("DeviceClass", typed(device_class("any", "true")))) == delta
    assert picture.apply(Removed("DeviceClass", ObjectKey("", "any"))) == delta
    assert picture.apply(Removed("DeviceClass", ObjectKey("", "any"))) == NOTHING


def test_a_slice_that_moves_to_another_pool_leaves_the_old_one():
    picture = fleet()
    picture.snapshot()
    moved = resource_slice("s", devices("A"), pool="q", nodeName="n")
    picture.apply(Changed("ResourceSlice", typed(moved)))
    assert [pool.id for pool in picture.snapshot().fleet.pools] == [PoolID("d", "q")]
    assert [source.key.name for source in picture.slices] == ["s"]


def test_claims_are_known_by_namespace_and_name():
    picture = fleet(held("c", hold("A")))
    other = typed(held("c", hold("B")))
    assert isinstance(other, ResourceClaim)
    metadata = other.metadata.model_copy(update={"namespace": "other", "uid": "v"})
    picture.apply(Changed("ResourceClaim", other.model_copy(update={"metadata": metadata})))
    assert set(picture.claims) == {C, ObjectKey("other", "c")}
    assert (holders(picture, A), holders(picture, B)) == (["uid-c"], ["v"])
