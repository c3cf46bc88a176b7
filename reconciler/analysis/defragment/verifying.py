"""Whether the rest of a plan can still be carried out as it is, and gains as much. Source: MOVE-5."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Rows
from reconciler.allocation.defaults import STEPS
from reconciler.analysis.capacity import FleetLayout, fleet_layout
from reconciler.analysis.defragment.answer import Move
from reconciler.analysis.defragment.holds import holds_of
from reconciler.analysis.defragment.movers import MayMove, anyone, movers_of
from reconciler.analysis.defragment.places import Places
from reconciler.analysis.defragment.target import Target, goal_of
from reconciler.analysis.making_room.world import World
from reconciler.api.objects.meta import DeviceID
from reconciler.errors import Rejected
from reconciler.state.devices.pools.fleet import Fleet


def problem(
    moves: Sequence[Move],
    target: Target,
    after: int,
    world: World,
    *,
    layout: FleetLayout | None = None,
    steps: int = STEPS,
    may_move: MayMove = anyone,
) -> str:
    """Why these moves, in their order, do not lead to `after` of what is counted any more. Empty if they do.

    `layout` is that of the world's fleet, if the caller has it. The world changes for the time of the call
    only.
    """
    snapshot = world.store.snapshot()
    try:
        goal = goal_of(target, layout or fleet_layout(snapshot.fleet, snapshot.rules))
    except Rejected as exc:
        return str(exc)
    movers = {mover.key: mover for mover in movers_of(world, may_move)}
    holds, places = holds_of(world), Places(world.placement(), steps)
    with world.trial() as trial:
        for move in moves:
            mover = movers.get(move.pod)
            if mover is None:
                return f"pod {move.pod} may not be moved any more"
            if {snapshot.fleet.id_of(row) for row in mover.rows.tolist()} != set(move.devices):
                return f"pod {move.pod} holds other devices"
            for claim in mover.claims:
                trial.release(claim.metadata.uid)
            trial.remove(mover.key)
            rows = _rows(move.to_devices, snapshot.fleet)
            choice = world.placement().before_binding(mover.pod, (), trial.snapshot)
            suits = choice.nodes is None or move.to_node in choice.nodes
            place = places.decide(mover, trial.snapshot, move.to_node, rows) if suits else None
            if place is None or set(place.rows.tolist()) != set(rows.tolist()):
                return f"what replaces pod {move.pod} does not fit on {move.to_node} any more"
            trial.place(place.granted.plans, mover.pod, move.to_node)
            holds.give_back(mover.rows)
            holds.take(place.rows)
    counted = sum(goal.count(at, holds).least for at in range(goal.fields))
    return "" if counted >= after else f"only {counted} would be free, not {after}"


def _rows(devices: Sequence[DeviceID], fleet: Fleet) -> Rows:
    return np.array([row for device in devices for row in fleet.rows_of(device)], dtype=np.intp)
