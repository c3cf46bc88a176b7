"""Answers how many nodes of which shapes a demand needs: what fits now, then covers, then proofs."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np

from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.solver import Solver
from reconciler.analysis.sizing.answer import Group, ItemAnswer, Option, Sizing
from reconciler.analysis.sizing.bounds import Candidate, Free, Supply, candidate, least_cost, needs_of
from reconciler.analysis.sizing.cover import Cover, best_cover, cost_of, exact_cover
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import EmptyNode, Pattern, Placer, Shape
from reconciler.analysis.world import NoFit, World
from reconciler.state.nodes.room import MOST, demand
from reconciler.state.trial import Trial

Progress = Callable[[str], None]


def size(
    items: Sequence[Item],
    shapes: Sequence[Shape],
    world: World,
    *,
    steps: int = STEPS,
    progress: Progress = lambda _: None,
) -> Sizing:
    """The nodes to add so that all items fit, for each shape alone and for a mix of shapes.

    The free devices of the fleet are used first. The world changes for the time of the call only.
    """
    snapshot = world.store.snapshot_for(world.own)
    solver = Solver()
    needs = needs_of(items, snapshot)
    progress("placing on the fleet")
    placer = Placer(world, steps)
    with placer.trial:
        here = _Here(items, placer)
        progress("trying the shapes")
        classes = tuple(snapshot.classes.values())
        candidates = []
        for shape in shapes:
            node = EmptyNode(shape, items, classes, snapshot.rules, steps)
            solver.begin()
            supply = Supply(needs, node.snapshot, solver)
            candidates.append(candidate(node, supply, items))
        here.fill(candidates)
    solver.begin()
    free = Free(Supply(needs, snapshot, solver), here.nothing, here.room, here.pods)
    wanted = tuple(item.count - placed for item, placed in zip(items, here.placed, strict=True))
    lonely = all(at in here.nothing for at in range(len(items)))
    options: list[Option] = []
    if any(wanted):
        progress("covering the demand")
        for chosen in _choices(candidates, wanted):
            bound = least_cost(items, needs, chosen, free)
            option = _option(chosen, wanted, bound, alone=lonely)
            if option is not None and option.nodes not in [one.nodes for one in options]:
                options.append(option)
    return Sizing(
        tuple(_item(at, item, here, candidates) for at, item in enumerate(items)),
        tuple(sorted(options, key=lambda one: (one.cost, sum(one.nodes.values()), len(one.nodes)))),
    )


def _item(at: int, item: Item, here: "_Here", candidates: Sequence[Candidate]) -> ItemAnswer:
    names = [(one.node.shape.name, one) for one in candidates]
    return ItemAnswer(
        item,
        here.placed[at],
        here.refused.get(at),
        tuple(name for name, one in names if one.copies[at]),
        {name: one.node.refusals[at] for name, one in names if at in one.node.refusals},
    )


def _choices(candidates: Sequence[Candidate], wanted: Pattern) -> Iterable[Sequence[Candidate]]:
    """Each shape alone, then all that hold any of what is wanted."""
    for one in candidates:
        yield [one]
    useful = [
        one for one in candidates if any(n and count for n, count in zip(one.copies, wanted, strict=True))
    ]
    if len(useful) > 1:
        yield useful


def _option(
    candidates: Sequence[Candidate], wanted: Pattern, bound: Fraction, *, alone: bool
) -> Option | None:
    """The cheapest nodes that are found. `alone` says that the fleet can take none of the demand.

    Only then the exact search over new nodes is a proof: otherwise the fleet might take other items.
    """
    cover = best_cover(wanted, candidates)
    if cover is None:
        return None
    cost = cost_of(cover, candidates)
    if cost > bound:
        cover, complete = exact_cover(wanted, candidates, cover, bound)
        cost = cost_of(cover, candidates)
        bound = cost if complete and alone else bound
    return Option(_groups(cover, candidates), cost, min(bound, cost))


def _groups(cover: Cover, candidates: Sequence[Candidate]) -> tuple[Group, ...]:
    groups = [Group(candidates[at].node.shape.name, nodes, pattern) for (at, pattern), nodes in cover.items()]
    return tuple(sorted(groups, key=lambda group: (group.shape, -group.nodes, group.holds)))


class _Here:
    """What the fleet takes of the demand as it is."""

    def __init__(self, items: Sequence[Item], placer: Placer) -> None:
        self._items = items
        self._placer = placer
        self.placed = [0] * len(items)
        self.refused: dict[int, NoFit] = {}
        """Item -> why the next one does not fit"""
        self.room = _free_room(items, placer.trial)
        self.pods = tuple(_room_for(item, placer.trial) for item in items)
        alone = {at: self._alone(item) for at, item in enumerate(items)}
        self.nothing = frozenset(at for at, why in alone.items() if why is not None and why.proven)

    def _alone(self, item: Item) -> NoFit | None:
        """Why not even one fits."""
        refused = self._placer.place(item.copy(0))
        self._placer.trial.back_to(0)
        return refused

    def fill(self, candidates: Sequence[Candidate]) -> None:
        """Place all items: first those that no shape holds, then those of which a node holds the fewest."""
        size = [max((one.copies[at] for one in candidates), default=0) for at in range(len(self._items))]
        for at in sorted(range(len(self._items)), key=lambda at: size[at]):  # 0 where no shape holds it
            for number in range(1, self._items[at].count + 1):
                refused = self._placer.place(self._items[at].copy(number))
                if refused is not None:
                    self.refused[at] = refused
                    break
                self.placed[at] += 1


def _free_room(items: Sequence[Item], trial: Trial) -> dict[str, int] | None:
    """Resource that pods request -> free amount of all nodes; None if a node does not say what it offers."""
    room = trial.nodes.room
    free = room.free(frozenset(), but=())
    if (free >= MOST).any():
        return None
    wanted = {name for item in items if item.unit.pod is not None for name in demand(item.unit.pod)}
    found: dict[str, int] = {}
    for name in wanted:
        at = np.flatnonzero(room.vector({name: 1}))
        found[name] = int(np.maximum(free[at], 0).sum())
    return found


def _room_for(item: Item, trial: Trial) -> int | None:
    """How many pods of an item the nodes have room for; None for a claim, and if a node does not say."""
    if item.unit.pod is None:
        return None
    room = trial.nodes.room
    free, wanted = room.free(frozenset(), but=()), room.vector(demand(item.unit.pod))
    if (free >= MOST).any() or not wanted.any():
        return None
    limited = np.flatnonzero(wanted)
    return int((np.maximum(free[limited], 0) // wanted[limited, None]).min(axis=0).sum())
