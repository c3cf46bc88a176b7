"""What a gang needs next, from the objects alone."""

from typing import Any

import pytest

from reconciler.api.objects.claims import mark
from reconciler.api.objects.gangs import SEAT, GangKey, GangSource
from reconciler.api.versions.reading import read
from reconciler.control.gangs.planner import GangPlanner, GangStep, GiveBack, Solve, UngateAll
from reconciler.control.handler import Blocked, Idle
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import Kind, Unit, gang_unit
from reconciler.ha.shard import parse_shard
from reconciler.state.on_demand import NOT_LISTED
from tests.tools.gangs import annotated, coscheduling_group, grouped, labelled, pod_group
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node
from tests.tools.unit_pictures import intake, key, pod_unit, put, remove

STAMP = "2026-01-01T00:00:00Z"
FLEET = [device_class(), node("n0", rack="a"), node("n1", rack="b"), devices("n0", "d0"), devices("n1", "d0")]
G = GangKey("default", GangSource.ANNOTATION, "g")
P = GangKey("default", GangSource.POD_GROUP, "g")


def seat(name: str, on: str, size: int = 2) -> Object:
    """A claim that we allocated for the gang `g`."""
    made = {**claim(name, managed=False), "status": held(DRIVER, on, "d0", on=on)}
    typed: Any = read(made)
    made["metadata"]["annotations"] = {
        "dra-reconciler.io/allocated-at": mark(STAMP, typed.allocation),
        SEAT: f"annotation/g {size} {on}",
    }
    return made


def running(raw: Object) -> Object:
    """The same pod after its gate was removed."""
    return {**raw, "spec": {**raw["spec"], "schedulingGates": []}}


def planner(found: Intake, **ours: Any) -> GangPlanner:
    owned = Ownership(**{"alone": True, **ours})
    claims = Planner(found.store, found.roster, found.placement, owned, found.reclaimed)
    return GangPlanner(
        found.units,
        claims,
        found.nodes.on_demand,
        lambda key: Blocked((), "Unsuited", "") if key.name == "unsuited" else None,
    )


def next_of(*raws: Object, gang: GangKey = G, **ours: Any) -> GangStep:
    return planner(intake(*FLEET, *raws), **ours).next(gang)


def reason(step: GangStep) -> str:
    assert isinstance(step, Blocked), step
    return step.reason


async def test_enough_gated_pods_are_a_question_with_the_older_pods_first():
    step = next_of(claim("a"), claim("b"), annotated("p1", "a", size=2), annotated("p0", "b", size=2))
    assert isinstance(step, Solve)
    assert [member.pod.key.name for member in step.question.members] == ["p0", "p1"]
    assert step.question.least == 2


async def test_pods_that_run_or_have_succeeded_count():
    ended = {**running(annotated("p0", size=3)), "status": {"phase": "Succeeded"}}
    step = next_of(ended, running(annotated("p1", size=3)), annotated("p2", size=3))
    assert isinstance(step, Solve)
    assert step.question.least == 1


async def test_the_devices_of_members_that_run_are_known_but_not_those_of_finished_ones():
    ended = {**running(annotated("p0", "a", size=3)), "status": {"phase": "Succeeded"}}
    step = next_of(
        seat("a", "n0", 3), seat("b", "n1", 3), claim("c"),
        ended, running(annotated("p1", "b", size=3)), annotated("p2", "c", size=3),
    )  # fmt: skip
    assert isinstance(step, Solve)
    assert step.question.nodes == ("n1",)
    assert [str(device) for device in step.question.devices] == [f"{DRIVER}/n1/d0"]


async def test_too_few_pods_are_counted():
    step = next_of(annotated("p0", size=16), annotated("p1", size=16))
    assert isinstance(step, Blocked)
    assert (step.reason, step.message) == ("GangIncomplete", "2 of 16 pods exist")


async def test_gates_are_removed_when_the_minimum_has_seats():
    step = next_of(
        seat("a", "n0"), seat("b", "n1"), annotated("p0", "a", size=2), annotated("p1", "b", size=2)
    )
    assert isinstance(step, UngateAll)
    assert [(place.node, place.pinned) for place in step.places] == [("n0", True), ("n1", True)]


async def test_one_seat_of_two_asks_for_the_other_and_may_be_given_back():
    step = next_of(seat("a", "n0"), claim("b"), annotated("p0", "a", size=2), annotated("p1", "b", size=2))
    assert isinstance(step, Solve)
    assert (step.question.least, step.question.nodes) == (1, ("n0",))
    assert [str(device) for device in step.question.devices] == [f"{DRIVER}/n0/d0"]
    assert [found.key.name for found in step.returned.claims] == ["a"]


async def test_seats_are_given_back_when_pods_are_missing():
    step = next_of(seat("a", "n0"), annotated("p0", "a", size=2))
    assert isinstance(step, GiveBack)
    assert step.why == "1 of 2 pods exist"


async def test_what_a_controller_of_other_drivers_allocated_is_not_given_back():
    theirs: dict[str, Any] = {"alone": False, "drivers": frozenset({"other.example.com"})}
    alone = (seat("a", "n0"), annotated("p0", "a", size=2))
    assert reason(next_of(*alone, **theirs)) == "GangIncomplete"
    step = next_of(*alone, claim("b"), annotated("p1", "b", size=2), **theirs)
    assert isinstance(step, Solve)
    assert not step.returned
    assert isinstance(next_of(*alone, alone=False, drivers=frozenset({DRIVER})), GiveBack)


async def test_what_others_allocated_is_not_given_back():
    theirs = {**claim("a", managed=False), "status": held(DRIVER, "n0", "d0", on="n0")}
    assert reason(next_of(theirs, annotated("p0", "a", size=2))) == "GangIncomplete"


async def test_after_the_first_gate_the_others_go_even_if_pods_are_missing():
    """Gates cannot come back."""
    step = next_of(
        seat("a", "n0", 3), seat("b", "n1", 3),
        running(annotated("p0", "a", size=3)), annotated("p1", "b", size=3),
    )  # fmt: skip
    assert isinstance(step, UngateAll)


async def test_a_pod_without_a_claim_has_a_seat_by_its_annotation():
    first, second = annotated("p0", "a", size=2), annotated("p1", size=2)
    second["metadata"]["annotations"][SEAT] = "annotation/g 2 n1"
    step = next_of(seat("a", "n0"), first, second)
    assert isinstance(step, UngateAll)
    assert [(place.node, place.pinned) for place in step.places] == [("n0", True), ("n1", False)]


async def test_a_pod_whose_claims_are_on_different_nodes_has_no_seat():
    """Somebody else allocated one of them: no node can use both."""
    theirs = {**claim("x", managed=False), "status": held(DRIVER, "n0", "d0", on="n0")}
    pods = [annotated("p0", "a", size=2), annotated("p1", "x", "b", size=2)]
    step = next_of(seat("a", "n0"), theirs, seat("b", "n1"), *pods)
    assert isinstance(step, Solve)
    assert [member.pod.key.name for member in step.question.members] == ["p1"]
    assert {found.key.name for found in step.returned.claims} == {"a", "b"}


@pytest.mark.parametrize(("on", "seated"), [("n0", 2), ("n1", 1), ("gone", 2)])
async def test_a_seat_is_where_all_devices_of_the_pod_can_be_used(on: str, seated: int):
    """The device of `b` belongs to rack a, so to n0. What is known of a node that is gone is its name."""
    both = seat("b", on)
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    both["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    pod = annotated("p1", "b", size=3)
    pod["metadata"]["annotations"][SEAT] = f"annotation/g 3 {on}"
    first, third = annotated("p0", "a", size=3), annotated("p2", size=3)
    step = next_of(seat("a", "n0", 3), both, first, pod, third)
    assert isinstance(step, Solve)
    assert step.question.least == 3 - seated


async def test_members_that_run_say_where_the_domain_is():
    bound = running(annotated("p0", size=2, topology="rack"))
    bound["spec"]["nodeName"] = "n1"
    step = next_of(bound, annotated("p1", size=2, topology="rack"))
    assert isinstance(step, Solve)
    assert step.question.nodes == ("n1",)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([annotated("p0", size=2), annotated("p1", size=3)], "GangMembersDisagree"),
        (
            [annotated("p0", size=2, topology="a"), annotated("p1", size=2, topology="b")],
            "GangMembersDisagree",
        ),
        ([annotated("p0", size=0), annotated("p1", size=0)], "GangInvalid"),
        ([annotated("unsuited", size=2), annotated("p1", size=2)], "Unsuited"),
        ([annotated("p0", "missing", size=2), annotated("p1", size=2)], "ClaimNotFound"),
    ],
)
async def test_what_cannot_be_placed_is_refused_with_its_reason(pods: list[Object], expected: str):
    assert reason(next_of(*pods)) == expected


async def test_a_pod_whose_claim_is_missing_does_not_hold_up_the_others():
    step = next_of(annotated("p0", "missing", size=2), annotated("p1", size=2), annotated("p2", size=2))
    assert isinstance(step, Solve)
    assert [member.pod.key.name for member in step.question.members] == ["p1", "p2"]


async def test_groups_are_listed_before_anything_is_decided_about_their_pods():
    found = intake(*FLEET, grouped("p0"), grouped("p1"))
    gangs = planner(found)
    assert reason(gangs.next(P)) == NOT_LISTED
    assert found.wanted["PodGroup"].is_set()
    found.not_served("PodGroup")
    step = gangs.next(P)
    assert reason(step) == "GangNotFound"
    assert isinstance(step, Blocked)
    assert step.message.endswith(
        "does not exist; the API server serves no PodGroups: is the feature gate GenericWorkload off?"
    )
    put(found, pod_group())
    assert isinstance(gangs.next(P), Solve)


async def test_a_basic_group_is_no_gang():
    found = intake(*FLEET, grouped("p0"), pod_group(least=None))
    found.nodes.on_demand.listed("PodGroup")
    assert isinstance(planner(found).next(P), Idle)
    assert not planner(found).serves(pod_unit("p0"))


async def test_a_coscheduling_group_says_the_minimum():
    found = intake(*FLEET, labelled("p0"), coscheduling_group())
    found.nodes.on_demand.listed("CoschedulingPodGroup")
    step = planner(found).next(GangKey("default", GangSource.COSCHEDULING, "g"))
    assert reason(step) == "GangIncomplete"


async def test_gated_pods_of_gangs_are_served_with_their_gang():
    found = intake(*FLEET, annotated("p0", size=2), running(annotated("p1", size=2)))
    served = planner(found).serves
    assert served(pod_unit("p0"))
    assert not served(pod_unit("p1"))
    assert served(gang_unit(G))
    assert not served(Unit(Kind.CLAIM, pod_unit("p0").key))


async def test_claims_of_several_shards_are_refused():
    other = device_class("other", "other.example.com")
    theirs = claim("b", device_class="other")
    pods = [annotated("p0", "a", size=2), annotated("p1", "b", size=2)]
    step = next_of(other, claim("a"), theirs, *pods, shard=parse_shard(f"driver={DRIVER}"))
    assert reason(step) == "NeedsSeveralShards"


async def test_a_gang_has_the_place_and_the_wishes_of_its_group():
    """In the queue by the priority of the PodGroup; its members ask with it, and with its policy."""
    group = pod_group()
    group["spec"] |= {"priority": 7, "preemptionPolicy": "Never"}
    pods = (grouped("p0", "c0", priority=1), grouped("p1", "c1"))
    found = intake(*FLEET, claim("c0"), claim("c1"), *pods, group)
    assert found.units.place(gang_unit(P))[0] == -7
    found.nodes.on_demand.listed("PodGroup")
    step = planner(found).next(P)
    assert isinstance(step, Solve)
    told = {(one.pod.spec.priority, one.pod.spec.preemption_policy) for one in step.question.members}
    assert told == {(7, "Never")}


async def test_a_gang_is_gone_with_its_last_pod_and_what_stands_for_all_workloads_never():
    found = intake(*FLEET, claim("a"), annotated("p0", "a", size=2), running(annotated("p1", "b", size=2)))
    remove(found, "Pod", "p0")
    assert not found.units.is_gone(gang_unit(G))
    remove(found, "Pod", "p1")
    assert found.units.is_gone(gang_unit(G))
    assert not found.units.is_gone(Unit(Kind.WORKLOAD, key("")))
