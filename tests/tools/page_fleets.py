"""What the pages of these tests show: the demonstration's fleet, and one whose names mean harm."""

from io import BytesIO
from typing import Any

from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.cli.demo import read_demo_manifests
from reconciler.control.relocation.ground import Victim
from reconciler.control.relocation.moves import Relocation
from reconciler.state.nominations import HeldPlace
from tests.tools import builders
from tests.tools.builders import counter_slice, device, request, resource_slice
from tests.tools.small_fleet import claim, device_class, devices, node

Object = dict[str, Any]

HOSTILE = "<script>window.harm=1</script>"
QUOTES = "\"'><img src=x onerror=window.harm=1>&amp;{{7*7}}"
TURNED = "\u202eevil\u2066"
LONG = "n" * 3000


def demonstration() -> list[Object]:
    """Two A100 with MIG, four H100, NICs and a torus, with claims that are met and claims that wait."""
    return read_demo_manifests(BytesIO())


def small() -> list[Object]:
    """Two nodes with two devices each, a claim, and one for more than there is."""
    return [
        device_class(),
        node("n1"),
        node("n2"),
        devices("n1", "a", "b"),
        devices("n2", "c", "d"),
        claim("first"),
        claim("greedy", 9),
    ]


def hostile() -> list[Object]:
    """Everything that has a name, named by somebody unkind."""
    fields: dict[str, Any] = {"driver": TURNED, "pool": HOSTILE, "slices": 2, "nodeName": QUOTES}
    kinds = [HOSTILE, QUOTES, TURNED, LONG]
    content = [
        device(
            f"{name}-{at}", {f"{TURNED}/profile": name}, draws={HOSTILE: {f"{QUOTES}-{at}": "1", LONG: "1"}}
        )
        for at, name in enumerate(kinds)
    ]
    counters: dict[str, str | int] = {f"{QUOTES}-{at}": "1" for at in range(len(kinds))}
    return [
        builders.device_class(),
        builders.node(QUOTES),
        counter_slice("counters", {HOSTILE: {**counters, LONG: "9"}}, **fields),
        resource_slice("devices", content, **fields),
        resource_slice("plain", [device(name) for name in kinds], driver=QUOTES, pool=LONG, nodeName=QUOTES),
    ]


def hostile_claims() -> list[Object]:
    """Claims that can be met."""
    return [builders.claim(name, request()) for name in (HOSTILE, QUOTES, LONG)]


def move(number: int, gains: str = "n0/gpu-0") -> Relocation:
    """Advice to move a pod from n0 to n1."""
    device = DeviceID("d", "n1", "quarter-0")
    return Relocation(
        Victim(ObjectKey("default", f"web-{number}"), "u", ()),
        OwnerReference(kind="ReplicaSet", name="web", uid="w", controller=True),
        0,
        "n0",
        (),
        HeldPlace("n1", (device,)),
        gains,
    )
