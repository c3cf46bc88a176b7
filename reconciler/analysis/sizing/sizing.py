"""Answers how many nodes of which shapes a demand needs: what fits now, then covers, then proofs.

Covers are greedy in several orders; for small demands an exact search finds the cheapest (SIZE-2).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

from reconciler.allocation.dra.budget import STEPS
from reconciler.analysis.capacity.measure import Solver
from reconciler.analysis.sizing import bounds
from reconciler.analysis.sizing.answer import Group, ItemAnswer, Option, Sizing
from reconciler.analysis.sizing.demand import Item, place
from reconciler.analysis.sizing.shapes import EmptyNode, Pattern, Shape
from reconciler.analysis.world import NoFit, World

Cover = Mapping[tuple[int, Pattern], int]
"""(candidate, what one node holds) -> number of such nodes"""

MOST_STEPS = 20_000
"""Choices that the exact search examines"""


def cost_of(cover: Cover, candidates: Sequence[bounds.Candidate]) -> Fraction:
    """What the nodes cost together."""
    return sum((nodes * candidates[at].cost for (at, _), nodes in cover.items()), start=Fraction(0))


def best_cover(wanted: Pattern, candidates: Sequence[bounds.Candidate]) -> Cover | None:
    """The cheapest of several greedy covers; with equal costs the one with the fewest nodes.

    None if no candidate can hold some item.
    """
    servable = all(
        not count or any(one.copies[item] for one in candidates) for item, count in enumerate(wanted)
    )
    if not servable:
        return None
    found = [_greedy(wanted, candidates, orders) for orders in _strategies(wanted, candidates)]
    return min(found, key=lambda cover: (cost_of(cover, candidates), sum(cover.values())))


def _strategies(wanted: Pattern, candidates: Sequence[bounds.Candidate]) -> Iterator[list[tuple[int, ...]]]:
    """Orders of items to fill a node with. The largest first is usually best; others lead with one item."""
    items = [item for item, count in enumerate(wanted) if count]
    largest = sorted(items, key=lambda item: max(one.copies[item] for one in candidates))
    leading = [(item, *(other for other in largest if other != item)) for item in largest]
    yield [tuple(largest)]
    if len(items) > 1:
        yield leading
        yield [*leading, tuple(reversed(largest))]


def _greedy(
    wanted: Pattern, candidates: Sequence[bounds.Candidate], orders: Sequence[tuple[int, ...]]
) -> Cover:
    """Add the node that holds most for its cost, as often as its pattern is left; at the end the cheapest.

    An item counts as much as the cheapest way to hold it alone.
    """
    worth = [
        min((one.cost / one.copies[item] for one in candidates if one.copies[item]), default=Fraction(0))
        for item in range(len(wanted))
    ]
    left, cover = wanted, dict[tuple[int, Pattern], int]()
    while any(left):
        filled = [
            (at, pattern)
            for at, one in enumerate(candidates)
            for pattern in dict.fromkeys(one.node.fill(order, left) for order in orders)
            if any(pattern)
        ]
        last = [entry for entry in filled if entry[1] == left]
        if last:
            at, pattern = min(last, key=lambda entry: (candidates[entry[0]].cost, entry[0]))
        else:
            at, pattern = max(
                filled,
                key=lambda entry: (
                    sum(n * w for n, w in zip(entry[1], worth, strict=True)) / candidates[entry[0]].cost,
                    -entry[0],
                ),
            )
        times = min(rest // count for rest, count in zip(left, pattern, strict=True) if count)
        cover[at, pattern] = cover.get((at, pattern), 0) + times
        left = tuple(rest - times * count for rest, count in zip(left, pattern, strict=True))
    return cover


def exact_cover(
    wanted: Pattern, candidates: Sequence[bounds.Candidate], known: Cover, at_least: Fraction
) -> tuple[Cover, bool]:
    """Search for a cheaper cover than a known one; and whether the result is proven cheapest (SIZE-2)."""
    kinds: list[tuple[int, Pattern]] = []
    for at, one in enumerate(candidates):
        patterns = one.node.all_patterns(wanted)
        if patterns is None:
            return known, False
        kinds += [(at, pattern) for pattern in sorted(patterns, reverse=True)]
    return _CoverSearch(kinds, candidates, known, at_least).run(wanted)


class _CoverSearch:
    """Branch and bound over patterns. A node holds the item that is left and fits least often."""

    def __init__(
        self,
        kinds: Sequence[tuple[int, Pattern]],
        candidates: Sequence[bounds.Candidate],
        known: Cover,
        at_least: Fraction,
    ) -> None:
        self._kinds = kinds
        self._costs = [candidates[at].cost for at, _ in kinds]
        self._best: Cover = known
        self._best_cost = cost_of(known, candidates)
        self._at_least = at_least
        self._steps = 0
        self._density = [
            max(
                (Fraction(p[item]) / c for (_, p), c in zip(kinds, self._costs, strict=True)),
                default=Fraction(0),
            )
            for item in range(len(kinds[0][1]) if kinds else 0)
        ]
        self._cheapest = min(self._costs, default=Fraction(1))
        self._seen: dict[Pattern, Fraction] = {}

    def run(self, wanted: Pattern) -> tuple[Cover, bool]:
        """The cheapest cover that was found, and whether all others were excluded."""
        complete = self._cover(wanted, Fraction(0), {})
        return self._best, complete

    def _cover(self, left: Pattern, cost: Fraction, used: dict[tuple[int, Pattern], int]) -> bool:
        if self._best_cost == self._at_least:
            return True
        self._steps += 1
        if self._steps > MOST_STEPS:
            return False
        if not any(left):
            if cost < self._best_cost:
                self._best, self._best_cost = dict(used), cost
            return True
        if cost + self._bound(left) >= self._best_cost or cost >= self._seen.get(left, cost + 1):
            return True
        self._seen[left] = cost
        item = min(
            (item for item, count in enumerate(left) if count), key=lambda item: (self._density[item], item)
        )
        complete = True
        for number, (at, pattern) in enumerate(self._kinds):
            if pattern[item]:
                held = tuple(map(min, pattern, left))
                used[at, held] = used.get((at, held), 0) + 1
                rest = tuple(have - taken for have, taken in zip(left, held, strict=True))
                complete &= self._cover(rest, cost + self._costs[number], used)
                used[at, held] -= 1
                if not used[at, held]:
                    del used[at, held]
        return complete

    def _bound(self, left: Pattern) -> Fraction:
        """No nodes that hold the rest cost less."""
        lowest = max(
            (Fraction(count) / self._density[item] for item, count in enumerate(left) if count),
            default=Fraction(0),
        )
        return ceil(lowest / self._cheapest) * self._cheapest if len({*self._costs}) == 1 else lowest


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
    needs = bounds.needs_of(items, snapshot)
    progress("placing on the fleet")
    with world.trial() as trial:
        room = bounds.free_room(items, world.nodes)
        pods = [bounds.pods_that_fit(item, world.nodes) for item in items]
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
            candidates.append(bounds.candidate(node, bounds.Supply(needs, node.snapshot, solver), items))
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
    free = bounds.Supply(needs, snapshot, solver)
    wanted = tuple(item.count - there for item, there in zip(items, placed, strict=True))
    options: list[Option] = []
    if any(wanted):
        progress("covering the demand")
        for chosen in _choices(candidates, wanted):
            bound = bounds.least_cost(items, needs, chosen, free, pods, room)
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
        {shape.name: shape for shape in shapes},
    )


def _choices(candidates: Sequence[bounds.Candidate], wanted: Pattern) -> Iterable[Sequence[bounds.Candidate]]:
    """Each shape alone, then all that hold any of what is wanted."""
    for one in candidates:
        yield [one]
    useful = [
        one for one in candidates if any(n and count for n, count in zip(one.copies, wanted, strict=True))
    ]
    if len(useful) > 1:
        yield useful


def _option(
    candidates: Sequence[bounds.Candidate], wanted: Pattern, bound: Fraction, *, alone: bool
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
