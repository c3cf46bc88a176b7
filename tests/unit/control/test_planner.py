"""What a claim or pod needs next, in every state it can be found in."""

from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

import pytest

from reconciler.api.objects.changes import Refused
from reconciler.api.objects.claims import FINALIZER, Allocation
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.control import decisions
from reconciler.control.decider import Decider, Refusal
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.decisions.declaration import Decision, Reporter
from reconciler.control.decisions.every import DECISIONS
from reconciler.control.handler import Blocked, Decide, Free, Idle, Ungate
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.units import Unit
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
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
        pytest.param(claim("a", managed=False), Idle, id="new, of somebody else"),
        pytest.param({**claim("a"), **ALLOCATED}, Idle, id="allocated"),
        pytest.param(deleted("a"), Free, id="deleted, never allocated"),
        pytest.param(deleted("a", **ALLOCATED), Free, id="deleted, allocated, unused"),
        pytest.param(deleted("a", **RESERVED), Idle, id="deleted, but in use"),
    ],
)
async def test_a_claim_on_its_own(raw: dict[str, Any], expected: type):
    assert isinstance(step(intake(raw), claim_unit("a")), expected)


async def test_a_deleted_claim_without_our_finalizer_is_left_to_who_holds_it():
    raw = deleted("a")
    raw["metadata"]["finalizers"] = ["example.com/theirs"]
    assert step(intake(raw), claim_unit("a")) == Idle()


async def test_a_claim_whose_write_is_under_way_is_left_alone():
    picture = intake(claim("a"), pod("p", "a"))
    found = picture.store.claims[key("a")]
    picture.store.assume(Plan(found.key, found.metadata.uid, "1", "n", Allocation()))
    assert step(picture, claim_unit("a")) == Idle()
    assert step(picture, pod_unit("p")) == Idle()


async def test_a_claim_that_pods_name_is_decided_with_them():
    picture = intake(claim("a"), pod("p", "a"))
    assert step(picture, claim_unit("a")) == Idle()
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
    assert step(picture, pod_unit("p")) == Idle()
    assert isinstance(step(picture, claim_unit("a")), Decide)


async def test_a_pod_being_deleted_needs_nothing():
    raw = pod("p", "a")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert step(intake(claim("a"), raw), pod_unit("p")) == Idle()


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
    assert step(picture, pod_unit("p")) == Idle()


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


# -- Answers, and refusals that are remembered for as long as nothing changes.


def full(*raws: dict[str, Any]) -> Intake:
    """One node, one device, which a claim holds."""
    taken = {**claim("taken"), "status": held(DRIVER, "n", "d0")}
    return intake(node("n"), device_class(), devices("n", "d0"), taken, *raws)


def asked(picture: Intake, name: str) -> Decide:
    return Decide((picture.store.claims[key(name)],), None)


def decider(**ours: Any) -> Decider:
    return Decider(Ownership(**{"alone": True, **ours}), steps=1000)


async def test_a_refusal_answers_the_same_question_of_another_claim():
    """A device set free wakes all who wait; one search does for all of the same kind."""
    picture, deciding = full(claim("a"), claim("b"), claim("big", count=2)), decider()
    world = picture.store.snapshot()
    refusal = deciding.answer(asked(picture, "a"), world)
    assert isinstance(refusal, Refusal)
    assert deciding.refuses(asked(picture, "b"), world) == refusal.reason
    assert deciding.refuses(asked(picture, "big"), world) is None


async def test_the_nodes_are_part_of_the_question():
    picture, deciding = full(claim("a")), decider()
    world = picture.store.snapshot()
    deciding.answer(asked(picture, "a"), world)
    elsewhere = Decide(asked(picture, "a").claims, picture.nodes.only("n", world.topology))
    assert deciding.refuses(elsewhere, world) is None


async def test_any_change_of_the_picture_makes_it_a_new_question():
    picture, deciding = full(claim("a")), decider()
    deciding.answer(asked(picture, "a"), picture.store.snapshot())
    put(picture, devices("m", "d1"), node("m"))
    assert deciding.refuses(asked(picture, "a"), picture.store.snapshot()) is None
    remove(picture, "ResourceClaim", "taken")
    assert isinstance(deciding.answer(asked(picture, "a"), picture.store.snapshot()), Granted)


async def test_a_plan_with_a_device_of_somebody_else_is_refused():
    picture = intake(node("n"), device_class(), devices("n", "d0"), claim("a"))
    deciding = decider(alone=False, drivers={"other.example.com"})
    refusal = deciding.answer(asked(picture, "a"), picture.store.snapshot())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.room) == ("NotOurs", True)


async def test_room_does_not_help_where_something_has_to_be_mended():
    picture = intake(node("n"), devices("n", "d0"), claim("a"))
    refusal = decider().answer(asked(picture, "a"), picture.store.snapshot())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.room) == ("ClassNotFound", False)


async def test_claims_that_repeat_get_devices_found_ahead_if_they_are_ours():
    """They are the same devices; a device of somebody else is refused as ever."""
    names = ["a", "b", "c", "d", "e"]
    picture = intake(
        node("n"), device_class(), devices("n", *[f"d{n}" for n in range(5)]), *map(claim, names)
    )
    deciding, foreign, got = decider(), decider(alone=False, drivers={"other.example.com"}), []
    for name in names:
        question = asked(picture, name)
        assert isinstance(foreign.answer(question, picture.store.snapshot()), Refusal)
        answer = deciding.answer(question, picture.store.snapshot())
        assert isinstance(answer, Granted)
        picture.assume(answer.plans[0])
        got += [result.device for result in answer.plans[0].allocation.devices.results]
    assert got == ["d0", "d1", "d2", "d3", "d4"]


# -- The list of every kind of decision, and their names: short, never twice, the same from the same source.


def test_every_kind_of_decision_is_listed_once():
    modules = [import_module(f"{decisions.__name__}.{one.name}") for one in iter_modules(decisions.__path__)]
    declared = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
    }
    assert sorted(kind.__name__ for kind in DECISIONS) == sorted(kind.__name__ for kind in declared)


POD = ObjectKey("default", "p")


def test_the_same_source_gives_the_same_names():
    first, second = Reporter(Random(7).random, ()), Reporter(Random(7).random, ())
    names = [first.name() for _ in range(1000)]
    assert names == [second.name() for _ in range(1000)]
    assert len(set(names)) == 1000
    assert max(map(len, names)) <= 16


def test_runs_differ():
    assert len({Reporter(Random(seed).random, ()).name() for seed in range(50)}) == 50


def test_a_decision_keeps_its_name_and_gets_one_if_it_has_none():
    told: list[Decision] = []
    reporter = Reporter(Random(1).random, [told.append])
    reporter.report(Ungated(POD))
    reporter.report(told[0])
    reporter.report(Ungated(POD))
    assert told[0].decision_id
    assert told[1] is told[0]
    assert told[2].decision_id != told[0].decision_id
