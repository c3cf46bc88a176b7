"""Claims of gated pods are known before the pods name them, and whatever the pods say counts for more."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Removed, Replaced
from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.objects.gangs import GANG
from reconciler.control.intake import Intake
from tests.tools.small_fleet import claim, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit, put, remove, taken, typed


def made(name: str, owner: str = "p", entry: str = "t0", **metadata: Any) -> dict[str, Any]:
    """A claim as kube-controller-manager makes it from a template."""
    raw = claim(name, managed=False)
    reference = {
        "apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid of {owner}", "controller": True
    }  # fmt: skip
    raw["metadata"] |= {"annotations": {POD_CLAIM: entry}, "ownerReferences": [reference], **metadata}
    return raw


def naming(name: str, *claims: str) -> dict[str, Any]:
    """A pod whose status names the claims of its templates."""
    statuses = [{"name": f"t{at}", "resourceClaimName": one} for at, one in enumerate(claims)]
    return {**pod(name, templates=("t",) * len(claims)), "status": {"resourceClaimStatuses": statuses}}


def names(picture: Intake, name: str = "p") -> list[str | None]:
    return list(picture.store.pods[key(name)].claim_names().values())


@pytest.mark.parametrize("first", ["pod", "claim"])
async def test_a_made_claim_is_named_whichever_comes_first(first: str):
    raws = [pod("p", templates=("t",)), made("a")]
    picture = intake(*(raws if first == "pod" else reversed(raws)))
    assert names(picture) == ["a"]
    assert picture.early.supposes(key("p"))
    assert set(picture.roster.users(key("a"))) == {key("p")}
    assert set(await taken(picture)) == {pod_unit("p"), claim_unit("a")}


async def test_the_pod_is_requeued_and_supposed_no_more_when_it_names_the_claim():
    picture = intake(pod("p", templates=("t",)), made("a"))
    async with picture.queue.take(), picture.queue.take():
        pass
    put(picture, naming("p", "a"))
    assert not picture.early.supposes(key("p"))
    assert names(picture) == ["a"]
    assert await taken(picture) == [pod_unit("p")]


async def test_what_the_pod_says_counts_for_more():
    picture = intake(pod("p", templates=("t",)), made("a"))
    put(picture, naming("p", "other"))
    assert names(picture) == ["other"]
    put(picture, made("a"))
    assert names(picture) == ["other"]


async def test_each_entry_gets_its_own_claim_and_others_wait():
    picture = intake(pod("p", templates=("t", "t")), made("b", entry="t1"))
    assert names(picture) == [None, "b"]
    put(picture, made("a"))
    assert names(picture) == ["a", "b"]


@pytest.mark.parametrize(
    "other",
    [
        pod("p", templates=("t",), gates=()),
        {**pod("p", templates=("t",)), "metadata": {**pod("p")["metadata"], "annotations": {GANG: "g"}}},
        {**pod("p", templates=("t",)), "metadata": {**pod("p")["metadata"], "uid": "another"}},
    ],
    ids=["not gated", "of a gang", "another pod of that name"],
)
async def test_pods_that_are_not_decided_alone_before_binding_are_left(other: dict[str, Any]):
    picture = intake(other, made("a"))
    assert names(picture) == [None]
    assert not picture.early.supposes(key("p"))


@pytest.mark.parametrize(
    "no_claim_of_it",
    [
        made("a", annotations={}),
        made("a", ownerReferences=[]),
        made("a", entry="t7"),
        made("a", deletionTimestamp="2026-01-01T00:00:00Z"),
        {**made("a"), "status": {"reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}},
    ],
    ids=["no entry", "no owner", "unknown entry", "deleted", "reserved"],
)
async def test_other_claims_are_not_named(no_claim_of_it: dict[str, Any]):
    assert names(intake(pod("p", templates=("t",)), no_claim_of_it)) == [None]


async def test_of_two_claims_for_one_entry_the_status_will_say_which_counts():
    picture = intake(pod("p", templates=("t",)), made("a"), made("b"))
    assert names(picture) == [None]
    assert not picture.early.supposes(key("p"))
    remove(picture, "ResourceClaim", "b")
    assert names(picture) == ["a"]


async def test_a_claim_that_is_gone_is_not_named():
    picture = intake(pod("p", templates=("t",)), made("a"))
    remove(picture, "ResourceClaim", "a")
    assert names(picture) == [None]
    assert not picture.early.supposes(key("p"))


async def test_after_a_new_listing_only_what_it_has_counts():
    picture = intake(pod("p", templates=("t",)), pod("q", templates=("t",)), made("a"), made("b", "q"))
    picture.take(Replaced("ResourceClaim", (typed(made("b", "q")), typed(made("c"))), ()))
    assert (names(picture), names(picture, "q")) == (["c"], ["b"])
    picture.take(Replaced("Pod", (typed(pod("p", templates=("t",))),), ()))
    assert names(picture) == ["c"]
    assert not picture.early.supposes(key("q"))


async def test_nothing_is_kept_of_claims_that_are_reserved_or_gone():
    picture = intake(pod("p", templates=("t",)), made("a"))
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "uid of p"}]}
    put(picture, naming("p", "a"), {**made("a"), "status": reserved})
    picture.take(Removed("Pod", key("p")))
    kept = vars(picture.early)
    assert {name: value for name, value in kept.items() if value} == {}
