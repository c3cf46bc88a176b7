"""Pools as their slices have them at one time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.tools.simulation.audit.amounts import Amount, amount

Pool = tuple[str, str]
"""Driver and name"""
Draws = Mapping[tuple[str, str], Amount]
"""Counter set and counter -> how much"""
NONE: Draws = {}


@dataclass(frozen=True)
class Device:
    """One device that a pool offers."""

    draws: Draws
    nodes: frozenset[str]
    profile: str | None
    capacity: Mapping[str, Amount] | None
    """If the device may be shared"""


@dataclass(frozen=True)
class PoolState:
    """What the newest generation offers; nothing while it is incomplete."""

    devices: Mapping[str, Device]
    totals: Draws

    def draws(self, name: str) -> Draws:
        device = self.devices.get(name)
        return device.draws if device else NONE


def pool_of(slice_: Any) -> Pool:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def state_of(slices: Iterable[Any], zones: Mapping[str, str]) -> PoolState:
    """A pool read from its slices; `zones` is node -> zone."""
    found = list(slices)
    newest = max((one["spec"]["pool"]["generation"] for one in found), default=0)
    current = [one["spec"] for one in found if one["spec"]["pool"]["generation"] == newest]
    if not current or any(one["pool"]["resourceSliceCount"] != len(current) for one in current):
        return PoolState({}, {})
    devices = {
        device["name"]: _device(device, _nodes(spec, zones))
        for spec in current
        for device in spec.get("devices", ())
    }
    totals = {
        (set_["name"], name): amount(counter["value"])
        for spec in current
        for set_ in spec.get("sharedCounters", ())
        for name, counter in set_["counters"].items()
    }
    if any(not device.draws.keys() <= totals.keys() for device in devices.values()):
        return PoolState({}, {})
    return PoolState(devices, totals)


def _nodes(spec: Any, zones: Mapping[str, str]) -> frozenset[str]:
    if "nodeName" in spec:
        return frozenset([spec["nodeName"]])
    ((expression,),) = [term["matchExpressions"] for term in spec["nodeSelector"]["nodeSelectorTerms"]]
    return frozenset(name for name, zone in zones.items() if zone in expression["values"])


def _device(raw: Any, nodes: frozenset[str]) -> Device:
    draws = {
        (draw["counterSet"], name): amount(counter["value"])
        for draw in raw.get("consumesCounters", ())
        for name, counter in draw["counters"].items()
    }
    capacity = None
    if raw.get("allowMultipleAllocations"):
        capacity = {name: amount(value["value"]) for name, value in raw.get("capacity", {}).items()}
    return Device(draws, nodes, raw.get("attributes", {}).get("profile", {}).get("string"), capacity)
