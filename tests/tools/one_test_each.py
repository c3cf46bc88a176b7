"""Each test of a device on its own, by loops: what explanations and counts are held against."""

from tests.tools.builders import Object
from tests.tools.exclusive_twin import admitted
from tests.tools.naive_allocation import Device, Scene, fits
from tests.tools.naive_rules import exact


def published(scene: Scene) -> list[Device]:
    """Every device of every slice, whichever node it is for."""
    found = [
        Device(raw, s, here=True, index=0) for s in scene.world.slices for raw in s["spec"].get("devices", ())
    ]
    for one in found:
        rules = [rule for rule in scene.world.taint_rules if scene.is_tainted(rule, one)]
        one.rules_taints = [rule["spec"]["taint"] for rule in rules]
    return found


def has_capacity(scene: Scene, wanted: Object, device: Device) -> bool:
    consumed = scene.consumed(wanted, device)
    return consumed is not None and fits(device, consumed, scene.held.shares.get(device.key, {}))


def goes(scene: Scene, device: Device) -> bool:
    return device.key in scene.held.shares or admitted(scene, device, [])


def silenced(scene: Scene, device: Device) -> bool:
    """Whether it declares groups although their gate is off (GRP-7)."""
    entries = device.raw.get("consumesCounters", ())
    return not scene.has("DRADeviceCompatibilityGroups") and any(
        entry.get("compatibilityGroups") for entry in entries
    )


def fits_counters(scene: Scene, everything: list[Device], device: Device) -> bool:
    if not device.raw.get("consumesCounters") or device.key in scene.held.shares:
        return True
    of_pool = [d for d in everything if d.key[:2] == device.key[:2]]
    left = {
        (counters["name"], name): exact(entry["value"])
        for s in scene.world.slices
        if (s["spec"]["driver"], s["spec"]["pool"]["name"]) == device.key[:2]
        for counters in s["spec"].get("sharedCounters", ())
        for name, entry in counters["counters"].items()
    }
    for other in [d for d in of_pool if d.key in scene.held]:
        for drawn, value in other.draws.items():
            left[drawn] -= value
    return all(value >= device.draws.get(drawn, 0) for drawn, value in left.items())


def in_order(scene: Scene) -> list[Device]:
    """All devices in the order of the fleet's rows."""

    def place(device: Device) -> tuple[str, str, bytes]:
        return (*device.key[:2], device.slice["metadata"]["name"].encode())

    return sorted(published(scene), key=place)
