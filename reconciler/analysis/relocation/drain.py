"""Whether everything on drained nodes and devices can go elsewhere, and in which order. Source: MAKE-8.

Pods leave one after another, or gang by gang, the most important first. Each is placed before the next one
leaves. Those that find no place are tried again, first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import Struct

from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.relocation.leaving import Move, leave, move_all
from reconciler.analysis.relocation.occupants import DAEMON_SET, MIRROR, Occupant, Occupants, Pods
from reconciler.analysis.world import World, remove_nodes
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import is_live
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.slices import Device, ResourceSliceSpec
from reconciler.state.pods.placed import pinned_to
from reconciler.state.trial import Trial

DRIVER_VERSION = "driverVersion"
"""The name of the attribute, in any domain"""
Matches = Callable[[ResourceSliceSpec, Device], bool]


class Drained(Struct, frozen=True):
    """What is gone."""

    nodes: frozenset[str] = frozenset()
    devices: frozenset[DeviceID] = frozenset()


def without_nodes(names: frozenset[str], world: World) -> Drained:
    """Remove nodes. Raises Rejected for one that does not exist."""
    remove_nodes(names, world.store, world.nodes)
    return Drained(nodes=names)


def without_devices(matches: Matches, world: World) -> Drained:
    """Remove devices. What pods hold of them stays held until they leave."""
    found: set[DeviceID] = set()
    for source in list(world.store.supply.slices):
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
        return any(version in (one.get("version"), one.get("string")) for one in found)

    return matches


def of_taint(key: str, world: World) -> Matches:
    """The devices with a taint of this key, from their slice or from a DeviceTaintRule."""
    fleet = world.store.snapshot().fleet
    taints = fleet.vocabulary.taints.values
    codes = [code for code, found in enumerate(taints) if any(taint.key == key for taint in found)]
    tainted = {fleet.id_of(row) for row in np.flatnonzero(np.isin(fleet.codes["taints"], codes)).tolist()}

    def matches(spec: ResourceSliceSpec, device: Device) -> bool:
        return DeviceID(spec.driver, spec.pool.name, device.name) in tainted

    return matches


ROUNDS = 5
"""Orders that are tried"""


class DrainStep(Struct, frozen=True):
    """Pods that leave together."""

    move: Move
    alone: bool = True
    """If they find no place: whether that is certain even if nobody else of the drained moves"""
    waits_for: tuple[ObjectKey, ...] = ()
    """Budgets that allow no eviction now"""


class DrainAnswer(Struct, frozen=True):
    """The answer about a drain."""

    steps: tuple[DrainStep, ...]
    """In the order in which pods leave; those that find no place at the end"""
    ignored: tuple[ObjectKey, ...]
    """Pods that belong to their node: of DaemonSets, and mirror pods"""
    unused: tuple[ObjectKey, ...]
    """Claims that hold drained devices without any pod"""
    devices: Mapping[ObjectKey, tuple[DeviceID, ...]]
    """Claim -> the devices that it holds now"""

    @property
    def stuck(self) -> tuple[DrainStep, ...]:
        """The steps that find no place."""
        return tuple(step for step in self.steps if step.move.refusal is not None)

    @property
    def empties(self) -> bool:
        """Whether everything can go elsewhere."""
        return not self.stuck and not self.unused

    @property
    def proved(self) -> bool:
        """Whether another order could not help."""
        return all(step.alone for step in self.stuck)

    @property
    def gave_up(self) -> bool:
        """Whether a search gave up, and nothing else keeps what is drained from being emptied for certain."""
        unsure = not self.unused and not any(step.alone for step in self.stuck)
        refusals = [step.move.refusal for step in self.stuck]
        return unsure and any(refusal is not None and not refusal.proven for refusal in refusals)

    def as_json(self) -> dict[str, Any]:
        """The field names are stable."""
        return {
            "empties": self.empties,
            "proved": self.proved,
            "steps": [self._step(step) for step in self.steps if step.move.refusal is None],
            "stuck": [{**self._step(step), "evenAlone": step.alone} for step in self.stuck],
            "staysWithItsNode": [str(key) for key in self.ignored],
            "claimsWithoutPods": [str(key) for key in self.unused],
        }

    def _step(self, step: DrainStep) -> dict[str, Any]:
        waits = [str(key) for key in step.waits_for]
        return {**step.move.as_json(self.devices), "waitsForBudgets": waits}


def drain(world: World, drained: Drained) -> DrainAnswer:
    """Where everything goes that uses what is drained. It must be removed from the world already."""
    occupants = Occupants(world)
    held: dict[ObjectKey, tuple[DeviceID, ...]] = {}
    concerned: set[ObjectKey] = set()
    for claim in occupants.users:
        allocation = occupants.allocations[claim]
        held[claim] = tuple(one.id for one in allocation.devices.results)
        if (
            not drained.devices.isdisjoint(held[claim])
            or pinned_to(allocation.node_selector) in drained.nodes
        ):
            concerned.add(claim)
    leaving: list[ObjectKey] = []
    ignored: list[ObjectKey] = []
    for key, one in sorted(occupants.pods.items(), key=lambda entry: queue_key(entry[1].pod)):
        if (one.node in drained.nodes or not concerned.isdisjoint(one.claims)) and is_live(one.pod):
            belongs = bool(drained.nodes) and _belongs_to_its_node(one)
            (ignored if belongs else leaving).append(key)
    groups = _groups(leaving, occupants)
    with world.trial() as trial:
        steps = _best(groups, occupants, trial)
    unused = tuple(sorted(claim for claim in concerned if not occupants.users[claim]))
    return DrainAnswer(tuple(steps), tuple(ignored), unused, held)


def _belongs_to_its_node(one: Occupant) -> bool:
    owner = one.controller
    return MIRROR in one.pod.metadata.annotations or (owner is not None and owner.kind == DAEMON_SET)


def _groups(leaving: Sequence[ObjectKey], occupants: Occupants) -> list[Pods]:
    """The pods that leave together, in order: gangs that would be too small, and users of one claim."""
    whole = occupants.together(leaving)
    found: list[Pods] = []
    for key in leaving:
        if any(key in group for group in found):
            continue
        group = frozenset([key])
        while True:
            claims = {claim for one in group for claim in occupants.pods[one].claims}
            users = frozenset().union(*(occupants.users[claim] for claim in claims)) & frozenset(leaving)
            more = group | users | occupants.fellows(group, whole)
            if more == group:
                break
            group = more
        found.append(group)
    return found


def _best(groups: list[Pods], occupants: Occupants, trial: Trial) -> list[DrainStep]:
    """The order with which the fewest are left without a place."""
    order, best, fewest = groups, list[DrainStep](), len(groups) + 1
    for _ in range(ROUNDS):
        steps, left = _in_order(order, occupants, trial)
        if len(left) < fewest:
            best, fewest = steps, len(left)
        if not left:
            break
        again = [*left, *(group for group in order if group not in left)]
        if again == order:
            break
        order = again
    return best


def _in_order(
    order: Sequence[Pods], occupants: Occupants, trial: Trial
) -> tuple[list[DrainStep], list[Pods]]:
    """Move group after group; and the groups that find no place."""
    steps: list[DrainStep] = []
    waiting = list(order)
    mark = trial.mark()
    refused: dict[Pods, tuple[Move, ...]] = {}
    while waiting:  # those that moved may have left room for others
        left = []
        for group in waiting:
            before = trial.mark()
            moves = _move(group, occupants, trial)
            if any(move.refusal is not None for move in moves):
                trial.back_to(before)
                left.append(group)
                refused[group] = moves
            else:
                steps += [DrainStep(move, waits_for=_budgets(move, occupants)) for move in moves]
        if len(left) == len(waiting):
            break
        waiting = left
    trial.back_to(mark)
    for group in waiting:
        refusals = [move.refusal for move in _move(group, occupants, trial)]
        alone = any(refusal is not None and refusal.proven for refusal in refusals)
        trial.back_to(mark)
        steps += [DrainStep(move, alone, _budgets(move, occupants)) for move in refused[group]]
    return steps, waiting


def _move(group: Pods, occupants: Occupants, trial: Trial) -> tuple[Move, ...]:
    leave(trial, group, occupants)
    return move_all(group, occupants, trial)


def _budgets(move: Move, occupants: Occupants) -> tuple[ObjectKey, ...]:
    """The budgets that allow none of these evictions now."""
    used = {number for key in move.unit.pods for number in occupants.pods[key].budgets}
    budgets = occupants.budgets
    return tuple(budgets.key(number) for number in sorted(used) if not budgets.allowed[number])
