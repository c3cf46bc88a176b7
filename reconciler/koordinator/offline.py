"""Machines and pods as they are in manifests: which pods get which devices, decided one after the other."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reconciler.errors import Malformed
from reconciler.koordinator.demand import Demand, read_demand
from reconciler.koordinator.device import Device
from reconciler.koordinator.failure import Failure
from reconciler.koordinator.fleet import Fleet, Placed, Unserved
from reconciler.koordinator.holder import holder
from reconciler.koordinator.names import ALLOCATED
from reconciler.koordinator.refusing import no_room
from reconciler.koordinator.rules import Rules
from reconciler.objects.core import Pod
from reconciler.objects.meta import ObjectKey

Suits = Callable[[Pod, str], bool]
"""Whether a pod can run on a node. Raises Malformed for a selector that cannot be read."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one pod is given."""

    pod: Pod
    node: str
    text: str
    """The annotation that records it"""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was decided, in the order in which it was."""

    given: tuple[Given, ...]
    refused: tuple[tuple[ObjectKey, str], ...]
    """Pods that asked for devices and got none, and why"""
    notes: tuple[str, ...]
    """What of machines and of pods that hold devices could not be read"""


def decide(
    devices: Iterable[Device],
    labels: Mapping[str, Mapping[str, str]],
    pods: Iterable[Pod],
    suits: Suits,
    rules: Rules,
) -> Report:
    """Give devices to pods in their order. `labels` are those of the nodes.

    Pods with the result annotation hold what it says; those that are done hold nothing and get nothing.
    """
    fleet, notes = Fleet(rules), list[str]()
    for device in devices:
        try:
            notes += fleet.put(device, labels.get(device.key.name, {})).notes
        except Malformed as exc:
            notes.append(str(exc))
    waiting = []
    for pod in pods:
        if pod.finished or pod.metadata.deletion_timestamp:
            continue
        if ALLOCATED not in pod.metadata.annotations:
            waiting.append(pod)
            continue
        try:
            held = holder(pod)
        except Malformed as exc:
            notes.append(str(exc))
            continue
        if held is not None:
            fleet.hold(pod.key, held.node, held.allocation, held.hints)
    given, refused = list[Given](), list[tuple[ObjectKey, str]]()
    for pod in waiting:
        demand = read_demand(pod, rules)
        if demand is None:
            continue
        answer = _answer(fleet, pod, demand, suits)
        if isinstance(answer, Placed):
            hints = demand.hints if isinstance(demand, Demand) else {}
            fleet.hold(pod.key, answer.node, answer.allocation, hints)
            given.append(Given(pod, answer.node, fleet.text(answer.node, answer.allocation)))
        else:
            refused.append((pod.key, answer))
    return Report(tuple(given), tuple(refused), tuple(notes))


def _answer(fleet: Fleet, pod: Pod, demand: Demand | Failure, suits: Suits) -> Placed | str:
    if isinstance(demand, Failure):
        return demand.message
    if pod.spec.resource_claims:
        return "asks for devices by resource claims and by Koordinator's resources; use one of the two"
    try:
        found = fleet.first(demand, lambda node: suits(pod, node))
    except Malformed as exc:
        return str(exc)
    if isinstance(found, Unserved):
        return no_room(found)
    assert found is not None  # nothing limits the tries
    return found
