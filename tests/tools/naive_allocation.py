"""The rules about the devices of one node (docs/reference/rules) on JSON, with plain loops: slow on purpose.

Shares nothing with the allocator except quantities, semantic versions and the evaluation of one CEL
expression on one device.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from reconciler.api.objects.plan import Reason
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError, CelRefused
from reconciler.cel.program import compile_derived, compile_selector
from reconciler.cel.values import DeviceView
from tests.tools.allocation_world import World
from tests.tools.builders import Object
from tests.tools.naive_rules import (
    Amounts,
    DeviceKey,
    Failure,
    exact,
    holdings,
    permitted,
    resolved,
    selected,
    tolerates,
    values_of,
)


@dataclass(eq=False)
class Device:
    """A device as its slice publishes it, on one node."""

    raw: Object
    slice: Object
    here: bool
    """Whether the node reaches the device itself"""
    index: int
    rules_taints: list[Object] = field(default_factory=list)

    @property
    def key(self) -> DeviceKey:
        spec = self.slice["spec"]
        return spec["driver"], spec["pool"]["name"], self.raw["name"]

    @property
    def driver(self) -> str:
        return self.key[0]

    @property
    def place(self) -> Object:
        """The object with the node fields: the device or the slice (RES-12)."""
        spec = self.slice["spec"]
        return self.raw if spec.get("perDeviceNodeSelection") else spec

    @property
    def draws(self) -> dict[tuple[str, str], Fraction]:
        """(set, counter) -> amount."""
        return {
            (entry["counterSet"], name): exact(counter["value"])
            for entry in self.raw.get("consumesCounters", ())
            for name, counter in entry["counters"].items()
            if "value" in counter
        }

    @property
    def asks(self) -> dict[tuple[str, str], str]:
        """(set, counter) -> the capacity of which a request says the amount."""
        return {
            (entry["counterSet"], name): counter["valueFrom"]["capacityName"]
            for entry in self.raw.get("consumesCounters", ())
            for name, counter in entry["counters"].items()
            if "valueFrom" in counter
        }

    def spelled(self, key: str) -> str:
        """A capacity key with its domain."""
        return key if "/" in key else f"{self.driver}/{key}"

    @property
    def capacity(self) -> dict[str, Fraction]:
        return {key: exact(entry["value"]) for key, entry in self.raw.get("capacity", {}).items()}

    def attribute(self, name: str) -> Object | None:
        """CON-4: the qualified key, else the bare one if the domain is the driver's."""
        attributes = self.raw.get("attributes", {})
        domain, _, bare = name.partition("/")
        found = attributes.get(name)
        return attributes.get(bare) if found is None and domain == self.driver else found


@dataclass
class Pool:
    """A pool from the point of view of the node."""

    driver: str
    name: str
    problem: Reason | None
    """INCOMPLETE_POOL, INVALID_POOL, or None if usable"""
    devices: list[Device]
    foreign: list[Device]
    totals: dict[tuple[str, str], Fraction]
    counters: dict[tuple[str, str], Object] = field(default_factory=dict)


def reaches(place: Object, node: Object) -> bool:
    """NM-1."""
    if place.get("nodeName"):
        return place["nodeName"] == node["metadata"]["name"]
    if place.get("allNodes"):
        return True
    return "nodeSelector" in place and selected(place["nodeSelector"], node)


class Scene:
    """One node of a world."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.node = next(n for n in world.nodes if n["metadata"]["name"] == name)
        self.held = holdings(world)
        self.classes = {c["metadata"]["name"]: c for c in world.classes}
        self._seen: dict[tuple[int, tuple[str, ...]], bool | Reason] = {}

    def has(self, gate: str) -> bool:
        return self.world.rules.has(gate)

    # -- POOL-1 to POOL-15

    @cached_property
    def pools(self) -> list[Pool]:
        """In the order of first fit (POOL-14)."""
        names = sorted({(s["spec"]["driver"], s["spec"]["pool"]["name"]) for s in self.world.slices})
        seen = [pool for driver, name in names if (pool := self._pool(driver, name)) is not None]
        waiting = [
            pool.problem is None and any(d.raw.get("bindingConditions") for d in pool.devices)
            for pool in seen
        ]
        pools = [p for p, waits in zip(seen, waiting, strict=True) if not waits]
        pools += [p for p, waits in zip(seen, waiting, strict=True) if waits]
        index = 0
        for pool in pools:
            for device in pool.devices:
                device.index = index
                index += 1
        return pools

    @cached_property
    def devices(self) -> list[Device]:
        """All devices that can be candidates, by position."""
        return [device for pool in self.pools for device in pool.devices]

    def pool_of(self, device: Device) -> Pool:
        return next(pool for pool in self.pools if (pool.driver, pool.name) == device.key[:2])

    def _relevant(self, source: Object) -> bool:
        spec = source["spec"]
        if not self.has("DRAPartitionableDevices") and (
            "perDeviceNodeSelection" in spec or spec.get("sharedCounters")
        ):
            return False
        if self.world.rules.release == "1.36" and spec.get("sharedCounters"):
            return True
        if spec.get("perDeviceNodeSelection"):
            return any(reaches(d, self.node) for d in spec.get("devices", ()))
        return reaches(spec, self.node)

    def _pool(self, driver: str, name: str) -> Pool | None:
        published = [
            s for s in self.world.slices if (s["spec"]["driver"], s["spec"]["pool"]["name"]) == (driver, name)
        ]
        relevant = [s for s in published if self._relevant(s)]
        if not relevant:
            return None
        generation = max(s["spec"]["pool"]["generation"] for s in relevant)
        current = [s for s in relevant if s["spec"]["pool"]["generation"] == generation]
        peers = [s for s in published if s["spec"]["pool"]["generation"] == generation]
        want, *others_want = {s["spec"]["pool"]["resourceSliceCount"] for s in peers}
        if len(current) != want or others_want:
            if any(s["spec"]["pool"]["generation"] > generation for s in published):
                return None
            if others_want:
                return Pool(driver, name, Reason.INVALID_POOL, [], [], {})
            if len(peers) != want:
                return Pool(driver, name, Reason.INCOMPLETE_POOL, [], [], {})
        # Slices for other nodes count only if these alone do not make the pool complete (POOL-10).
        others = [s for s in peers if len(current) != want and s not in current]
        return self._assembled(driver, name, current, others)

    def _assembled(self, driver: str, name: str, current: list[Object], others: list[Object]) -> Pool:
        partitionable = self.has("DRAPartitionableDevices")
        in_order = sorted(current, key=lambda s: s["metadata"]["name"].encode())
        here = list(self._devices(in_order))
        foreign = list(self._devices(others))
        sets: list[Object] = [
            counters for s in [*current, *others] for counters in s["spec"].get("sharedCounters", ())
        ]
        entries = {
            (counters["name"], counter): entry
            for counters in sets
            for counter, entry in counters["counters"].items()
        }
        totals = {key: exact(entry["value"]) for key, entry in entries.items()}
        names = [device.raw["name"] for device in here]
        invalid = len(set(names)) < len(names)
        if partitionable:
            invalid |= len({c["name"] for c in sets}) < len(sets)
            invalid |= any(drawn not in totals for d in [*here, *foreign] for drawn in d.draws)
            invalid |= any(
                entry["counterSet"] not in {c["name"] for c in sets}
                for d in [*here, *foreign]
                for entry in d.raw.get("consumesCounters", ())
            )
        if invalid:
            return Pool(driver, name, Reason.INVALID_POOL, [], [], {})
        return Pool(driver, name, None, here, foreign, totals, entries)

    def _devices(self, slices: list[Object]) -> Iterator[Device]:
        for source in slices:
            spec = source["spec"]
            for raw in spec.get("devices", ()):
                place = raw if spec.get("perDeviceNodeSelection") else spec
                device = Device(raw, source, reaches(place, self.node), -1)
                device.rules_taints = [
                    rule["spec"]["taint"] for rule in self.world.taint_rules if self.is_tainted(rule, device)
                ]
                yield device

    def is_tainted(self, rule: Object, device: Device) -> bool:
        selector = rule["spec"].get("deviceSelector")
        if selector is None or not self.has("DRADeviceTaintRules"):
            return False
        names = zip(("driver", "pool", "device"), device.key, strict=True)
        if not all(field not in selector or selector[field] == name for field, name in names):
            return False
        if (of_class := selector.get("deviceClassName")) is not None and of_class not in self.classes:
            return False
        found = self.classes[of_class]["spec"].get("selectors", ()) if of_class is not None else ()
        expressions = tuple(s["cel"]["expression"] for s in (*found, *selector.get("selectors", ())))
        for expression in expressions:
            try:
                if not compile_selector(expression).matches(self.view(device)):
                    return False
            except CelRefused:
                pass
            except CelError:
                return False
        return True

    # -- SEL-1 to SEL-6

    def expressions(self, wanted: Object) -> tuple[str, ...]:
        of_class = self.classes[wanted["deviceClassName"]]["spec"].get("selectors", ())
        return tuple(s["cel"]["expression"] for s in (*of_class, *wanted.get("selectors", ())))

    def selectable(self, wanted: Object, device: Device) -> bool:
        """Class, request, node. Raises Failure."""
        key = id(device), self.expressions(wanted)
        if key not in self._seen:
            try:
                self._seen[key] = self._selectable(key[1], device)
            except Failure as failure:
                self._seen[key] = failure.reason
        seen = self._seen[key]
        if isinstance(seen, Reason):
            raise Failure(seen)
        return seen

    def _selectable(self, expressions: tuple[str, ...], device: Device) -> bool:
        if device.raw.get("bindingConditions") and not self.world.rules.binding_conditions:
            return False
        for expression in expressions:
            try:
                if not compile_selector(expression).matches(self.view(device)):
                    return False
            except CelRefused:
                raise Failure(Reason.CEL_COMPILE) from None
            except CelError:
                raise Failure(Reason.CEL_RUNTIME) from None
        return device.here

    def view(self, device: Device) -> DeviceView:
        """The device as selectors see it."""
        attributes: dict[str, dict[str, Any]] = {}
        unreadable = ""
        for key, typed in device.raw.get("attributes", {}).items():
            domain, _, name = key.rpartition("/")
            ((kind, value),) = typed.items()
            if kind == "version":
                value = Semver.parse(value)
            elif kind == "versions":
                value = tuple(map(Semver.parse, value))
            elif kind.endswith("s"):
                value = tuple(value)
            if isinstance(value, tuple) and self.world.rules.old and not self.has("DRAListTypeAttributes"):
                unreadable = "a list"
            attributes.setdefault(domain or device.driver, {})[name] = value
        capacity: dict[str, dict[str, Quantity]] = {}
        for key, entry in device.raw.get("capacity", {}).items():
            domain, _, name = key.rpartition("/")
            capacity.setdefault(domain or device.driver, {})[name] = Quantity.parse(entry["value"])
        return DeviceView(
            driver=device.driver,
            attributes=attributes,
            capacity=capacity,
            shared=bool(device.raw.get("allowMultipleAllocations")),
            unreadable=unreadable,
        )

    # -- CON-12, CON-13

    def attribute(self, wanted: Object, device: Device, name: str) -> Object | None:
        """An attribute as a request sees it. Raises Failure."""
        expression = next(
            (d["expression"] for d in wanted.get("derivedAttributes", ()) if d["name"] == name), None
        )
        if expression is None:
            return device.attribute(name)
        view = self.view(device)
        if view.unreadable:
            raise Failure(Reason.DERIVED_ATTRIBUTE)
        try:
            key = compile_derived(expression).key(view)
        except (CelRefused, CelError):
            raise Failure(Reason.DERIVED_ATTRIBUTE) from None
        return {key[0]: key[1]} if isinstance(key, tuple) else {"string": key}

    # -- CAP-1 to CAP-14

    def multi(self, device: Device) -> bool:
        return bool(device.raw.get("allowMultipleAllocations")) and self.has("DRAConsumableCapacity")

    def consumed(self, wanted: Object, device: Device) -> Amounts | None:
        """What a device consumes of every capacity; None if it does not have enough. Raises Failure."""
        if not self.has("DRAConsumableCapacity"):
            return {}
        asked = {k: exact(v) for k, v in wanted.get("capacity", {}).get("requests", {}).items()}
        offered = device.raw.get("capacity", {})
        taken = {
            key: resolved(entry, asked.get(key), fractional=self._fractional)
            for key, entry in offered.items()
        }
        if any(value < 0 for value in taken.values()):
            raise Failure(Reason.CAPACITY_INVALID)
        drawn = {device.spelled(key) for key in device.asks.values()} if self.requests_draw else set()
        if any(key not in offered and device.spelled(key) not in drawn for key in asked):
            return None
        if not all(
            permitted(entry, taken[key], fractional=self._fractional) for key, entry in offered.items()
        ):
            return None
        return taken

    # -- SCC-1 to SCC-3

    @property
    def requests_draw(self) -> bool:
        return self.has("DRASharedConsumableCapacity")

    def requested(self, wanted: Object, device: Device) -> dict[tuple[str, str], Fraction] | None:
        """What a device draws as a request says; None if a policy or a counter does not allow it."""
        asked = wanted.get("capacity", {}).get("requests", {})
        found: dict[tuple[str, str], Fraction] = {}
        for counter, name in device.asks.items() if self.requests_draw else ():
            entry = self.pool_of(device).counters[counter]
            given = [exact(v) for k, v in asked.items() if device.spelled(k) == device.spelled(name)]
            try:
                found[counter] = resolved(entry, max(given, default=None), fractional=self._fractional)
            except Failure:
                return None
            if found[counter] < 0 or found[counter] > exact(entry["value"]):
                return None
            if not permitted(entry, found[counter], fractional=self._fractional):
                return None
        return found

    def held_draws(self, device: Device) -> dict[tuple[str, str], Fraction]:
        """What a held device draws: as much as its results say, and at least what its slice says."""
        records = self.held.records[device.key] if self.requests_draw else []
        found = dict(device.draws)
        for counter, total in self.pool_of(device).totals.items():
            said = [record[counter] for record in records if record and counter in record]
            if counter in device.draws:
                found[counter] = max([device.draws[counter], *said])
            elif counter in device.asks and None in records:
                found[counter] = total
            elif said:
                found[counter] = sum(said, Fraction(0))
        return found

    @property
    def _fractional(self) -> bool:
        return self.has("DRAFractionalCapacityRange")

    # -- TNT-1 to TNT-8

    def tolerated(self, wanted: Object, device: Device) -> bool:
        if not self.has("DRADeviceTaints"):
            return True
        keeping = [
            taint
            for taint in [*device.raw.get("taints", ()), *device.rules_taints]
            if taint["effect"] in ("NoSchedule", "NoExecute")
        ]
        return all(any(tolerates(t, taint) for t in wanted.get("tolerations", ())) for taint in keeping)

    def may_operate(self, device: Device) -> bool:
        """Step 4: devices that skip node operations need a node with that feature."""
        if not device.slice["spec"].get("skipNodeOperations"):
            return True
        features = self.node.get("status", {}).get("declaredFeatures", ())
        return "DRAOptionalNodeOperations" in features


def fits(device: Device, consumed: Amounts, before: Amounts) -> bool:
    """CAP-8."""
    return all(before.get(k, Fraction(0)) + v <= device.capacity[k] for k, v in consumed.items())


def constrained(constraint: Object) -> str:
    """The attribute of a constraint."""
    return constraint["matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"]


def holds_together(constraint: Object, published: list[Object | None], *, lists: bool) -> bool:
    """CON-3, CON-5 to CON-8: whether devices with these attributes meet a constraint together."""
    match = "matchAttribute" in constraint
    if None in published:
        return False
    values = [values_of(attribute, lists=lists) for attribute in published]
    known = [v for v in values if v is not None]
    if match:
        if len(known) < len(values):
            return len(values) == 1
        return bool(frozenset.intersection(*known))
    if len(known) < len(values):
        return False
    return all(not a & b for n, a in enumerate(known) for b in known[:n])
