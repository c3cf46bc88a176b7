"""Devices that exclude one another, and what becomes of a claim for one of them."""

from typing import Any

from reconciler.api.objects.plan import Reason, Unsatisfied
from reconciler.api.objects.semantics import (
    Semantics,
    with_group_modes,
)
from tests.tools.allocation_world import World, decide, picks
from tests.tools.builders import (
    Object,
    claim,
    device,
    held,
    hold,
    only,
    request,
    resource_slice,
)

PAIRWISE = Semantics(group_modes=with_group_modes(["*=pairwise"]))


def part(name: str, amount: int, *groups: str, **fields: Any) -> Object:
    """A device that draws from the physical device `cs`."""
    made = device(name, {"id": name}, draws={"cs": {"m": amount}}, **fields)
    if groups:
        made["consumesCounters"][0]["compatibilityGroups"] = list(groups)
    return made


def gpu(*parts: Object, total: int = 152, pool: str = "p", on: str = "n") -> Object:
    """Counters and devices in one slice, as in the proposals."""
    made = resource_slice(f"s-{pool}", parts, pool=pool, nodeName=on)
    made["spec"]["sharedCounters"] = [{"name": "cs", "counters": {"m": {"value": str(total)}}}]
    return made


def stating(name: str, expression: str, **attributes: object) -> Object:
    return device(name, {"id": name, **attributes}, compatibleOnlyWith={"expression": expression})


def outcome(world: World) -> str | Reason:
    """The device of the only claim, or why it has none."""
    found = decide(world)
    if isinstance(found, Unsatisfied):
        return found.reason
    ((chosen,),) = picks(found.plans)
    return chosen[1].rpartition("/")[2]


def wanting(name: str, *others: str, rules: Semantics, slices: list[Object]) -> World:
    """A claim for one device where others are held."""
    return World(
        slices,
        [claim("c", request(selectors=only(name)))],
        [held(f"h-{other}", hold(other)) for other in others],
        rules=rules,
    )
