"""Gangs decided by trying everything: each pod on each node or on none, with each choice of devices."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

from reconciler.allocation.gangs.kinds import AskedGroup, GangGranted
from tests.tools.gang_world import ANY, CLIQUE, KEYS, Asking, Device, GangWorld, Machine, Want

Given = Mapping[str, tuple[Device, ...]]
"""Claim -> its devices"""
Verdict = tuple[int, tuple[bool, ...]]
"""How many pods have a place, and which of the tiers are met, the tightest first"""


@dataclass
class Seats:
    """An answer, or a part of one."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Pod -> node"""
    given: dict[str, tuple[Device, ...]] = field(default_factory=dict)


def seats_of(world: GangWorld, granted: GangGranted) -> Seats:
    """The answer in the words of the twin."""
    known = {(one.node or "network", one.name): one for one in _devices_of(world)}
    return Seats(
        {seat.pod.name: seat.node for seat in granted.seats},
        {
            plan.claim.name: tuple(
                known[result.pool, result.device] for result in plan.allocation.devices.results
            )
            for seat in granted.seats
            for plan in seat.plans
        },
    )


def _devices_of(world: GangWorld) -> Iterator[Device]:
    yield from world.network
    for machine in world.machines:
        yield from machine.devices


class TooMany(Exception):
    """The world has too many choices."""


def best(world: GangWorld, limit: int = 30_000) -> Verdict | None:
    """The best verdict of all allowed answers with at least the minimum; None if there is none."""
    walk = _Walk(world, limit)
    walk.go(0, Seats())
    return walk.best


def verdict(world: GangWorld, seats: Seats) -> Verdict | None:
    """The verdict on an answer; None if it breaks a rule."""
    if len(seats.nodes) < world.least or not allowed(world, seats) or not _in_some_order(world, seats):
        return None
    met = tuple(_met(world, seats, tier.key) for tier in world.tiers)
    if any(tier.required and not one for tier, one in zip(world.tiers, met, strict=True)):
        return None
    if world.tree is not None and _seated(world, seats, world.tree) != len(seats.nodes):
        return None
    return len(seats.nodes), met


def _seated(world: GangWorld, seats: Seats, group: AskedGroup) -> int:
    """How many pods of a group have a place, if it keeps its rules with them; -1 if it breaks one."""
    mine = [world.pods[at].name for leaf in group.pod_groups() for at in leaf.members]
    nodes = [seats.nodes[name] for name in mine if name in seats.nodes]
    if not nodes:
        return 0 if group.is_done else -1
    devices = [
        one
        for pod in world.pods
        if pod.name in mine
        for want in pod.wants
        for one in seats.given.get(want.name, ())
    ]
    devices += [one for at in group.devices for one in _devices_of(world) if (one.node, one.name) == at[1:]]
    for tier in group.tiers:
        values = (
            {one.clique for one in devices}
            if tier.key == CLIQUE
            else {_label(world, node, tier.key) for node in (*nodes, *group.nodes)}
        )
        if len(values) > 1 or "" in values:
            return -1
    if not group.groups:
        return len(nodes) if len(nodes) >= group.least else -1
    found = [_seated(world, seats, one) for one in group.groups]
    have = sum(number >= 0 for number in found)
    used = sum(number for number in found if number > 0)
    return used if have >= group.least and used == len(nodes) else -1


def allowed(world: GangWorld, seats: Seats) -> bool:
    """Whether pods and claims may be like this, apart from tiers."""
    pods = {pod.name: pod for pod in world.pods}
    held = [device for devices in seats.given.values() for device in devices]
    alone = [device for device in held if not device.capacity]
    if len(set(alone)) < len(alone) or _exclude(alone) or not _is_enough(world, seats):
        return False
    users = Counter(want.name for pod in world.pods for want in pod.wants)
    if any(users[name] > 1 and device.takes for name, devices in seats.given.items() for device in devices):
        return False
    return (
        all(
            _fits(one, [pods[p] for p, node in seats.nodes.items() if node == one.name], held)
            for one in world.machines
        )
        and all(_reached(world, pods[name], node, seats.given) for name, node in seats.nodes.items())
        and _keeps_apart(world, seats, pods)
    )


def _exclude(held: Sequence[Device]) -> bool:
    """Whether a device may not be held beside another one of its node."""
    return any(
        one is not other and one.node == other.node and one.excludes and one.excludes == other.kind
        for one in held
        for other in held
    )


def _is_enough(world: GangWorld, seats: Seats) -> bool:
    """Whether the capacity of each shared device suffices."""
    parts = {want.name: want.part for pod in world.pods for want in pod.wants}
    used: Counter[Device] = Counter()
    for name, devices in seats.given.items():
        for device in devices:
            used[device] += parts[name]
    return all(much <= device.capacity for device, much in used.items() if device.capacity)


def _fits(machine: Machine, pods: list[Asking], held: list[Device]) -> bool:
    drawn = sum(device.draws for device in held if device.node == machine.name)
    mounted = sum(pod.volume for pod in pods)
    cpu = sum(pod.cpu for pod in pods)
    cpu += sum(device.takes for device in held if device.node == machine.name)
    return cpu <= machine.cpu and drawn <= machine.counter and mounted <= machine.volumes


def _reached(world: GangWorld, pod: Asking, node: str, given: Given) -> bool:
    for want in pod.wants:
        devices = given[want.name]
        if len(devices) != want.count or any(
            not want.suits(one) or one.node not in ("", node) for one in devices
        ):
            return False
        if len({one.kind for one in devices}) > 1 and want.kind != ANY:
            return False
        if want.near and ("" in {one.bus for one in devices} or len({one.bus for one in devices}) > 1):
            return False
    return True


def _keeps_apart(world: GangWorld, seats: Seats, pods: Mapping[str, Asking]) -> bool:
    for one, here in seats.nodes.items():
        key = pods[one].apart
        mine = _label(world, here, key) if key else ""
        for other, there in seats.nodes.items():
            if other != one and mine and mine == _label(world, there, key):
                return False
    return True


def _in_some_order(world: GangWorld, seats: Seats) -> bool:
    """Whether the pods can come one after another so that each finds the pods that it wants beside it."""
    pods = {pod.name: pod for pod in world.pods}
    return any(
        all(
            _beside(world, seats, pods[name], order[:at]) and _is_even(world, seats, pods[name], order[:at])
            for at, name in enumerate(order)
        )
        for order in permutations(seats.nodes)
    )


def _beside(world: GangWorld, seats: Seats, pod: Asking, before: Sequence[str]) -> bool:
    if not pod.beside:
        return True
    own = _label(world, seats.nodes[pod.name], pod.beside)
    there = [_label(world, seats.nodes[name], pod.beside) for name in before]
    return bool(own) and (own in there or not any(there))


def _is_even(world: GangWorld, seats: Seats, pod: Asking, before: Sequence[str]) -> bool:
    if not pod.even:
        return True
    there = Counter(_label(world, seats.nodes[name], pod.even) for name in before)
    least = min(there[_label(world, machine.name, pod.even)] for machine in world.machines)
    return there[_label(world, seats.nodes[pod.name], pod.even)] + 1 - least <= 1


def _label(world: GangWorld, node: str, key: str) -> str:
    machine = next(one for one in world.machines if one.name == node)
    return {"rack": machine.rack, "block": machine.block}.get(key, machine.name)


def _met(world: GangWorld, seats: Seats, key: str) -> bool:
    if key == CLIQUE and not _is_label(world, key):
        values = {device.clique for devices in seats.given.values() for device in devices}
    else:
        values = {_label(world, node, key) for node in (*seats.nodes.values(), *world.placed)}
    return len(values) == 1 and "" not in values


def _is_label(world: GangWorld, key: str) -> bool:
    return key in KEYS[:2]


class _Walk:
    def __init__(self, world: GangWorld, limit: int) -> None:
        self.world, self.left = world, limit
        self.best: Verdict | None = None
        self.most = (len(world.pods), tuple(True for _ in world.tiers))

    def go(self, at: int, seats: Seats) -> None:
        """All answers for the pods from `at` on."""
        self.left -= 1
        if self.left < 0:
            raise TooMany
        if self.best == self.most:
            return
        if at == len(self.world.pods):
            found = verdict(self.world, seats)
            if found is not None and (self.best is None or found > self.best):
                self.best = found
            return
        remaining = len(self.world.pods) - at
        if len(seats.nodes) + remaining < max(self.world.least, self.best[0] if self.best else 0):
            return
        pod = self.world.pods[at]
        for machine in self.world.machines:
            for given in self._choices(pod, machine, seats.given):
                following = Seats({**seats.nodes, pod.name: machine.name}, given)
                if allowed(self.world, following):
                    self.go(at + 1, following)
        self.go(at + 1, seats)

    def _choices(
        self, pod: Asking, machine: Machine, given: Given
    ) -> Iterator[dict[str, tuple[Device, ...]]]:
        pending: list[dict[str, tuple[Device, ...]]] = [dict(given)]
        for want in pod.wants:
            if want.name not in given:
                pending = [
                    {**one, want.name: devices}
                    for one in pending
                    for devices in self._devices(want, machine, one)
                ]
        yield from pending

    def _devices(self, want: Want, machine: Machine, given: Given) -> Iterator[tuple[Device, ...]]:
        taken = {device for devices in given.values() for device in devices if not device.capacity}
        usable = [
            device
            for device in (*machine.devices, *self.world.network)
            if want.suits(device) and device not in taken
        ]
        return combinations(usable, want.count)
