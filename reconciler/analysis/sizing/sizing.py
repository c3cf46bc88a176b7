"""Answers how many nodes of which shapes a demand needs: what fits now, then covers, then proofs."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.solver import Solver
from reconciler.analysis.sizing.answer import Group, ItemAnswer, Option, Sizing
from reconciler.analysis.sizing.bounds import (
    Candidate,
    Supply,
    candidate,
    free_room,
    least_cost,
    needs_of,
    pods_that_fit,
)
from reconciler.analysis.sizing.cover import best_cover, cost_of, exact_cover
from reconciler.analysis.sizing.demand import Item
from reconciler.analysis.sizing.patterns import EmptyNode, Pattern, Shape, place
from reconciler.analysis.world import NoFit, World

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
    snapshot, solver = world.store.snapshot_for(world.own), Solver()
    needs = needs_of(items, snapshot)
    progress("placing on the fleet")
    with world.trial() as trial:
        room, pods = free_room(items, world.nodes), [pods_that_fit(item, world.nodes) for item in items]
        alone: list[NoFit | None] = []
        for item in items:
            alone.append(place(item.copy(0), trial, steps))
            trial.back_to(0)
        nothing = frozenset(at for at, why in enumerate(alone) if why is not None and why.proven)
        pods = [0 if at in nothing else most for at, most in enumerate(pods)]
        progress("trying the shapes")
        classes, candidates = tuple(snapshot.classes.values()), []
        for shape in shapes:
            node = EmptyNode(shape, items, classes, snapshot.rules, steps)
            solver.begin()
            candidates.append(candidate(node, Supply(needs, node.snapshot, solver), items))
        placed, refused = [0] * len(items), dict[int, NoFit]()
        size = [max((one.copies[at] for one in candidates), default=0) for at in range(len(items))]
        # First those that no shape holds, then those of which a node holds the fewest.
        for at in sorted(range(len(items)), key=size.__getitem__):
            while placed[at] < items[at].count and at not in refused:
                why = place(items[at].copy(placed[at] + 1), trial, steps)
                if why is None:
                    placed[at] += 1
                else:
                    refused[at] = why
    solver.begin()
    free = Supply(needs, snapshot, solver)
    wanted = tuple(item.count - there for item, there in zip(items, placed, strict=True))
    options: list[Option] = []
    if any(wanted):
        progress("covering the demand")
        for chosen in _choices(candidates, wanted):
            bound = least_cost(items, needs, chosen, free, pods, room)
            option = _option(chosen, wanted, bound, alone=len(nothing) == len(items))
            if option is not None and option.nodes not in [one.nodes for one in options]:
                options.append(option)
    names = [(one.node.shape.name, one) for one in candidates]
    return Sizing(
        tuple(
            ItemAnswer(
                item,
                placed[at],
                refused.get(at),
                tuple(name for name, one in names if one.copies[at]),
                {name: one.node.refusals[at] for name, one in names if at in one.node.refusals},
            )
            for at, item in enumerate(items)
        ),
        tuple(sorted(options, key=lambda one: (one.cost, sum(one.nodes.values()), len(one.nodes)))),
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

    Only then the exact search over new nodes is a proof: otherwise the fleet might take other items (SIZE-2).
    """
    cover = best_cover(wanted, candidates)
    if cover is None:
        return None
    if cost_of(cover, candidates) > bound:
        cover, complete = exact_cover(wanted, candidates, cover, bound)
        bound = cost_of(cover, candidates) if complete and alone else bound
    groups = [Group(candidates[at].node.shape.name, nodes, pattern) for (at, pattern), nodes in cover.items()]
    groups.sort(key=lambda group: (group.shape, -group.nodes, group.holds))
    cost = cost_of(cover, candidates)
    return Option(tuple(groups), cost, min(bound, cost))
