"""What is to be drained: nodes, or devices by pool, driver version or taint. Removes it from a world."""

from collections.abc import Callable
from dataclasses import replace

from msgspec import Struct

from reconciler.analysis.making_room.world import World
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.slices import Device, ResourceSliceSpec
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.errors import Rejected

DRIVER_VERSION = "driverVersion"
"""The name of the attribute, in any domain"""
Matches = Callable[[ResourceSliceSpec, Device], bool]


class Drained(Struct, frozen=True):
    """What is gone."""

    nodes: frozenset[str] = frozenset()
    devices: frozenset[DeviceID] = frozenset()


def without_nodes(names: frozenset[str], world: World) -> Drained:
    """Remove nodes. Raises Rejected for one that does not exist."""
    known = world.store.snapshot().topology.nodes
    for name in sorted(names):
        if name not in known:
            raise Rejected(f"there is no node {name}{instead(name, list(known), 'nodes')}")
    for name in names:
        removed = Removed("Node", ObjectKey("", name))
        world.store.apply(removed)
        world.nodes.note(removed)
    return Drained(nodes=names)


def without_devices(matches: Matches, world: World) -> Drained:
    """Remove devices. What pods hold of them stays held until they leave."""
    found: set[DeviceID] = set()
    for source in list(world.store.slices):
        spec = source.spec
        gone = [device for device in spec.devices if matches(spec, device)]
        if gone:
            found.update(DeviceID(spec.driver, spec.pool.name, device.name) for device in gone)
            names = {device.name for device in gone}
            kept = tuple(device for device in spec.devices if device.name not in names)
            changed = source.model_copy(update={"spec": replace(spec, devices=kept)})
            world.store.apply(Changed("ResourceSlice", changed))
    return Drained(devices=frozenset(found))


def of_pool(name: str) -> Matches:
    """The devices of a pool: `POOL`, or `DRIVER/POOL`."""
    driver, _, pool = name.rpartition("/")
    return lambda spec, _: spec.pool.name == pool and driver in ("", spec.driver)


def of_driver_version(text: str) -> Matches:
    """The devices with a version of their driver: `VERSION`, or `DRIVER=VERSION`."""
    driver, _, version = text.rpartition("=")

    def matches(spec: ResourceSliceSpec, device: Device) -> bool:
        if driver not in ("", spec.driver):
            return False
        found = (one for name, one in device.attributes.items() if name.rpartition("/")[2] == DRIVER_VERSION)
        return any(version in (one.version, one.string) for one in found)

    return matches


def of_taint(key: str, world: World) -> Matches:
    """The devices with a taint of this key, from their slice or from a DeviceTaintRule."""
    rules: list[DeviceTaintRule] = [rule for rule in world.store.taint_rules if rule.spec.taint.key == key]

    def matches(spec: ResourceSliceSpec, device: Device) -> bool:
        if any(taint.key == key for taint in device.taints):
            return True
        one = DeviceID(spec.driver, spec.pool.name, device.name)
        return any(
            rule.spec.device_selector is not None and rule.spec.device_selector.matches(one) for rule in rules
        )

    return matches
