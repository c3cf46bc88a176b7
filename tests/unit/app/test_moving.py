"""Moves that this controller may carry out: of pods that are opted in, come back gated, and are ours."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.analysis.relocation.goals import parse_goal
from reconciler.api.objects.claims import ALLOCATED_AT
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.versions.reading import read
from reconciler.app.moving import MovePlanner
from reconciler.control.intake import Intake
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.control.relocation.moves import MOVABLE, Allowed, MovesAdvice
from reconciler.control.relocation.relocator import Question
from reconciler.state.trial import Forked
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake

OURS = Ownership(drivers=frozenset({DRIVER}))
WEB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}


def user(name: str, on: str, *, change: Any = None) -> list[dict[str, Any]]:
    """A running pod with device `d0` of a node, by a claim that was made for it. `change` gets both."""
    one, status = claim(f"of-{name}", managed=False), held(DRIVER, on, "d0", on=on)
    status["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid of {name}"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid of {name}", "controller": True}
    stamp = status["allocation"]["allocationTimestamp"]
    one["metadata"] |= {"ownerReferences": [owner], "annotations": {ALLOCATED_AT: f"{stamp} x"}}
    made = pod(name, f"of-{name}", gates=(), nodeName=on)
    made["metadata"] |= {"labels": {MOVABLE: "true"}, "ownerReferences": [WEB], "annotations": {}}
    made["status"] = {"phase": "Running"}
    if change is not None:
        change(made, one)
    return [{**one, "status": status}, made]


def fleet(*objects: dict[str, Any]) -> Intake:
    """Nodes `a` and `b` with two devices each."""
    nodes = [raw for name in "ab" for raw in (node(name), devices(name, "d0", "d1"))]
    return intake(device_class(), *nodes, *objects)


def advice(
    found: Intake,
    *budgets: PodDisruptionBudget,
    ours: Ownership = OURS,
    allowed: Allowed | None = Allowed(frozenset(), 0),  # noqa: B008
    goals: str = "node=1",
    most_moves: int = 10,
    moves_per_gain: int = 3,
    spared: str = "",
) -> tuple[MovesAdvice, ...]:
    planner = MovePlanner(
        ours,
        [parse_goal(goal) for goal in goals.split(",")],
        allowed,
        most_moves=most_moves,
        moves_per_gain=moves_per_gain,
    )

    def is_spared(one: Pod) -> bool:
        return one.key.name == spared

    made = planner.plan(question(found, *budgets, spared=is_spared), lambda: True)
    for one in made:
        again = question(found, *budgets, spared=is_spared)
        assert not one.moves or planner.problem(again, one, lambda: True) == ""
    return made


def question(
    found: Intake, *budgets: PodDisruptionBudget, spared: Callable[[Pod], bool] = lambda _: False
) -> Question:
    fork = Forked.fork_of(found.store)
    return Question(fork, found.nodes.fork(), found.groups.fork(), budgets, spared)


def moved(found: tuple[MovesAdvice, ...]) -> list[str]:
    return [move.victim.key.name for one in found for move in one.moves]


async def test_a_move_has_what_is_needed_to_carry_it_out():
    (found,) = advice(fleet(*user("x", "a"), *user("y", "b")))
    (move,) = found.moves
    assert (found.before, found.after, found.wanted) == (0, 1, 1)
    assert move.victim.uid == f"uid of {move.victim.key.name}"
    assert [key.name for key, _ in move.victim.frees] == [f"of-{move.victim.key.name}"]
    assert {move.node, move.to.node} == {"a", "b"}
    assert [one.device for one in move.to.devices] == ["d1"]
    assert dict(move.to.room)["pods"] == 1
    assert str(move.nominee) == "the next pod of ReplicaSet default/web"


def no_label(made: Any, _: Any) -> None:
    made["metadata"]["labels"] = {}


def in_a_gang(made: Any, _: Any) -> None:
    made["metadata"]["annotations"] = {GANG: "g", SIZE: "1"}


def no_controller(made: Any, _: Any) -> None:
    made["metadata"]["ownerReferences"] = []


def of_others(_: Any, one: Any) -> None:
    one["metadata"]["annotations"] = {}


def ours_by_label(_: Any, one: Any) -> None:
    one["metadata"]["labels"] = {MANAGED: "true"}


def no_template(_: Any, one: Any) -> None:
    one["metadata"]["ownerReferences"] = []


def important(made: Any, _: Any) -> None:
    made["spec"]["priority"] = 1


@pytest.mark.parametrize(
    "change", [no_label, in_a_gang, no_controller, of_others, ours_by_label, no_template, important]
)
async def test_who_may_be_moved(change: Any):
    """Of two pods, of which either would do, only one is as it has to be."""
    for name in "xy":
        objects = [
            raw for one, on in ("xa", "yb") for raw in user(one, on, change=change if one == name else None)
        ]
        assert moved(advice(fleet(*objects))) == ["y" if name == "x" else "x"]


async def test_advice_alone_asks_for_none_of_this():
    objects = [*user("x", "a", change=no_label), *user("y", "b", change=of_others)]
    assert moved(advice(fleet(*objects))) == []
    assert len(moved(advice(fleet(*objects), allowed=None))) == 1


async def test_nobody_is_moved_while_another_pod_of_the_controller_waits():
    """It would take the place."""
    waiting = pod("z", "wanted")
    waiting["metadata"]["ownerReferences"] = [WEB]
    assert moved(advice(fleet(*user("x", "a"), *user("y", "b"), waiting))) == []


async def test_pods_that_have_just_started_are_left_alone():
    assert moved(advice(fleet(*user("x", "a"), *user("y", "b")), spared="x")) == ["y"]


async def test_a_pod_that_several_budgets_cover_stays():
    made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"selector": {}}}
    budgets = []
    for name in "ab":
        budget = read(
            {**made, "metadata": {"name": name, "namespace": "default"}, "status": {"disruptionsAllowed": 9}}
        )
        assert isinstance(budget, PodDisruptionBudget)
        budgets.append(budget)
    found = fleet(*user("x", "a"), *user("y", "b"))
    assert len(moved(advice(found, budgets[0]))) == 1
    assert moved(advice(found, *budgets)) == []


async def test_plans_stay_within_their_limits():
    """Two pods have to leave node `a`, and `b` has room beside a pod that stays."""
    second = user("z", "a")
    second[0]["status"]["allocation"]["devices"]["results"][0]["device"] = "d1"
    nodes = [node("a"), devices("a", "d0", "d1"), node("b"), devices("b", "d0", "d1", "d2")]
    found = intake(device_class(), *nodes, *user("x", "a"), *second, *user("y", "b", change=no_label))
    assert moved(advice(found, moves_per_gain=2, most_moves=2)) == ["x", "z"]
    (dear,) = advice(found, moves_per_gain=1)
    (many,) = advice(found, most_moves=1)
    for one in (dear, many):
        assert (one.moves, one.before, one.after) == ((), 0, 0)
        assert one.why == "no moves within the limits help"


async def test_each_goal_has_its_line_and_says_why_it_has_no_moves():
    found = fleet(*user("x", "a"), *user("y", "b"))
    nothing, unknown, nodes = advice(found, goals="node=1,7g.40gb=1,node=2")
    assert nothing.goal == "node=1"
    assert "there is no profile or attribute 7g.40gb" in unknown.why
    assert nodes.goal == "node=2"
    assert [one.goal for one in advice(found, goals="90%")] == ["node=90%"]


async def test_what_changed_since_is_a_problem():
    found = fleet(*user("x", "a"), *user("y", "b"))
    planner = MovePlanner(OURS, [parse_goal("node=1")], None, most_moves=9, moves_per_gain=9)
    (plan,) = planner.plan(question(found), lambda: True)
    (move,) = plan.moves
    other = replace(plan, moves=(move._replace(victim=move.victim._replace(uid="earlier")),))
    assert planner.problem(question(found), other, lambda: True).endswith("is another one now, or gone")
    gone = planner.problem(question(found), replace(plan, goal="gone=1"), lambda: True)
    assert gone == "nothing of gone=1 is there any more"
