"""Who may be held beside whom, word for word: every device against every other, group by group."""

from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.api.objects.plan import Reason, Unsatisfied
from reconciler.api.objects.semantics import Semantics, with_group_modes
from reconciler.cel.program import CelError, CelRefused, compile_selector
from tests.tools.allocation_world import World, decide, picks
from tests.tools.builders import Object, claim, device, held, hold, only, request, resource_slice
from tests.tools.naive_allocation import Device, Scene


def admitted(scene: Scene, device: Device, chosen: Iterable[Device]) -> bool:
    """Whether nothing that is held, or was chosen in this decision, stands against a device."""
    others = {other.key: other for other in _held(scene, device)}
    others |= {other.key: other for other in chosen if _siblings(device, other)}
    if not all(_groups_go(scene.world, device, name, list(others.values())) for name in _sets(device)):
        return False
    return all(
        _goes_with(scene, device, other) and _goes_with(scene, other, device)
        for other in others.values()
        if other.key != device.key and judged(scene.world, device, other)
    )


def _held(scene: Scene, device: Device) -> Iterator[Device]:
    """Held devices of the same pool and generation, wherever they are."""
    for source in scene.world.slices:
        for raw in source["spec"].get("devices", ()):
            other = Device(raw, source, False, -1)
            if _siblings(device, other) and other.key in scene.held:
                yield other


def _siblings(one: Device, other: Device) -> bool:
    mine, theirs = one.slice["spec"]["pool"], other.slice["spec"]["pool"]
    return one.key[:2] == other.key[:2] and mine["generation"] == theirs["generation"]


def _sets(device: Device) -> list[str]:
    return [entry["counterSet"] for entry in device.raw.get("consumesCounters", ())]


def _groups(device: Device, name: str) -> set[str]:
    entries = device.raw.get("consumesCounters", ())
    return {
        g for entry in entries if entry["counterSet"] == name for g in entry.get("compatibilityGroups", ())
    }


def _groups_go(world: World, device: Device, name: str, others: list[Device]) -> bool:
    mine = _groups(device, name)
    theirs = [_groups(other, name) for other in others if name in _sets(other)]
    if not world.rules.has("DRADeviceCompatibilityGroups"):
        return not mine and not any(theirs)  # GRP-7
    if mode_of(world, device.driver) == "pairwise":
        return all(not mine or not groups or mine & groups for groups in theirs)
    if not mine:
        return not any(theirs)  # GRP-3
    return (
        all(theirs) and bool(mine.intersection(*theirs)) and (not theirs or bool(set.intersection(*theirs)))
    )


def mode_of(world: World, driver: str) -> str:
    """How a driver's groups are compared."""
    for of, mode in sorted(world.rules.group_modes, reverse=True):  # `*` sorts before all names
        if of in (driver, "*"):
            return mode
    own = [s["spec"].get("devices", ()) for s in world.slices if s["spec"]["driver"] == driver]
    states = any("compatibleOnlyWith" in raw for devices in own for raw in devices)
    return "pairwise" if states else "kep-5963"


def judged(world: World, one: Device, other: Device) -> bool:
    """Whether what one device of a pool says applies to another of its pool and generation."""
    if set(_sets(one)) & set(_sets(other)):
        return True
    nodes = [_node(raw, s) for s in _pool(world, one) for raw in s["spec"].get("devices", ())]
    if all(nodes) and _node(one.raw, one.slice) != _node(other.raw, other.slice):
        return False
    scopes = dict(world.rules.exclusion_scopes)
    if (scopes.get(one.driver) or scopes.get("*")) == "pool":
        return True
    return not _sets(one) or not _sets(other)


def _node(raw: Object, source: Object) -> str | None:
    """The only node of a device, if its slice or it names one."""
    return source["spec"].get("nodeName") or raw.get("nodeName")


def _pool(world: World, device: Device) -> list[Object]:
    return [
        s for s in world.slices if (s["spec"]["driver"], s["spec"]["pool"]["name"]) == tuple(device.key[:2])
    ]


def _goes_with(scene: Scene, one: Device, other: Device) -> bool:
    """What one device says about another; what cannot be told counts as no."""
    stated = one.raw.get("compatibleOnlyWith")
    if stated is None:
        return True
    try:
        return compile_selector(stated["expression"]).matches(scene.view(other))
    except (CelRefused, CelError):
        return False


# -- Devices that exclude one another, and what becomes of a claim for one of them.


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
