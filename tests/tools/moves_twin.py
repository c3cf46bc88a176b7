"""All states that moves of single pods can reach on a few machines, with the fewest moves to each."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from tests.tools.machines import Machine

NODES = "node"
Spot = tuple[int, tuple[str, ...]]
"""Machine and devices of one pod"""
State = tuple[Spot, ...]
"""The spot of each pod"""


class Scene(NamedTuple):
    """Machines, and pods on them; each needs devices of one profile on one machine."""

    machines: tuple[Machine, ...]
    profiles: tuple[str, ...]
    start: State


def spots(machines: Sequence[Machine], profile: str, count: int) -> Iterator[Spot]:
    """Where a pod could be on empty machines."""
    for at, machine in enumerate(machines):
        for chosen in combinations([part.name for part in machine.parts if part.profile == profile], count):
            if machine.room_for(chosen):
                yield at, chosen


def on(state: Sequence[Spot], machine: int) -> list[str]:
    """The devices that pods hold on a machine."""
    return [name for at, names in state if at == machine for name in names]


def is_valid(machines: Sequence[Machine], state: Sequence[Spot]) -> bool:
    """Whether all pods can be where they are."""
    return all(machine.room_for(on(state, at)) for at, machine in enumerate(machines))


def free_count(machines: Sequence[Machine], state: Sequence[Spot], profile: str) -> int:
    """How many more devices of a profile fit together; of `NODES`, how many machines hold nothing."""
    if profile == NODES:
        return sum(not on(state, at) for at in range(len(machines)))
    found = 0
    for at, machine in enumerate(machines):
        held = on(state, at)
        names = [part.name for part in machine.parts if part.profile == profile and part.name not in held]
        for size in range(len(names), 0, -1):
            if any(machine.room_for((*held, *more)) for more in combinations(names, size)):
                found += size
                break
    return found


def reachable(scene: Scene, most: int) -> Mapping[State, int]:
    """State -> the fewest moves to it, for states within a number of moves."""
    found = {scene.start: 0}
    edge = [scene.start]
    pods = range(len(scene.profiles))
    spots_of = [list(spots(scene.machines, scene.profiles[pod], len(scene.start[pod][1]))) for pod in pods]
    for depth in range(1, most + 1):
        after = []
        for state, pod in product(edge, pods):
            for spot in spots_of[pod]:
                moved = (*state[:pod], spot, *state[pod + 1 :])
                if moved not in found and scene.machines[spot[0]].room_for(on(moved, spot[0])):
                    found[moved] = depth
                    after.append(moved)
        edge = after
    return found


def best_moves(scene: Scene, profile: str, most: int) -> dict[int, int]:
    """Gain -> the fewest moves after which so many more devices fit, or even more."""
    before = free_count(scene.machines, scene.start, profile)
    found: dict[int, int] = {}
    for state, depth in reachable(scene, most).items():
        gain = free_count(scene.machines, state, profile) - before
        for reached in range(1, gain + 1):
            found[reached] = min(depth, found.get(reached, depth))
    return found
