"""Making room by trying every set of pods, each on a new state without them.

`python -m tests.tools.room_twin --first 0 --cases 10000` compares that with the planner.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from math import inf

import click

from reconciler.allocation.gangs.kinds import Member
from reconciler.analysis.relocation.leaving import leave, move_all, settle
from reconciler.analysis.relocation.make_room import GAVE_UP, Advice, make_room
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import NoFit, Place, Wanted, WantedGang, WantedPod
from reconciler.api.objects.claims import AllocatedDevice, ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Pod, PodDisruptionBudget, claims_of
from reconciler.api.objects.gangs import GANG, SIZE, CompositePodGroup, PodGroup
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.slices import ResourceSlice
from tests.tools.room_worlds import RoomWorld, room_world

MIRROR = "kubernetes.io/config.mirror"
Cost = tuple[object, ...]
PROGRESS = 250
"""Worlds between two lines of progress"""


def cheapest(world: RoomWorld, *, moves_only: bool = False) -> tuple[Cost, tuple[Pod, ...]] | None:
    """The cheapest set of pods without which it fits, and its cost; None if there is none.

    `moves_only`: all of them have a controller and go elsewhere.
    """
    best: tuple[Cost, tuple[Pod, ...]] | None = None
    for pods in leaving(world):
        cost = _cost(pods, world)
        if best is not None and cost > best[0][: len(cost)]:
            continue
        places = places_without(pods, world)
        if isinstance(places, NoFit) or (moves_only and not _all_move(pods, world)):
            continue
        cost = (*cost, _spare(pods, places, world), tuple(sorted(pod.key for pod in pods)))
        if best is None or cost < best[0]:
            best = cost, pods
    return best


def _all_move(pods: tuple[Pod, ...], world: RoomWorld) -> bool:
    """Whether all of them are placed once more, after what is wanted."""
    state, keys = world.world(), frozenset(pod.key for pod in pods)
    occupants = Occupants(state)
    if not all(pod.metadata.owner_references for pod in pods):
        return False
    with state.trial() as trial:
        freed = leave(trial, keys, occupants)
        places = world.wanted.when_free(freed).place(trial)
        assert not isinstance(places, NoFit)
        settle(places, world.wanted.pods, trial)
        return all(move.refusal is None for move in move_all(keys, occupants, trial))


def places_without(pods: tuple[Pod, ...], world: RoomWorld) -> tuple[Place, ...] | NoFit:
    """Where it fits on a state that never had these pods."""
    objects = list(_without(pods, world))
    wanted = _now_wanted(world.wanted, objects)
    changed = RoomWorld(objects, wanted, world.held).world()
    with changed.trial() as trial:
        return wanted.place(trial)


def _now_wanted(wanted: Wanted, objects: list[ApiObject]) -> Wanted:
    """What is wanted where the claims that it shares with running pods are as these objects say."""
    known = {one.key: one for one in objects if isinstance(one, ResourceClaim)}

    def of(pod: Pod, claims: tuple[ResourceClaim, ...]) -> tuple[list[ResourceClaim], list[ResourceClaim]]:
        own = known | {claim.key: claim for claim in claims}
        every = [own[key] for key in claims_of(pod) if key in own]
        return [one for one in every if not one.allocation], [one for one in every if one.allocation]

    if isinstance(wanted, WantedGang):
        members = [Member(one.pod, *map(tuple, of(one.pod, one.claims))) for one in wanted.question.members]
        return WantedGang(replace(wanted.question, members=tuple(members)))
    assert wanted.pod is not None
    claims, held = of(wanted.pod, wanted.claims)
    keys = [one.key for one in claims]
    sharing = []
    for pod, _, _ in wanted.sharing:
        at = tuple(keys.index(key) for key in claims_of(pod) if key in keys)
        sharing.append((pod, tuple(of(pod, ())[1]), at))
    beside = tuple(one for one in sharing if one[2])
    return WantedPod(tuple(claims), wanted.pod, tuple(held), beside)


def _without(pods: tuple[Pod, ...], world: RoomWorld) -> Iterator[ApiObject]:
    gone = {pod.metadata.uid for pod in pods}
    there = {one.metadata.uid for one in world.objects if isinstance(one, Pod)}
    for one in world.objects:
        if isinstance(one, Pod) and one.metadata.uid in gone:
            continue
        if isinstance(one, ResourceClaim):
            users = {user.uid for user in one.status.reserved_for} & there
            if users and users <= gone:
                yield one.model_copy(update={"status": ResourceClaimStatus()})
                continue
        yield one


def leaving(world: RoomWorld) -> Iterator[tuple[Pod, ...]]:
    """The sets of pods that may leave."""
    pods = [one for one in world.objects if isinstance(one, Pod)]
    judged, fixed = _judged(world.wanted)
    limit = min(pod.spec.priority or 0 for pod in judged)
    able = [
        pod
        for pod in pods
        if _priority(pod, world) < limit
        and MIRROR not in pod.metadata.annotations
        and not fixed & set(claims_of(pod))
        and all(one.spec.preemption_policy != "Never" for one in judged)
    ]
    for count in range(len(able) + 1):
        for chosen in combinations(able, count):
            if all(_leaves_enough(gang, chosen, pods) for gang in "gh") and _leaves_group(
                chosen, pods, world
            ):
                yield chosen


def _group(pod: Pod, world: RoomWorld) -> PodGroup | None:
    named = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""
    return next((one for one in world.objects if isinstance(one, PodGroup) and one.key.name == named), None)


def _tree(world: RoomWorld) -> CompositePodGroup | None:
    """That has all PodGroups."""
    return next((one for one in world.objects if isinstance(one, CompositePodGroup)), None)


def _priority(pod: Pod, world: RoomWorld) -> int:
    """That of its group, or of the tree of its group, if that has one."""
    group = _group(pod, world)
    ranking = group and (_tree(world) or group)
    if ranking is not None and ranking.spec.priority is not None:
        return ranking.spec.priority
    return pod.spec.priority or 0


def _whole(pod: Pod, world: RoomWorld) -> str | None:
    """The group with all of which a pod leaves."""
    group, tree = _group(pod, world), _tree(world)
    if group is not None and tree is not None and tree.spec.leaves_whole:
        return tree.key.name
    return group.key.name if group is not None and group.spec.leaves_whole else None


def _leaves_group(gone: tuple[Pod, ...], pods: list[Pod], world: RoomWorld) -> bool:
    """Whether groups stay whole where they must, and keep their minimum, or end; and so does their tree."""
    ended, running = 0, 0
    for group in (one for one in world.objects if isinstance(one, PodGroup)):
        members = [pod for pod in pods if _group(pod, world) is group]
        left = [pod for pod in members if pod not in gone]
        running, ended = running + bool(members), ended + (bool(members) and not left)
        if len(left) == len(members) or not left:
            continue
        if group.spec.leaves_whole or (group.rules is not None and len(left) < group.rules.least):
            return False
    tree, lost = _tree(world), [pod for pod in gone if _group(pod, world) is not None]
    if tree is None or not lost or ended == running:
        return True
    return not tree.spec.leaves_whole and (not ended or running - ended >= tree.least)


def _judged(wanted: Wanted) -> tuple[list[Pod], set[ObjectKey]]:
    """The pods whose priority and policy count; and the claims that stay, because others hold them, too."""
    if isinstance(wanted, WantedGang):
        return [one.pod for one in wanted.question.members], set()
    assert wanted.pod is not None
    judged, fixed = [wanted.pod], set[ObjectKey]()
    for pod, held, _ in wanted.sharing:
        if any(claim.key in claims_of(pod) for claim in wanted.claims):
            judged.append(pod)
        else:
            fixed |= {claim.key for claim in held if claim in wanted.held}
    return judged, fixed


def _leaves_enough(gang: str, gone: tuple[Pod, ...], pods: list[Pod]) -> bool:
    """Whether a gang keeps its minimum, or ends, or loses nobody."""
    members = [pod for pod in pods if pod.metadata.annotations.get(GANG) == gang]
    left = [pod for pod in members if pod not in gone]
    least = int(members[0].metadata.annotations[SIZE]) if members else 0
    return len(left) == len(members) or not left or len(left) >= least


def _spare(pods: tuple[Pod, ...], places: tuple[Place, ...], world: RoomWorld) -> int:
    """How many of the devices that these pods release could be allocated, each alone, beside these places."""
    taken = {result.id for place in places for plan in place.plans for result in _results(plan)}
    after = {one.key: one for one in _without(pods, world) if isinstance(one, ResourceClaim)}
    in_use = taken | {device for one in world.held for device in one.devices}
    in_use |= {result.id for one in after.values() for result in _results(one)}
    claims = [one for one in world.objects if isinstance(one, ResourceClaim)]
    released = {result.id for one in claims if not after[one.key].allocation for result in _results(one)}
    slices = [one for one in world.objects if isinstance(one, ResourceSlice)]
    return sum(_could_be_held(device, in_use, slices) for device in released)


def _results(one: ResourceClaim | Plan) -> tuple[AllocatedDevice, ...]:
    return () if one.allocation is None else one.allocation.devices.results


def _could_be_held(device: DeviceID, in_use: set[DeviceID], slices: list[ResourceSlice]) -> bool:
    """Whether a device is not in use, and what is left of each counter suffices for it."""
    left: Counter[tuple[str, str, str]] = Counter()
    draws: dict[DeviceID, Counter[tuple[str, str, str]]] = {}
    for one in slices:
        pool = one.spec.pool.name
        for counters in one.spec.shared_counters:
            for name, counter in counters.counters.items():
                left[pool, counters.name, name] = counter["value"].nanos
        for published in one.spec.devices:
            draws[DeviceID(one.spec.driver, pool, published.name)] = Counter(
                {
                    (pool, drawn.counter_set, name): counter["value"].nanos
                    for drawn in published.consumes_counters
                    for name, counter in drawn.counters.items()
                }
            )
    for other in in_use:
        left.subtract(draws.get(other, Counter()))
    return device not in in_use and all(left[name] >= amount for name, amount in draws[device].items())


def _cost(pods: tuple[Pod, ...], world: RoomWorld) -> Cost:
    """All costs before those that depend on the places."""
    if not pods:
        return (0, -(2**31) - 1)
    highest = max(_priority(pod, world) for pod in pods)
    most = [pod for pod in pods if _priority(pod, world) == highest]
    groups = len({_whole(pod, world) for pod in most} - {None})
    return (
        _violations(pods, world),
        highest,
        sum(_priority(pod, world) + 2**31 for pod in pods),
        len(pods),
        groups,
        -min(map(_start, most)),
    )


def _start(pod: Pod) -> float:
    return datetime.fromisoformat(pod.status.start_time).timestamp() if pod.status.start_time else inf


def _violations(pods: tuple[Pod, ...], world: RoomWorld) -> int:
    """How many of the pods find a budget used up, by those that are more important."""
    budgets, found = [one for one in world.objects if isinstance(one, PodDisruptionBudget)], 0
    ordered = sorted(pods, key=lambda pod: (-_priority(pod, world), _start(pod), pod.key))
    for last, pod in enumerate(ordered):
        for budget in budgets:
            assert budget.spec.selector is not None
            (apps,) = (set(one.values) for one in budget.spec.selector.match_expressions)
            used = sum(one.metadata.labels["app"] in apps for one in ordered[: last + 1])
            if pod.metadata.labels["app"] in apps and used > budget.status.disruptions_allowed:
                found += 1
                break
    return found


def difference(seed: int, *, moves_only: bool = False) -> str:
    """How the planner differs from the twin on the world of a seed; empty if it does not."""
    return compared(seed, moves_only=moves_only)[1]


def compared(seed: int, *, moves_only: bool) -> tuple[Advice, str]:
    """The planner's answer on the world of a seed, and how the twin differs from it."""
    world = room_world(seed)
    expected = cheapest(world, moves_only=moves_only)
    advice = make_room(world.wanted, world.world(), moves_only=moves_only)
    if not advice.optimal and not moves_only:
        return advice, f"seed {seed}: not proved: {advice}"
    asked = f"seed {seed}{', moves only' if moves_only else ''}"
    if expected is None:
        return advice, f"{asked}: nothing makes room, but {advice.victims}" if advice.fits else ""
    names = tuple(sorted(pod.key for pod in expected[1]))
    if not advice.fits or advice.victims != names:
        said = [str(name) for name in names]
        return advice, f"{asked}: {said} is cheapest, not {_said(advice)}"
    return advice, ""


def _said(advice: Advice) -> str:
    return str([str(name) for name in advice.victims]) if advice.fits else str(advice.refusal)


class Answers:
    """What the planner answered on many worlds, and where the twin answers differently."""

    def __init__(self) -> None:
        self.counts = {True: Counter[str](), False: Counter[str]()}
        """Of `moves_only` and of all questions"""
        self.differences: list[str] = []

    def compare(self, seed: int) -> None:
        """Ask both questions on the world of a seed."""
        for moves_only, counts in self.counts.items():
            advice, difference = compared(seed, moves_only=moves_only)
            counts[_outcome(advice)] += 1
            if difference:
                self.differences.append(difference)

    def __str__(self) -> str:
        lines = []
        for moves_only, counts in sorted(self.counts.items()):
            said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)
            lines.append(f"{'moves only' if moves_only else 'evictions'}: {said}")
        return "\n".join(lines)


OUTCOMES = ("fit as they are", "need evictions", "need evictions (not proved)", "have no plan", "gave up")


def _outcome(advice: Advice) -> str:
    if advice.fits:
        return OUTCOMES[0] if not advice.victims else OUTCOMES[1] if advice.optimal else OUTCOMES[2]
    return OUTCOMES[4] if advice.refusal is not None and advice.refusal.reason == GAVE_UP else OUTCOMES[3]


@click.command()
@click.option("--first", default=0, help="The first seed.")
@click.option("--cases", default=10_000, help="How many worlds are tried.")
def main(first: int, cases: int) -> None:
    """Compare the planner with the twin on many worlds, and print each difference."""
    answers = Answers()
    for done, seed in enumerate(range(first, first + cases), 1):
        known = len(answers.differences)
        answers.compare(seed)
        for difference in answers.differences[known:]:
            click.echo(difference)
        if done % PROGRESS == 0:
            click.echo(f"{done} of {cases} worlds", err=True)
    click.echo(f"{cases} worlds, {len(answers.differences)} differences\n{answers}")
    if answers.differences:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
