"""What a claim or pod needs next, in every state it can be found in."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Refused
from reconciler.api.objects.claims import FINALIZER, Allocation
from reconciler.api.objects.plan import Plan
from reconciler.control.planner import Blocked, Decide, Free, Nothing, Ungate
from reconciler.control.units import Unit
from tests.tools.small_fleet import DRIVER, claim, held, node, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit, put, remove, step

ALLOCATED = {"status": held(DRIVER, "n", "d0")}
RESERVED = {"status": {**ALLOCATED["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}


def deleted(name: str, **more: Any) -> dict[str, Any]:
    raw = claim(name)
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
    return {**raw, **more}


def made_for(pod_name: str, raw: dict[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_name,
        "uid": f"uid of {pod_name}",
        "controller": True,
    }
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


def with_made(raw: dict[str, Any], *claims: str) -> dict[str, Any]:
    """The pod after its claims were made from templates."""
    made = [{"name": f"t{n}", "resourceClaimName": name} for n, name in enumerate(claims)]
    return {**raw, "status": {"resourceClaimStatuses": made}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(claim("a"), Decide, id="new and labelled"),
        pytest.param(claim("a", managed=False), Nothing, id="new, of somebody else"),
        pytest.param({**claim("a"), **ALLOCATED}, Nothing, id="allocated"),
        pytest.param(deleted("a"), Free, id="deleted, never allocated"),
        pytest.param(deleted("a", **ALLOCATED), Free, id="deleted, allocated, unused"),
        pytest.param(deleted("a", **RESERVED), Nothing, id="deleted, but in use"),
    ],
)
async def test_a_claim_on_its_own(raw: dict[str, Any], expected: type):
    assert isinstance(step(intake(raw), claim_unit("a")), expected)


async def test_a_deleted_claim_without_our_finalizer_is_left_to_who_holds_it():
    raw = deleted("a")
    raw["metadata"]["finalizers"] = ["example.com/theirs"]
    assert step(intake(raw), claim_unit("a")) == Nothing()


async def test_a_claim_whose_write_is_under_way_is_left_alone():
    picture = intake(claim("a"), pod("p", "a"))
    found = picture.store.claims[key("a")]
    picture.store.assume(Plan(found.key, found.metadata.uid, "1", "n", Allocation()))
    assert step(picture, claim_unit("a")) == Nothing()
    assert step(picture, pod_unit("p")) == Nothing()


async def test_a_claim_that_pods_name_is_decided_with_them():
    picture = intake(claim("a"), pod("p", "a"))
    assert step(picture, claim_unit("a")) == Nothing()
    remove(picture, "Pod", "p")
    assert isinstance(step(picture, claim_unit("a")), Decide)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"status": {"phase": "Succeeded"}}, id="it ended"),
        pytest.param({"status": {"phase": "Failed"}}, id="it failed"),
    ],
)
async def test_pods_that_are_done_need_nothing(gone: dict[str, Any]):
    picture = intake(claim("a"), {**pod("p", "a"), **gone})
    assert step(picture, pod_unit("p")) == Nothing()
    assert isinstance(step(picture, claim_unit("a")), Decide)


async def test_a_pod_being_deleted_needs_nothing():
    raw = pod("p", "a")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert step(intake(claim("a"), raw), pod_unit("p")) == Nothing()


async def test_the_gate_makes_all_claims_of_a_pod_ours():
    picture = intake(claim("a", managed=False), claim("b", managed=False), pod("p", "a", "b"))
    found = step(picture, pod_unit("p"))
    assert isinstance(found, Decide)
    assert [todo.key for todo in found.claims] == [key("a"), key("b")]
    assert found.nodes is None


async def test_without_the_gate_only_labelled_claims_of_a_pod_are_ours():
    picture = intake(claim("a", managed=False), claim("b"), pod("p", "a", "b", gates=()))
    found = step(picture, pod_unit("p"))
    assert isinstance(found, Decide)
    assert [todo.key for todo in found.claims] == [key("b")]


async def test_a_pod_without_gate_or_claims_of_ours_is_none_of_our_business():
    picture = intake(claim("a", managed=False), pod("p", "a", gates=()))
    assert step(picture, pod_unit("p")) == Nothing()


async def test_claims_that_are_allocated_limit_the_nodes_of_the_others():
    there = {**claim("a"), "status": held(DRIVER, "m", "d0", on="m")}
    picture = intake(node("n"), node("m"), there, claim("b"), pod("p", "a", "b"))
    found = step(picture, pod_unit("p"))
    assert isinstance(found, Decide)
    assert [todo.key for todo in found.claims] == [key("b")]
    assert list(found.nodes or ()) == ["m"]
    assert [one.key for one in found.held] == [key("a")]


async def test_a_gated_pod_whose_claims_are_all_allocated_is_ungated():
    picture = intake({**claim("a"), **ALLOCATED}, pod("p", "a"))
    assert isinstance(step(picture, pod_unit("p")), Ungate)


async def test_an_entry_whose_template_needed_no_claim_is_skipped():
    """SCHED-2: a status entry without a name says that there is nothing to wait for."""
    raw = pod("p", templates=("t",))
    picture = intake({**raw, "status": {"resourceClaimStatuses": [{"name": "t0"}]}})
    assert isinstance(step(picture, pod_unit("p")), Ungate)


@pytest.mark.parametrize(
    ("raws", "reason"),
    [
        pytest.param([pod("p", "a")], "ClaimNotFound", id="a claim that does not exist"),
        pytest.param([pod("p", templates=("t",))], "ClaimNotMade", id="a template's claim not made yet"),
        pytest.param([deleted("a"), pod("p", "a")], "ClaimDeleting", id="a claim being deleted"),
        pytest.param(
            [made_for("q", claim("a")), with_made(pod("p", templates=("t",)), "a")],
            "ClaimOfOtherPod",
            id="a claim made for another pod",
        ),
    ],
)
async def test_what_blocks_a_pod_is_named(raws: list[dict[str, Any]], reason: str):
    found = step(intake(*raws), pod_unit("p"))
    assert isinstance(found, Blocked)
    assert found.reason == reason


async def test_a_claim_made_for_this_pod_is_decided():
    picture = intake(made_for("p", claim("a")), with_made(pod("p", templates=("t",)), "a"))
    assert isinstance(step(picture, pod_unit("p")), Decide)


async def test_a_claim_that_became_unreadable_is_not_decided_from_what_was_known_before():
    picture = intake(claim("a"))
    picture.take(Refused("ResourceClaim", key("a"), "spec is odd"))
    found = step(picture, claim_unit("a"))
    assert isinstance(found, Blocked)
    assert (found.reason, found.message) == ("ClaimRefused", "spec is odd")


async def test_a_claim_of_a_class_that_is_not_ours_is_refused_before_any_search():
    found = step(intake(claim("a")), claim_unit("a"), alone=False, classes=frozenset({"other"}))
    assert isinstance(found, Blocked)
    assert found.reason == "NotOurs"
    assert "class gpu" in found.message


async def test_an_unreadable_selector_of_a_pod_blocks_that_pod():
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    picture = intake(node("n"), claim("a"), pod("p", "a", affinity={"nodeAffinity": affinity}))
    found = step(picture, pod_unit("p"))
    assert isinstance(found, Blocked)
    assert found.reason == "NodeSelectorInvalid"


async def test_looking_twice_gives_the_same_step():
    picture = intake(claim("a"), pod("p", "a"))
    first = step(picture, pod_unit("p"))
    put(picture, pod("p", "a"))
    assert step(picture, pod_unit("p")) == first


def cordoned(name: str) -> dict[str, Any]:
    return {**node(name), "spec": {"unschedulable": True}}


@pytest.mark.parametrize(
    ("unit", "raws", "nodes"),
    [
        pytest.param(claim_unit("a"), [claim("a")], ("n",), id="a claim"),
        pytest.param(pod_unit("p"), [claim("a"), pod("p", "a")], ("n",), id="a pod"),
        pytest.param(
            pod_unit("p"),
            [claim("a"), pod("p", "a", nodeSelector={"kubernetes.io/hostname": "m"})],
            (),
            id="a pod that must go there",
        ),
        pytest.param(
            pod_unit("p"),
            [claim("a"), pod("p", "a", gates=(), nodeName="m")],
            ("m",),
            id="a pod that is there",
        ),
    ],
)
async def test_nothing_is_decided_for_a_node_that_takes_no_pods(
    unit: Unit, raws: list[dict[str, Any]], nodes: tuple[str, ...]
):
    """kube-scheduler would not bind there, and clear the allocation in the end."""
    closed = cordoned("m")
    closed["metadata"]["labels"] = {"kubernetes.io/hostname": "m"}
    found = step(intake(node("n"), closed, *raws), unit)
    assert isinstance(found, Decide)
    assert found.nodes == nodes


async def test_with_the_last_cordon_gone_any_node_will_do_again():
    picture = intake(node("n"), cordoned("m"), claim("a"))
    put(picture, node("m"))
    found = step(picture, claim_unit("a"))
    assert isinstance(found, Decide)
    assert found.nodes is None
