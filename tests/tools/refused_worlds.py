"""A small world for every reason for which an allocation is refused."""

from typing import Any

from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import World, without
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    devices,
    distinct,
    first_of,
    gpu_slice,
    held,
    hold,
    labelled,
    match,
    node,
    node_selector,
    request,
    resource_slice,
    selectors,
    taint,
    wants,
)
from tests.tools.exclusive_twin import admitted
from tests.tools.naive_allocation import Device, Scene, fits
from tests.tools.naive_rules import exact

A = resource_slice("s", devices("A"), nodeName="n")
AB = resource_slice("s", devices("A", "B"), nodeName="n")
PLAIN = [claim("c", request())]
ALL = [claim("c", request(count=None))]
DRAWING = [
    resource_slice("s", [device("A", draws={"g": {"m": 2}})], slices=2, nodeName="n"),
    counter_slice("t", {"g": {"m": 1}}, slices=2, nodeName="n"),
]
TWO_TERMS = node_selector(labelled("zone", "a"), labelled("zone", "b"))


def asks(expression: str) -> list[Object]:
    return [claim("c", request(selectors=selectors(expression)))]


NONE = {"name": "derived/v", "expression": "device.attributes['d'].none"}


def on_n(*content: Object, **fields: Any) -> list[Object]:
    return [resource_slice("s", content, nodeName="n", **fields)]


CASES = {
    Reason.NO_DEVICE: World([A], asks("false")),
    Reason.GATE_OFF: World(DRAWING, PLAIN, rules=without("DRAPartitionableDevices")),
    Reason.NO_NODES: World([A], PLAIN, nodes=[]),
    Reason.POOL: World(on_n(*devices("A"), slices=2), PLAIN),
    Reason.IN_USE: World([A], PLAIN, [held("h", hold("A"))]),
    Reason.TAINTED: World(on_n(*devices("A", taints=[taint("k")])), PLAIN),
    Reason.CAPACITY: World(
        on_n(device("A", capacity={"mem": "2"}, allowMultipleAllocations=True)),
        [claim("c", request(capacity={"mem": "2"}))],
        [held("h", hold("A", shareID="s", consumedCapacity={"mem": "1"}))],
    ),
    Reason.EXCLUDED: World(
        on_n(device("A", compatibleOnlyWith={"expression": "false"}), device("B")),
        PLAIN,
        [held("h", hold("A"))],
    ),
    Reason.COUNTERS: World(
        [
            resource_slice(
                "s",
                [device("A", draws={"g": {"m": 2}}), device("B", draws={"g": {"m": 1}})],
                slices=2,
                nodeName="n",
            ),
            counter_slice("t", {"g": {"m": 2}}, slices=2, nodeName="n"),
        ],
        PLAIN,
        [held("h", hold("B"))],
    ),
    Reason.CONSTRAINT: World(
        [resource_slice("s", [device(name, {"kind": name in "AC"}) for name in "ABC"], nodeName="n")],
        [claim("c", request(count=2), constraints=[distinct("d/kind")])],
        [held("h", hold("B"))],
    ),
    Reason.DERIVED_ATTRIBUTE: World(
        [A], [claim("c", request(derivedAttributes=[NONE]), constraints=[match("derived/v")])]
    ),
    Reason.TOGETHER: World(
        on_n(*devices("A", "B", "C")), [claim("c", request("r", 2), request("q"))], [held("h", hold("C"))]
    ),
    Reason.NO_NODE: World(
        [resource_slice(on, devices("A", "B"), pool=on, nodeName=on) for on in "nm"],
        [claim("c", request(count=2))],
        [held(f"h-{on}", hold("A", pool=on)) for on in "nm"],
        nodes=[node("n"), node("m")],
    ),
    Reason.NEVER: World(DRAWING, PLAIN),
    Reason.CLASS_NOT_FOUND: World([A], [claim("c", request(device_class="x"))]),
    Reason.MISSING_CLASS: World([A], [claim("c", request(device_class=""))]),
    Reason.FEATURE_DISABLED: World(
        [A], [claim("c", first_of("r", a=wants()))], rules=without("DRAPrioritizedList")
    ),
    Reason.UNSUPPORTED_MODE: World([A], [claim("c", request(allocationMode="Most"))]),
    Reason.UNSUPPORTED_SELECTOR: World([A], [claim("c", request(selectors=[{}]))]),
    Reason.UNSUPPORTED_CONSTRAINT: World([A], [claim("c", request(), constraints=[{}])]),
    Reason.CEL_COMPILE: World([A], asks("device.nonsense")),
    Reason.CEL_RUNTIME: World([A], asks('device.attributes["d"].nothing == 1')),
    Reason.TOO_MANY_DEVICES: World([gpu_slice("n", 40)], [claim("c", request(count=33))]),
    Reason.INCOMPLETE_POOL: World(on_n(*devices("A"), slices=2), [claim("c", request(count=None))]),
    Reason.INVALID_POOL: World(on_n(*devices("A", "A")), [claim("c", request(count=None))]),
    Reason.CONSTRAINT_VIOLATED: World([AB], [claim("c", request(count=None), constraints=[distinct("d/x")])]),
    Reason.NODE_SELECTOR: World(
        [resource_slice("s", [device("A", nodeSelector=TWO_TERMS)], perDeviceNodeSelection=True)],
        PLAIN,
        nodes=[node("n", zone="a")],
    ),
    Reason.CAPACITY_INVALID: World(
        on_n(device("A", capacity={"mem": "1"})), [claim("c", request(capacity={"mem": "-1"}))]
    ),
}


# -- Each test of a device on its own, by loops: what explanations and counts are held against.


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
