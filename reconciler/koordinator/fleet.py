"""All machines with Device objects, what pods hold of them, and who might serve a pod."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.types import Mask
from reconciler.koordinator.annotations import Hint
from reconciler.koordinator.columns import Columns
from reconciler.koordinator.decision import allocate
from reconciler.koordinator.demand import Demand
from reconciler.koordinator.device import Device
from reconciler.koordinator.failure import Failure
from reconciler.koordinator.feasible import feasible
from reconciler.koordinator.holdings import Allocation, Holdings
from reconciler.koordinator.machine import Machine, machine_of
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.shares import NOTHING
from reconciler.objects.meta import ObjectKey


class Fleet:
    """The mutable picture. A machine's rows change when its Device object or its pods do, and no others."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._columns = Columns()
        self._machines: dict[str, Machine] = {}
        self._holdings: dict[str, Holdings] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._nodes: dict[ObjectKey, str] = {}
        self._lenient: Mask = np.zeros(0, dtype=np.bool_)

    def put(self, device: Device, node_labels: Mapping[str, str]) -> Machine:
        """Take in a Device object with its Node's labels. Raises Malformed; the machine stays as it was."""
        machine = machine_of(device, node_labels, self.rules.semantics)
        self._describe(machine)
        return machine

    def remove(self, name: str) -> None:
        """A Device object is gone: its devices count as sick until it returns, and their holders stay.

        One that never was, or could not be read, is no error.
        """
        if name not in self._machines:
            return
        machine = self._machines[name]
        capacity = {kind: dict.fromkeys(minors, NOTHING) for kind, minors in machine.capacity.items()}
        devices = {
            kind: {minor: info.model_copy(update={"health": False}) for minor, info in minors.items()}
            for kind, minors in machine.devices.items()
        }
        self._describe(replace(machine, capacity=capacity, devices=devices))

    def hold(self, pod: ObjectKey, node: str, allocation: Allocation, hints: Mapping[str, Hint]) -> None:
        """Record what a pod holds and how alone it is to be, in place of what it held before."""
        self.release(pod)
        self._nodes[pod] = node
        self._holdings.setdefault(node, Holdings()).hold(pod, allocation, hints)
        self._occupied(node)

    def release(self, pod: ObjectKey) -> None:
        """Forget a pod; one that holds nothing is no error."""
        node = self._nodes.pop(pod, None)
        if node is not None:
            self._holdings[node].release(pod)
            self._occupied(node)

    def candidates(self, demand: Demand) -> list[str]:
        """Machines that might serve a pod, in the order of names. None of the others can."""
        upstream = self.rules.upstream
        mask = feasible(self._columns, demand, self._lenient, upstream=upstream)
        return sorted(self._names[number] for number in np.flatnonzero(mask))

    def decide(self, demand: Demand, node: str) -> Allocation | Failure:
        """What a pod is given on one node; nothing, where nothing is known of the node's devices."""
        machine, holdings = self._machines.get(node), self._holdings.get(node, Holdings())
        if machine is None:
            if not holdings:
                return {}
            machine = Machine(node, {}, {}, {}, None, honors_partitions=False, well_planned=False)
        return allocate(demand, machine, holdings, self.rules)

    def _describe(self, machine: Machine) -> None:
        if machine.name not in self._numbers:
            self._numbers[machine.name] = len(self._names)
            self._names.append(machine.name)
            self._lenient = np.append(self._lenient, False)
        number = self._numbers[machine.name]
        self._machines[machine.name] = machine
        self._lenient[number] = machine.partitions is not None
        self._columns.describe(number, machine, self._holdings.setdefault(machine.name, Holdings()))

    def _occupied(self, node: str) -> None:
        if node in self._machines:
            self._columns.occupy(self._numbers[node], self._machines[node], self._holdings[node])
