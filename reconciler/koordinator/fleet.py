"""All machines with Device objects, what pods hold of them, and who might serve a pod."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from kernels.types import Rows
from reconciler.koordinator.annotations import Hint
from reconciler.koordinator.columns import Columns
from reconciler.koordinator.decision import allocate
from reconciler.koordinator.demand import Demand
from reconciler.koordinator.device import Device
from reconciler.koordinator.failure import Failure
from reconciler.koordinator.feasible import WHY, KindCount, Tables, counts, feasible
from reconciler.koordinator.holdings import Allocation, Holdings
from reconciler.koordinator.machine import Machine, machine_of
from reconciler.koordinator.questions import ChangeLog, Question, Questions
from reconciler.koordinator.result import annotation
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.shares import NOTHING
from reconciler.objects.meta import ObjectKey

ALL = -1
"""As many tries as there are machines."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Devices for a pod, on one machine."""

    node: str
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Unserved:
    """No machine can serve a pod, and how many could not for which reason."""

    machines: int
    unsuited: int
    """Machines that might, but on which the pod cannot run"""
    refused: Counter[Failure]
    """Answers of the exact choice, or what it would say; all other machines have too few devices left"""


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
        self._tables = Tables(np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_))
        self._by_name: Rows | None = None
        """(N,) machine numbers in the order of names, once they are asked for."""
        self._log = ChangeLog()
        self._questions = Questions()

    @property
    def machines(self) -> Mapping[str, Machine]:
        """Everything that was ever described, by name."""
        return MappingProxyType(self._machines)

    @property
    def pods(self) -> Mapping[ObjectKey, str]:
        """Who holds devices, and on which node."""
        return MappingProxyType(self._nodes)

    @property
    def columns(self) -> Columns:
        """The devices of all machines as rows; only to be read."""
        return self._columns

    @property
    def names(self) -> Sequence[str]:
        """The machine of each number that rows name."""
        return self._names

    @property
    def changes(self) -> int:
        """Grows with every change of a machine."""
        return self._log.end

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
        self._occupied(node, allocation)

    def release(self, pod: ObjectKey) -> None:
        """Forget a pod; one that holds nothing is no error."""
        node = self._nodes.pop(pod, None)
        if node is not None:
            allocation = self._holdings[node].allocation(pod) or {}
            self._holdings[node].release(pod)
            self._occupied(node, allocation)

    def candidates(self, demand: Demand) -> list[str]:
        """Machines that might serve a pod, in the order of names. None of the others can."""
        return [self._names[number] for number in self._asked(demand).candidates(self._order())]

    def first(
        self, demand: Demand, suits: Callable[[str], bool], *, tries: int = ALL
    ) -> Placed | Unserved | None:
        """Devices for a pod on the first machine, by name, that suits and can give them.

        None after so many refusals by the exact choice: they are remembered, so asking again goes on
        from there, and the caller may do other things meanwhile.
        """
        question = self._asked(demand)
        unsuited = 0
        for number in question.candidates(self._order()):
            name = self._names[number]
            if not suits(name):
                unsuited += 1
                continue
            answer = self.decide(demand, name)
            if not isinstance(answer, Failure):
                return Placed(name, answer)
            question.refuse(number, answer)
            tries -= 1
            if not tries:
                return None
        # What was asked before is not asked again, and must not show in the answer.
        refused = Counter(why for number, why in question.refused.items() if suits(self._names[number]))
        asked = len(question.refused)
        for verdict, why in WHY.items():
            apart = np.flatnonzero(question.verdict == verdict).tolist()
            asked += len(apart)
            refused[why] += sum(suits(self._names[number]) for number in apart)
        refused = +refused
        return Unserved(len(self._names), unsuited + asked - refused.total(), refused)

    def may_serve(self, demand: Demand) -> bool:
        """Whether some machine might serve a pod."""
        return bool(self._asked(demand).open.any())

    def counts(self, demand: Demand) -> tuple[KindCount, ...]:
        """How many devices of all machines each test leaves over, by type."""
        return counts(self._columns, demand, upstream=self.rules.upstream)

    def holders(self, node: str) -> Holdings:
        """What is held on a machine."""
        return self._holdings.get(node, Holdings())

    def text(self, node: str, allocation: Allocation) -> str:
        """The result annotation for what was decided there."""
        return annotation(allocation, self._machines[node])

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
            self._tables = Tables(*(np.append(column, False) for column in self._tables))
            self._by_name = None
        number = self._numbers[machine.name]
        self._machines[machine.name] = machine
        self._tables.listed[number] = machine.partitions is not None
        self._tables.missing[number] = machine.partitions is None and machine.honors_partitions
        self._columns.describe(number, machine, self._holdings.setdefault(machine.name, Holdings()))
        self._log.note(number)

    def _occupied(self, node: str, changed: Allocation) -> None:
        if node in self._machines:
            number = self._numbers[node]
            devices = {(kind, grant.minor) for kind, grants in changed.items() for grant in grants}
            self._columns.occupy(number, self._machines[node], self._holdings[node], devices)
            self._log.note(number)

    def _order(self) -> Rows:
        if self._by_name is None:
            numbers = sorted(range(len(self._names)), key=self._names.__getitem__)
            self._by_name = np.array(numbers, dtype=np.intp)
        return self._by_name

    def _asked(self, demand: Demand) -> Question:
        question = self._questions.of(demand.shape)
        upstream = self.rules.upstream
        question.refresh(
            self._log,
            len(self._names),
            lambda: feasible(self._columns, demand, self._tables, upstream=upstream),
            lambda n: int(feasible(self._columns.part(n), demand, self._tables.one(n), upstream=upstream)[0]),
        )
        return question
