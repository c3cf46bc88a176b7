"""All machines with Device objects, the devices that pods hold, and the search for a pod."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator import answer_cache as cache
from reconciler.plugins.koordinator.annotations import Hint
from reconciler.plugins.koordinator.answer_cache import MachineFilter
from reconciler.plugins.koordinator.columns import Columns, DeviceRows
from reconciler.plugins.koordinator.decision import allocate, annotation
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.filters import Tables, feasible, lack_failure, outlook
from reconciler.plugins.koordinator.holdings import Allocation, Holdings
from reconciler.plugins.koordinator.machine import Machine, machine_of
from reconciler.plugins.koordinator.refusals import Machines, Unserved, prospects, unserved
from reconciler.plugins.koordinator.vocabulary import Device, Rules
from reconciler.state.caches import Recent

ALL = -1
"""No limit of tries."""
UNKNOWN = -1
"""The number of a state that was not asked for since it changed."""
MOST_UNWRITTEN = 4
"""Maximum number of machines whose rows are out of date: one pass over all must not wait for many."""


class Placed(Struct, frozen=True):
    """The allocation of a pod on one machine."""

    node: str
    allocation: Allocation


Test = Callable[[DeviceRows, Demand, Tables], Codes]


class Fleet:
    """The mutable state. A change of a Device object or of a pod updates only the rows of its machine."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.demands = cache.Demands(rules)
        """Reads pods under these rules."""
        self._columns = Columns()
        self._machines: dict[str, Machine] = {}
        self._holdings: dict[str, Holdings] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._nodes: dict[ObjectKey, str] = {}
        self._tables = Tables(np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_))
        self._by_name: Rows | None = None
        """(N,) machine numbers in the order of names; computed on first use."""
        self._log = cache.ChangeLog()
        self._described = cache.ChangeLog()
        """Changes of machines, without those of what pods hold."""
        self._filters: Recent[Hashable, MachineFilter] = Recent(cache.MOST_FILTERS)
        self._serials = count()
        self._unwritten: dict[int, set[tuple[str, int]]] = {}
        """Machine number -> devices of which more or less is held than the columns say."""
        self._states = cache.Numbers()
        self._likeness: list[int] = []
        """(N,) the number of what each machine is."""
        self._state: list[int] = []
        """(N,) the number of the state of each machine, or UNKNOWN."""
        self._answers: Recent[tuple[int, int], Allocation | Failure] = Recent(cache.MOST_ANSWERS)
        """(Serial of the filter, number of the state) -> the exact decision."""
        self._verdicts: Recent[tuple[int, int], int] = Recent(4 * cache.MOST_ANSWERS)
        """(Serial of the filter, number of the state) -> the verdict of the filter."""

    @property
    def machines(self) -> Mapping[str, Machine]:
        """All machines that ever had a Device object, by name."""
        return MappingProxyType(self._machines)

    @property
    def pods(self) -> Mapping[ObjectKey, str]:
        """Pod that holds devices -> node."""
        return MappingProxyType(self._nodes)

    @property
    def columns(self) -> Columns:
        """The devices of all machines as rows; read-only."""
        while self._unwritten:
            self._write(next(iter(self._unwritten)))
        return self._columns

    @property
    def names(self) -> Sequence[str]:
        """Machine number -> name."""
        return self._names

    @property
    def changes(self) -> int:
        """Number of changes of machines so far."""
        return self._log.end

    def put(self, device: Device, node_labels: Mapping[str, str]) -> Machine:
        """Add or replace a Device object, with its Node's labels. Raises Malformed without a change."""
        machine = machine_of(device, node_labels, self.rules.semantics)
        self._describe(machine)
        return machine

    def remove(self, name: str) -> None:
        """A Device object was deleted: its devices are unhealthy until it returns, and their holders stay.

        No error if the object is not known.
        """
        if name in self._machines:
            self._describe(self._machines[name].with_health(healthy=False))

    def hold(self, pod: ObjectKey, node: str, allocation: Allocation, hints: Mapping[str, Hint]) -> None:
        """Record the allocation of a pod and its exclusive policies; replaces its earlier allocation."""
        self.release(pod)
        self._nodes[pod] = node
        self._holdings.setdefault(node, Holdings()).hold(pod, allocation, hints)
        self._occupied(node, allocation)

    def release(self, pod: ObjectKey) -> None:
        """Remove the allocation of a pod; no error if it has none."""
        node = self._nodes.pop(pod, None)
        if node is not None:
            allocation = self._holdings[node].allocation(pod) or {}
            self._holdings[node].release(pod)
            self._occupied(node, allocation)

    def candidates(self, demand: Demand) -> list[str]:
        """Machines that pass the filter, in the order of names. The others cannot serve the pod."""
        return [self._names[number] for number in self._filter_for(demand).candidates(self._order())]

    def first(
        self, demand: Demand, can_run: Callable[[str], bool], *, tries: int = ALL
    ) -> Placed | Unserved | None:
        """The allocation of a pod on the first machine, by name, where it fits and where `can_run` is true.

        None after `tries` failures of the exact decision. Failures are cached, so the next call continues
        there, and the caller may yield in between.
        """
        machine_filter = self._filter_for(demand)
        unsuited = 0
        for number in machine_filter.candidates(self._order()):
            name = self._names[number]
            if not can_run(name):
                unsuited += 1
                continue
            answer = self._answer(demand, machine_filter, number)
            if not isinstance(answer, Failure):
                return Placed(name, answer)
            machine_filter.refuse(number, answer)
            tries -= 1
            if not tries:
                return None
        machines = Machines(
            machine_filter.verdict,
            self._outlook_for(demand, machine_filter),
            machine_filter.refused,
            lambda number: can_run(self._names[number]),
        )
        actual = prospects(machines, machine_filter.at_best, lambda n: self._at_best(demand, n), tries)
        if actual is None:
            return None
        return unserved(machines, unsuited, actual, lambda code: lack_failure(code, demand))

    def _answer(self, demand: Demand, machine_filter: MachineFilter, number: int) -> Allocation | Failure:
        """The exact decision, shared by machines in one state."""
        asked = machine_filter.serial, self._state_of(number)
        return self._answers.of(asked, lambda: self.decide(demand, self._names[number]))

    def _at_best(self, demand: Demand, number: int) -> Failure | None:
        """Why a machine cannot serve a pod even if all its devices are free, as they are or all healthy.

        The release chooses the first type alone: more healthy devices may lead it to one that fails later.
        """
        machine = self._machines[self._names[number]]
        found = allocate(demand, machine.recovered, Holdings(), self.rules)
        if isinstance(found, Failure) and self.rules.upstream:
            found = allocate(demand, machine, Holdings(), self.rules)
        return found if isinstance(found, Failure) else None

    def may_serve(self, demand: Demand) -> bool:
        """Whether any machine passes the filter."""
        return bool(self._filter_for(demand).open.any())

    def holders(self, node: str) -> Holdings:
        """The allocated devices of a machine."""
        return self._holdings.get(node, Holdings())

    def text(self, node: str, allocation: Allocation) -> str:
        """The result annotation for an allocation on a node."""
        return annotation(allocation, self._machines[node])

    def decide(self, demand: Demand, node: str) -> Allocation | Failure:
        """The allocation of a pod on one node; empty if nothing is known of the node's devices."""
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
            self._likeness.append(UNKNOWN)
            self._state.append(UNKNOWN)
            self._tables = Tables(*(np.append(column, False) for column in self._tables))
            self._by_name = None
        number = self._numbers[machine.name]
        self._machines[machine.name] = machine
        self._likeness[number], self._state[number] = self._states.of(machine.likeness()), UNKNOWN
        self._unwritten.pop(number, None)
        self._tables.listed[number] = machine.partitions is not None
        self._tables.missing[number] = machine.partitions is None and machine.honors_partitions
        self._columns.describe(number, machine, self._holdings.setdefault(machine.name, Holdings()))
        self._log.note(number)
        self._described.note(number)

    def _occupied(self, node: str, changed: Allocation) -> None:
        if node in self._machines:
            number = self._numbers[node]
            devices = {(kind, grant.minor) for kind, grants in changed.items() for grant in grants}
            self._state[number] = UNKNOWN
            self._unwritten.setdefault(number, set()).update(devices)
            if len(self._unwritten) > MOST_UNWRITTEN:
                self._write(next(iter(self._unwritten)))
            self._log.note(number)

    def _write(self, number: int) -> None:
        """Bring the rows of a machine up to date. Most decisions do not look at them."""
        changed = self._unwritten.pop(number, None)
        if changed is not None:
            name = self._names[number]
            self._columns.occupy(number, self._machines[name], self._holdings[name], changed)

    def _state_of(self, number: int) -> int:
        found = self._state[number]
        if found == UNKNOWN:
            name = self._names[number]
            found = self._states.of((self._likeness[number], self._holdings[name].state()))
            self._state[number] = found
        return found

    def _order(self) -> Rows:
        if self._by_name is None:
            numbers = sorted(range(len(self._names)), key=self._names.__getitem__)
            self._by_name = np.array(numbers, dtype=np.intp)
        return self._by_name

    def _judged(self, test: Test, demand: Demand, number: int | None) -> Codes:
        """The result of a test of all machines, or (1,) of one."""
        if number is None:
            return test(self.columns.every(), demand, self._tables)
        self._write(number)
        return test(self._columns.part(number), demand, self._tables.one(number))

    def _outlook_for(self, demand: Demand, machine_filter: MachineFilter) -> Codes:
        judge = partial(self._judged, outlook, demand)
        machine_filter.refresh_outlook(self._described, len(self._names), judge)
        return machine_filter.outlook.codes

    def _filter_for(self, demand: Demand) -> MachineFilter:
        found = self._filters.of(demand.shape, lambda: MachineFilter(next(self._serials)))
        serial = found.serial

        def judge(number: int | None) -> Codes:
            verdicts = self._judged(feasible, demand, number)
            if number is not None:
                self._verdicts.put((serial, self._state_of(number)), int(verdicts[0]))
            return verdicts

        recall = self._verdicts.get
        found.refresh(self._log, len(self._names), judge, lambda n: recall((serial, self._state_of(n))))
        return found
