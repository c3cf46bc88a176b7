"""What a snapshot says, by names: two snapshots with equal pictures mean the same, however they were made."""

from typing import Any, NamedTuple

from reconciler.cel.program import compile_selector
from reconciler.errors import Rejected
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View

EXPRESSIONS = (
    'device.attributes["d"].model == "x"',
    'device.driver == "e" || device.capacity["d"].mem.compareTo(quantity("2Gi")) >= 0',
)


class Place(NamedTuple):
    """Where a device stands. Names alone do not tell devices apart: slices may repeat them."""

    driver: str
    pool: str
    slice: str
    number: int
    device: str


def places(fleet: Fleet) -> list[Place]:
    """The device of every row."""
    return [
        Place(*pool.id, block.name, number, name)
        for pool in fleet.pools
        for block in pool.blocks
        for number, name in enumerate(block.names)
    ]


def picture(seen: Snapshot) -> dict[str, Any]:
    """Everything a decision can see. Amounts are in billionths."""
    fleet, at = seen.fleet, places(seen.fleet)
    return {
        "devices": {place: _device(row, seen) for row, place in enumerate(at)},
        "order": at,
        "counters": _counters(seen),
        "nodes": {name: _view(name, seen, at) for name in seen.topology.nodes},
        "classes": dict(seen.classes),
        "tables": fleet.size,
    }


def _device(row: int, seen: Snapshot) -> dict[str, Any]:
    fleet, occupancy = seen.fleet, seen.occupancy
    taints = int(fleet.codes["taints"][row])
    return {
        "id": fleet.id_of(row),
        "held": bool(occupancy.held[row]),
        "sharing": bool(occupancy.sharing[row]),
        "fits": bool(occupancy.fits[row]),
        "free": bool(occupancy.free[row]),
        "open": occupancy.open is None or bool(occupancy.open[row]),
        "common": _common(row, seen),
        "consumed": dict(occupancy.consumed.get(row, {})),
        "consumption": dict(occupancy.consumptions.values[occupancy.consumption[row]]),
        "taints": [taint.key for taint in fleet.vocabulary.taints.values[taints]] if taints >= 0 else [],
        "shared": bool(fleet.shared[row]),
        "draws": _draws(row, fleet),
        "selected": [_answer(expression, row, fleet) for expression in EXPRESSIONS],
        "found": row in fleet.rows_of(fleet.id_of(row)),
    }


def _common(row: int, seen: Snapshot) -> list[bool]:
    """Of each scope a device is in, whether it shares a name with all that is held there."""
    exclusion, common = seen.fleet.exclusion, seen.occupancy.common
    if exclusion is None or common is None:
        return []
    places = enumerate(exclusion.scopes[row].tolist())
    return [bool((exclusion.names[row, k] & common[s]).any()) for k, s in places if s >= 0]


def _answer(expression: str, row: int, fleet: Fleet) -> str:
    masks = compile_selector(expression).masks(fleet.cel)
    return "error" if masks.error[row] else "yes" if masks.true[row] else "no"


def _draws(row: int, fleet: Fleet) -> dict[tuple[str, str], int]:
    found = {}
    for number, draw in zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True):
        if number >= 0:
            columns = fleet.set_columns[number]
            for name, unit, amount in zip(columns.counters, columns.units, fleet.table[draw], strict=False):
                found[columns.id.name, name] = int(amount) * unit
    return found


def _counters(seen: Snapshot) -> dict[tuple[Any, ...], int]:
    fleet = seen.fleet
    sets = [(pool.id, columns) for pool in fleet.pools for columns in pool.counters.sets]
    assert [columns for _, columns in sets] == list(fleet.set_columns)
    return {
        (pool, columns.id.generation, columns.id.name, name): int(left) * unit
        for row, (pool, columns) in enumerate(sets)
        for name, unit, left in zip(columns.counters, columns.units, seen.occupancy.left[row], strict=False)
    }


def _view(name: str, seen: Snapshot, at: list[Place]) -> Any:
    try:
        view = seen.topology.view(name)
    except Rejected as rejected:
        return str(rejected)
    return {"pools": _pools(view), "devices": offered(view, at), "info": view.node}


def _pools(view: View) -> list[tuple[Any, ...]]:
    return [(pool.pool, pool.usable, pool.problem, pool.has_binding_conditions) for pool in view.pools]


def offered(view: View, at: list[Place]) -> list[tuple[Place, bool]]:
    """The devices of a view in order, and whether the node reaches each."""
    return [(at[row], bool(here)) for row, here in zip(view.rows.tolist(), view.here.tolist(), strict=True)]
