"""Claims, templates and pods as JSON."""

from random import Random

from reconciler.control.ownership import MANAGED
from tests.tools import small_fleet
from tests.tools.simulation.fleet import CLASSES, DRA, FOREIGN, NIC, PART, Object


def claim_spec(drivers: frozenset[str], random: Random) -> Object:
    """One or two requests for devices that the fleet has, or nearly."""
    names = sorted(name for name, (driver, _) in CLASSES.items() if driver in drivers - {FOREIGN})
    if random.random() < 0.05:
        names = ["foreign"]  # which we must not give
    count = random.choice((1, 1, 1, 2))
    return {"devices": {"requests": [_request(f"r{n}", names, random) for n in range(count)]}}


def plain_spec(drivers: frozenset[str], random: Random) -> Object:
    """One or two devices of one class, so that pods often stand in each other's way."""
    names = sorted(name for name, (driver, _) in CLASSES.items() if driver in drivers - {FOREIGN, NIC})
    wish = {"deviceClassName": random.choice(names), "count": random.choice((1, 1, 1, 2))}
    return {"devices": {"requests": [{"name": "r", "exactly": wish}]}}


def small_spec(drivers: frozenset[str], random: Random) -> Object:
    """A small part of a card, or half of one."""
    assert PART in drivers
    wish = {"deviceClassName": random.choice(("part-small", "part-small", "part-half")), "count": 1}
    return {"devices": {"requests": [{"name": "r", "exactly": wish}]}}


def _request(name: str, classes: list[str], random: Random) -> Object:
    if random.random() < 0.15:
        ways = [_wish(classes, random) for _ in range(2)]
        return {"name": name, "firstAvailable": [{"name": f"s{n}", **way} for n, way in enumerate(ways)]}
    return {"name": name, "exactly": _wish(classes, random)}


def _wish(classes: list[str], random: Random) -> Object:
    name = random.choice(classes)
    wish: Object = {"deviceClassName": name, "count": random.choice((1, 1, 1, 2, 3))}
    if CLASSES[name][0] == NIC:
        wish |= {"count": 1, "capacity": {"requests": {"bandwidth": f"{random.choice((1, 2, 4))}G"}}}
    return wish


def claim(name: str, spec: Object, *, managed: bool = True) -> Object:
    labels = {MANAGED: "true"} if managed else {}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def template(name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def pod(name: str, claims: list[str], templates: list[str], *, zone: str | None, priority: int) -> Object:
    """A pod with our gate."""
    there: Object = {"nodeSelector": {"zone": zone}} if zone else {}
    return small_fleet.pod(name, *claims, templates=tuple(templates), priority=priority, **there)
