"""The decision over all nodes: which to try, in which order, and what to say if none does."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from reconciler.allocator.asks import Asked, Slot, read_claims
from reconciler.allocator.onenode import Found, NotFound, attempt, random_share
from reconciler.allocator.reasons import unsatisfied
from reconciler.allocator.refusal import Fatal
from reconciler.allocator.sight import look
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.snapshot import Snapshot
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.plan import Granted, Unsatisfied

DEFAULT_STEPS = 100_000


def allocate(
    claims: Sequence[ResourceClaim],
    world: Snapshot,
    *,
    nodes: Iterable[str] | None = None,
    steps: int = DEFAULT_STEPS,
    new_share: Callable[[], str] = random_share,
) -> Granted | Unsatisfied:
    """Devices for all claims together, on one node; or why not.

    The first node in name order that fits is taken; with `firstAvailable` the one whose choice ranks best
    (SC-1), ties by name. An error on one node excludes that node only. `nodes` limits the choice; None is
    all nodes. `steps` bounds the devices tried per node, counted rather than timed so that the same fleet
    gives the same answer on a slow machine.
    """
    keys = tuple(claim.key for claim in claims)
    try:
        asked = read_claims(claims, world.classes, world.rules)
    except Fatal as fatal:
        return Unsatisfied(keys, fatal.reason, str(fatal))
    names = sorted(world.topology.nodes if nodes is None else set(nodes) & set(world.topology.nodes))
    ranked = any(len(slot.asks) > 1 for slot in asked.slots)
    best: tuple[Found, str] | None = None
    refused: list[tuple[str, NotFound]] = []
    tried = 0
    for name in _plausible(asked, names, world):
        outcome = attempt(asked, name, world, steps=steps, new_share=new_share)
        tried += outcome.steps
        if isinstance(outcome, NotFound):
            refused.append((name, outcome))
        elif best is None or outcome.rank < best[0].rank:
            best = outcome, name
            if outcome.rank == 0 or not ranked:
                break
    if best is not None:
        return Granted(node=best[1], plans=best[0].plans, steps=tried)
    return unsatisfied(asked, world, names, refused, tried)


def _plausible(asked: Asked, names: Sequence[str], world: Snapshot) -> Iterable[str]:
    """Nodes that have enough devices for each request taken alone; the others need not be looked at."""
    fleet = world.fleet
    if not fleet.size:
        return names
    codes = np.array([fleet.words.nodes.find(name) for name in names], dtype=np.intp)
    possible = np.ones(len(names), dtype=np.bool_)
    for slot in asked.slots:
        enough = _enough(slot, fleet, world)
        if enough is None:
            continue
        local, spanning, wanted = enough
        counts = np.where(codes >= 0, local[np.maximum(codes, 0)], 0)
        possible &= counts + spanning >= wanted
    return [name for name, kept in zip(names, possible.tolist(), strict=True) if kept]


def _enough(slot: Slot, fleet: Fleet, world: Snapshot) -> tuple[np.ndarray, int, int] | None:
    """Devices per node code, devices of no single node, devices wanted; None if counting cannot tell.

    An over-count is harmless: errors count as devices, so that a node that would report one is looked at.
    """
    if any(ask.all for ask in slot.asks):
        return None
    some = np.zeros(fleet.size, dtype=np.bool_)
    for ask in slot.asks:
        sight = look(ask, fleet)
        if ask.admin:
            some |= sight.true | sight.error
        else:
            occupancy = world.occupancy
            some |= ((sight.true & (occupancy.fits | occupancy.sharing)) | sight.error) & ~occupancy.held
    nodes = fleet.codes["node"][some]
    local = np.bincount(nodes[nodes >= 0], minlength=len(fleet.words.nodes.values) or 1)
    return local, int(np.count_nonzero(nodes < 0)), min(ask.source.wanted for ask in slot.asks)
