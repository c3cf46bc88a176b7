"""Checks that an answer obeys the rules, from the answer alone. Does not search.

Whether the answer is the first in order is checked by the exhaustive search.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from reconciler.api.objects.plan import Plan
from tests.tools.allocation_world import World
from tests.tools.builders import Object
from tests.tools.naive_allocation import Device, Scene, constrained, fits, holds_together
from tests.tools.naive_rules import Amounts, applies, exact


def problems(world: World, plans: Sequence[Plan]) -> list[str]:
    """All problems of an answer; empty if it is correct."""
    if [plan.claim.name for plan in plans] != [claim["metadata"]["name"] for claim in world.claims]:
        return ["the answers are not one for each claim, in order"]
    if len({plan.node for plan in plans}) > 1:
        return ["claims on different nodes"]
    if not plans:
        return []
    scene = Scene(world, plans[0].node)
    judged = _Judge(scene)
    for claim, plan in zip(world.claims, plans, strict=True):
        judged.claim(claim, plan.allocation.to_json())
    judged.counters()
    return judged.found


class _Judge:
    """Checks the results in order, and records what they take."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.found: list[str] = []
        self.devices = {"/".join(device.key): device for device in scene.devices}
        self.marked: dict[str, set[str]] = defaultdict(set)
        """device -> claims that took it exclusively"""
        self.consumed: dict[str, Amounts] = defaultdict(dict)
        self.shares: set[str] = set()
        self.charged: list[Device] = []

    def expect(self, fine: bool, problem: str) -> None:
        if not fine:
            self.found.append(problem)

    def claim(self, claim: Object, allocation: Object) -> None:
        results = allocation["devices"]["results"]
        self.expect(len(results) <= 32, "more than 32 results")
        unknown = [name for r in results if (name := _id(r)) not in self.devices]
        if unknown:
            self.found.append(f"not on this node: {unknown}")
            return
        chosen = list(_chosen(claim, results))
        order = [r["request"] for r in results]
        named = [name for name, wanted, mine in chosen for _ in mine]
        self.expect(order == named, f"results are for {order}, not in the order of the requests {named}")
        for name, wanted, mine in chosen:
            self._request(claim, name, wanted, mine)
        self._constraints(claim, results)
        configs = allocation["devices"].get("config", [])
        expected = list(expected_configs(self.scene, claim, [(n, w) for n, w, _ in chosen]))
        self.expect(configs == expected, f"configs {configs}, not {expected}")
        selector = allocation.get("nodeSelector")
        wanted_selector = expected_selector(self.scene, [self.devices[_id(r)] for r in results])
        self.expect(selector == wanted_selector, f"node selector {selector}, not {wanted_selector}")

    def _request(self, claim: Object, name: str, wanted: Object, results: list[Object]) -> None:
        if wanted["allocationMode"] == "All":
            every = ["/".join(d.key) for d in self.scene.devices if self._listed(wanted, d)]
            self.expect(bool(every), f"{name}: all of nothing")
            self.expect([_id(r) for r in results] == every, f"{name}: not all of {every}")
        else:
            self.expect(len(results) == wanted["count"], f"{name}: {len(results)} of {wanted['count']}")
        places = [self.devices[_id(r)].index for r in results]
        self.expect(places == sorted(set(places)), f"{name}: positions {places} do not rise")
        for result in results:
            self._result(claim["metadata"]["name"], wanted, result)

    def _listed(self, wanted: Object, device: Device) -> bool:
        if not self.scene.selectable(wanted, device):
            return False
        consumed = self.scene.consumed(wanted, device)
        before = self.scene.held.shares.get(device.key, {}) if self.scene.world.rules.old else {}
        return consumed is not None and fits(device, consumed, before)

    def _result(self, claim: str, wanted: Object, result: Object) -> None:
        scene, name = self.scene, _id(result)
        device = self.devices[name]
        admin = bool(wanted.get("adminAccess"))
        self.expect(scene.selectable(wanted, device), f"{name} does not match")
        self.expect(scene.may_operate(device), f"{name} skips operations that the node needs")
        self.expect(scene.tolerated(wanted, device), f"{name} has a taint that is not tolerated")
        self.expect(admin or device.key not in scene.held.dedicated, f"{name} is held by another claim")
        taken = self.marked[name]
        self.expect(claim not in taken and (admin or not taken), f"{name} is given twice")
        if scene.multi(device):
            self._share(wanted, device, result)
        else:
            self.expect("shareID" not in result and "consumedCapacity" not in result, f"{name} is no share")
            consumed = scene.consumed(wanted, device)
            before = scene.held.shares.get(device.key, {})
            fine = consumed is not None and fits(device, consumed, before)
            self.expect(fine, f"{name} does not have the capacity")
            taken.add(claim)
            if device.key not in scene.held.shares:
                self.charged.append(device)
        self._copied(wanted, device, result)

    def _share(self, wanted: Object, device: Device, result: Object) -> None:
        scene, name = self.scene, _id(result)
        share = result.get("shareID")
        self.expect(bool(share) and share not in self.shares, f"{name}: share id {share!r}")
        self.shares.add(str(share))
        consumed = scene.consumed(wanted, device) or {}
        written = {key: exact(value) for key, value in result.get("consumedCapacity", {}).items()}
        self.expect(written == consumed, f"{name}: consumes {written}, not {consumed}")
        for key, value in wanted.get("capacity", {}).get("requests", {}).items():
            self.expect(consumed.get(key, Fraction(-1)) >= exact(value), f"{name}: less {key} than wanted")
        if name not in self.consumed and device.key not in scene.held.shares:
            self.charged.append(device)
        total = self.consumed[name] or dict(scene.held.shares.get(device.key, {}))
        for key, value in consumed.items():
            total[key] = total.get(key, Fraction(0)) + value
            self.expect(total[key] <= device.capacity[key], f"{name}: more {key} consumed than there is")
        self.consumed[name] = total

    def _copied(self, wanted: Object, device: Device, result: Object) -> None:
        copied: Object = {}
        if wanted.get("adminAccess"):
            copied["adminAccess"] = True
        if wanted.get("tolerations"):
            copied["tolerations"] = wanted["tolerations"]
        if self.scene.world.rules.binding_conditions:
            conditions = ("bindingConditions", "bindingFailureConditions")
            copied |= {key: device.raw[key] for key in conditions if device.raw.get(key)}
        if device.slice["spec"].get("skipNodeOperations"):
            copied["skipNodeOperations"] = device.slice["spec"]["skipNodeOperations"]
        own = {"request", "driver", "pool", "device", "shareID", "consumedCapacity"}
        written = {key: value for key, value in result.items() if key not in own}
        self.expect(written == copied, f"{_id(result)}: carries {written}, not {copied}")

    def _constraints(self, claim: Object, results: list[Object]) -> None:
        lists = self.scene.has("DRAListTypeAttributes")
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            tied = [
                self.scene.attribute(_wanted(claim, name), self.devices[_id(r)], constrained(constraint))
                for r in results
                if applies(constraint, *(name := _request_and_sub(r["request"])))
            ]
            fine = not tied or holds_together(constraint, tied, lists=lists)
            self.expect(fine, f"{tied} break {constraint}")

    def counters(self) -> None:
        """No counter of a used pool is below zero (CTR-2, CTR-5)."""
        for pool in self.scene.pools:
            drawing = [d for d in self.charged if d in pool.devices and d.raw.get("consumesCounters")]
            if not drawing:
                continue
            self.expect(self.scene.has("DRAPartitionableDevices"), f"{pool.name}: counters are off")
            left = dict(pool.totals)
            held = [d for d in [*pool.devices, *pool.foreign] if d.key in self.scene.held]
            for device in [*held, *drawing]:
                for drawn, value in device.draws.items():
                    left[drawn] -= value
            self.expect(all(value >= 0 for value in left.values()), f"{pool.name}: over-drawn to {left}")


def _id(result: Object) -> str:
    return f"{result['driver']}/{result['pool']}/{result['device']}"


def _wanted(claim: Object, name: tuple[str, str]) -> Object:
    made = next(r for r in claim["spec"]["devices"]["requests"] if r["name"] == name[0])
    return made["exactly"] if not name[1] else next(s for s in made["firstAvailable"] if s["name"] == name[1])


def _request_and_sub(name: str) -> tuple[str, str]:
    request, _, sub = name.partition("/")
    return request, sub


def _chosen(claim: Object, results: list[Object]) -> Iterator[tuple[str, Object, list[Object]]]:
    """Every request: its name in results, its spec, and its results."""
    for request in claim["spec"]["devices"]["requests"]:
        ways = {request["name"]: request["exactly"]} if "exactly" in request else {}
        ways |= {f"{request['name']}/{sub['name']}": sub for sub in request.get("firstAvailable", ())}
        used = [name for name in ways if any(r["request"] == name for r in results)]
        # A request with no results, or with results of several alternatives, has a wrong count or order.
        name = used[0] if used else next(iter(ways))
        yield name, ways[name], [r for r in results if r["request"] == name]


def expected_configs(scene: Scene, claim: Object, chosen: list[tuple[str, Object]]) -> Iterator[Object]:
    """RES-8 to RES-10."""
    old = scene.world.rules.old
    names = [name for name, _ in chosen]

    def written(source: str, requests: list[str], config: Object) -> Object:
        covered = all(name in requests or name.partition("/")[0] in requests for name in names)
        entry: dict[str, Any] = {"source": source, "opaque": config["opaque"]}
        return {**entry, "requests": requests} if requests and (old or not covered) else entry

    for class_name in dict.fromkeys(wanted["deviceClassName"] for _, wanted in chosen):
        users = [name for name, wanted in chosen if wanted["deviceClassName"] == class_name]
        for config in scene.classes[class_name]["spec"].get("config", ()):
            yield written("FromClass", users, config)
    for config in claim["spec"]["devices"].get("config", ()):
        requests = config.get("requests", [])
        meant = [name for name in names if name in requests or name.partition("/")[0] in requests]
        copies = 1 if not requests else len(meant) if old else min(1, len(meant))
        for _ in range(copies):
            yield written("FromClaim", requests, config)


def expected_selector(scene: Scene, devices: list[Device]) -> Object | None:
    """RES-12."""
    parts: dict[str, list[Object]] = {"matchFields": [], "matchExpressions": []}
    for device in devices:
        if device.place.get("nodeName") or device.raw.get("bindsToNode"):
            pinned = {"key": "metadata.name", "operator": "In", "values": [scene.node["metadata"]["name"]]}
            return {"nodeSelectorTerms": [{"matchFields": [pinned]}]}
        if device.place.get("allNodes"):
            continue
        for term in device.place["nodeSelector"]["nodeSelectorTerms"]:
            for part, known in parts.items():
                known += [r for r in term.get(part, ()) if not any(_same(r, k) for k in known)]
    term = {part: known for part, known in parts.items() if known}
    return {"nodeSelectorTerms": [term]} if term else None


def _same(one: Object, other: Object) -> bool:
    return (one["key"], one["operator"], set(one["values"])) == (
        other["key"],
        other["operator"],
        set(other["values"]),
    )
