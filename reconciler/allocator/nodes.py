"""The decision over all nodes: which to try, in which order, and what to say if none does."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from kernels.types import Amounts, Codes
from reconciler.allocator.asks import Asked, read_claims
from reconciler.allocator.availability import Available, available
from reconciler.allocator.onenode import Found, NotFound, Only, attempt, random_share
from reconciler.allocator.pace import LEISURE, Pace, Unseen
from reconciler.allocator.reasons import unsatisfied
from reconciler.allocator.refusal import Fatal
from reconciler.allocator.sight import is_quick
from reconciler.allocator.tied import nodes_with_a_value
from reconciler.inventory.chosen import Chosen
from reconciler.inventory.snapshot import Snapshot
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.plan import Granted, Reason, Unsatisfied

DEFAULT_STEPS = 10_000
HARD_NODES = 10
"""Nodes on which a decision may use up its steps before it gives up altogether."""


def allocate(
    claims: Sequence[ResourceClaim],
    world: Snapshot,
    *,
    nodes: Iterable[str] | None = None,
    steps: int = DEFAULT_STEPS,
    new_share: Callable[[], str] = random_share,
    pace: Pace = LEISURE,
    only: Only | None = None,
) -> Granted | Unsatisfied:
    """Devices for all claims together, on one node; or why not.

    The first node in name order that fits is taken; with `firstAvailable` the one whose choice ranks best
    (SC-1), ties by name. An error on one node excludes that node only. `nodes` limits the choice; None is
    all nodes. `only` keeps requests to some devices, so that fewer fit than are counted. `steps` bounds the
    devices tried per node, and ten times as many those tried in all; counted rather than timed, so that the
    same fleet gives the same answer on a slow machine. Raises Unfinished where `pace` breaks off.
    """
    keys = tuple(claim.key for claim in claims)
    try:
        asked = read_claims(claims, world.classes, world.rules)
    except Fatal as fatal:
        return Unsatisfied(keys, fatal.reason, str(fatal))
    if pace.hurried and not all(is_quick(ask, world.fleet) for slot in asked.slots for ask in slot.asks):
        raise Unseen("selectors have to be run first")
    best: tuple[int, str, Found] | None = None
    refused: list[tuple[str, NotFound]] = []
    tried = 0
    considered, plausible = _plausible(asked, nodes, world)
    for least, name in plausible:
        if best is not None and (least, name) >= best[:2]:
            continue
        if tried >= HARD_NODES * steps:
            refused.append((name, NotFound(Reason.GAVE_UP, f"gave up after {tried} steps", 0)))
            break
        pace.beat()
        beat = best[0] + (name < best[1]) if best is not None else None
        outcome = attempt(
            asked, name, world, steps=steps, new_share=new_share, beat=beat, pace=pace, only=only
        )
        tried += outcome.steps
        if isinstance(outcome, NotFound):
            refused.append((name, outcome))
            continue
        best = outcome.rank, name, outcome
        if outcome.rank == least:  # the others are no better by counting, and later by name
            break
    if best is not None:
        return Granted(node=best[1], plans=best[2].plans, steps=tried)
    everywhere = considered == len(world.topology.order)
    names = None if everywhere else sorted(set(nodes or ()).intersection(world.topology.nodes))
    return unsatisfied(asked, world, names, refused, tried)


def _plausible(
    asked: Asked, nodes: Iterable[str] | None, world: Snapshot
) -> tuple[int, Iterator[tuple[int, str]]]:
    """How many nodes there are to consider, and those that counting cannot exclude.

    Each with the best rank that it could give; the most promising first, then by name. A node where
    selectors fail on a device is never excluded, so that the error is met and reported.
    """
    topology = world.topology
    possible = np.ones(len(topology.order), dtype=np.bool_)
    considered = len(possible)
    if nodes is not None:
        if isinstance(nodes, Chosen) and nodes.order is topology.order:
            possible = nodes.mask
        else:
            chosen = set(nodes)
            possible = np.array([name in chosen for name in topology.order], dtype=np.bool_)
        considered = int(np.count_nonzero(possible))
    codes = np.maximum(topology.order_codes, -1)
    failing = np.zeros(len(possible), dtype=np.bool_)
    enough = np.ones(len(possible), dtype=np.bool_)
    least = np.zeros(len(possible), dtype=np.int64)
    for slot in asked.slots:
        rank = np.full(len(possible), len(slot.asks))
        for number, ask in reversed(list(enumerate(slot.asks))):
            there = available(ask, world)
            failing |= there.failing[codes]
            # Wanting all may be met by any number of devices.
            rank[ask.all | (_per_node(there, codes, world) >= ask.source.wanted)] = number
        enough &= rank < len(slot.asks)
        least += rank
    tied = nodes_with_a_value(asked, world)
    if tied is not None:
        enough &= tied[codes]
    found = np.flatnonzero(possible & (enough | failing))
    least[failing] = 0  # what an error hides is not counted
    if least[found].any():
        found = found[np.argsort(least[found], kind="stable")]
    return considered, ((int(least[at]), topology.order[at]) for at in found.tolist())


def _per_node(there: Available, codes: Codes, world: Snapshot) -> Amounts:
    """(nodes,) devices that each node could take for an ask."""
    have = there.per_node[codes] + there.spanning
    if there.per_selector.any():
        places, selectors = world.topology.selected()
        np.add.at(have, places, there.per_selector[selectors])
    return have
