"""What `top` shows: tables of lines that are chosen, sorted and measured, of devices or of namespaces."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from reconciler.analysis.capacity.layout import shown
from reconciler.analysis.capacity.lines import By, CounterUsage, Gauge, Line, ProfileUsage
from reconciler.analysis.capacity.measure import Solver
from reconciler.analysis.capacity.use import LABEL, NamespaceHoldings, NamespaceUse, PendingClaims
from reconciler.api.objects.similar_names import instead
from reconciler.api.validation.fields import age
from reconciler.cli.exits import NoAnswer
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, TableLine, echo_value, plain, print_table, wrapped
from reconciler.state.nominations import NOBODY
from reconciler.state.store import Store

L = TypeVar("L")
NO_DEVICES = "no device is published that a node can use"


class TopOptions(Struct, frozen=True):
    """The options of `top`."""

    by: By
    types: tuple[str, ...]
    """Drivers, or types of a plugin's devices; empty for all"""
    nodes: tuple[str, ...]
    sort: str
    output: str
    live: bool
    interval: float
    """Seconds between two updates, if live"""

    @property
    def wide(self) -> bool:
        """Whether to show more columns."""
        return self.output == "wide"


class TopView(Generic[L]):
    """The lines of `top`, in an order that can be changed."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]]
    """Name of an order -> sort key, lowest first; equal lines stay sorted by name"""

    def __init__(self, options: TopOptions) -> None:
        self.options = options
        self.order = options.sort
        self.notes: Sequence[str] = ()
        """What the tables leave out, for the screen; printed once, it goes to standard error"""
        self._taken: list[L] | None = None
        """Sorted by name; None until the first measurement"""

    @abstractmethod
    def selected(self, line: L) -> bool:
        """Whether the options select a line."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The tables of `found`."""

    @abstractmethod
    def value(self) -> dict[str, Any]:
        """`found` as JSON."""

    @property
    def found(self) -> list[L]:
        """The selected lines in their order."""
        key = self.orders.get(self.order)
        taken = self._taken or []
        return taken if key is None else sorted(taken, key=key)

    def take(self, lines: Iterable[L]) -> None:
        """Take new lines, sorted by name."""
        self._taken = [line for line in lines if self.selected(line)]

    def next_order(self) -> None:
        """Change to the next order, after the last one to the first."""
        names = ("name", *self.orders)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def print_on(self, console: Console) -> None:
        """Print everything once."""
        if self.options.output not in FOR_PEOPLE:
            echo_value(self.value(), self.options.output)
        elif not self.found:
            console.print(NO_DEVICES)
        else:
            for number, table in enumerate(self.tables()):
                if number:
                    console.print()
                print_table(console, table, wide=self.options.wide)

    def lines(self, width: int) -> list[TableLine]:
        """Everything as lines, for a screen."""
        if self._taken is None:
            return [TableLine("reading the cluster ...")]
        made: list[TableLine] = [] if self.found else [TableLine(NO_DEVICES)]
        for table in self.tables() if self.found else ():
            made += [TableLine("")] if made else []
            made += table.lines(width)
        made += [TableLine("")] if self.notes else []
        return made + [TableLine(text) for note in self.notes for text in wrapped(plain(note), width)]


class StoreView(TopView[L]):
    """What is measured in a store."""

    @abstractmethod
    def measuring(self, store: Store) -> Callable[[], list[L]]:
        """A function that measures the state as it is now. It may run in a thread while the store changes."""


def check_names(kind: str, names: Iterable[str], known: Set[str]) -> None:
    """Raise NoAnswer for a name that does not exist."""
    for name in names:
        if name not in known:
            raise NoAnswer(f"there is no {kind} {name}{instead(name, known - {''}, f'{kind}s')}")


NONE = "-"
MAX_CHOICES = 200_000
"""Limit of the search for one table: at most a few seconds, if every counter set has its own state"""


ORDERS: dict[str, Callable[[Line], float]] = {
    "devices": lambda line: -line.devices,
    "held": lambda line: -(line.held + line.shared),
    "allocatable": lambda line: -line.allocatable,
    "fits": lambda line: -max((one.size for one in line.profiles if one.fits), default=0.0),
}
"""Value of `--sort` -> sort key, lowest first; equal lines stay sorted by name"""


class UsageView(StoreView[Line]):
    """The usage of devices by driver, pool, node, model or label."""

    orders = ORDERS

    def __init__(self, options: TopOptions) -> None:
        super().__init__(options)
        self._gauge = Gauge(Solver(effort=MAX_CHOICES))

    def measuring(self, store: Store) -> Callable[[], list[Line]]:
        """Measures a snapshot, which never changes. Devices that are held for something count as held."""
        return partial(self._gauge.lines, store.snapshot_for(NOBODY), self.options.by)

    def selected(self, line: Line) -> bool:
        """Whether the options select a line."""
        drivers, nodes = self.options.types, self.options.nodes
        return (not drivers or line.driver in drivers) and (not nodes or line.node in nodes)

    def tables(self) -> list[Table]:
        """One table; by driver also one of profiles and one of counters."""
        return usage_tables(self.found, self.options.by, wide=self.options.wide)

    def value(self) -> dict[str, Any]:
        """All figures."""
        return {"by": self.options.by, "items": [_usage_line(line) for line in self.found]}


def usage_tables(lines: Sequence[Line], by: By, *, wide: bool) -> list[Table]:
    """The table of lines; by driver also the tables of profiles and counters."""
    found = [_summary(lines, by, wide=wide)]
    if by == "driver":
        profiles = [(line, one) for line in lines for one in line.profiles]
        counters = [(line, one) for line in lines for one in line.counters]
        found += [_profiles(profiles)] if profiles else []
        found += [_counters(counters)] if counters else []
    return found


def _summary(lines: Iterable[Line], by: By, *, wide: bool) -> Table:
    group = by.removeprefix(LABEL).rpartition("/")[2].upper()  # as kubectl heads the column of a label
    names = {"driver": ("DRIVER",), "pool": ("DRIVER", "POOL")}.get(by, (group, "DRIVER"))
    last = ["LARGEST FIT"] if by == "driver" else ["FITS"]
    if wide:
        last += ["USE", "FULL", *(["FITS"] if by == "driver" else []), "STRANDED"]
        last += ["NODE"] if by == "pool" else []
    numbers = ("DEVICES", "HELD", "SHARED", "FREE", "BLOCKED", "TAINTED")
    table = Table((*names, *numbers, *last), right=numbers, names=len(names))
    for line in lines:
        own = {group: line.group or NONE, "POOL": line.pool, "NODE": line.node or NONE, "DRIVER": line.driver}
        own |= {
            "LARGEST FIT": line.largest or NONE,
            "FITS": _fitting(line, wide=wide),
            "STRANDED": _stranded(line),
        }
        own |= {"USE": f"{line.use:.0%}", "FULL": f"{line.full} of {line.physical}"}
        counts = (line.devices, line.held, line.shared, line.allocatable, line.blocked, line.tainted)
        table.add((*(own[name] for name in names), *map(str, counts), *(own[name] for name in last)))
    return table


def _profiles(found: Iterable[tuple[Line, ProfileUsage]]) -> Table:
    numbers = ("DEVICES", "HELD", "FITS", "FRAGMENTED")
    table = Table(("DRIVER", "PROFILE", *numbers), right=numbers, names=2)
    for line, one in found:
        part = NONE if one.fragmentation is None else f"{one.fragmentation:.0%}"
        table.add((line.driver, one.profile, str(one.devices), str(one.held), _number(one), part))
    return table


def _counters(found: Iterable[tuple[Line, CounterUsage]]) -> Table:
    numbers = ("TOTAL", "FREE", "STRANDED")
    table = Table(("DRIVER", "COUNTER", *numbers), right=numbers, names=2)
    for line, one in found:
        stranded = f"{shown(one.stranded)}{'' if one.exact else ' or more'}"
        table.add((line.driver, one.counter, shown(one.total), shown(one.left), stranded))
    return table


def _number(one: ProfileUsage) -> str:
    """The number that fits; a range if the search gave up."""
    return str(one.fits) if one.fits == one.at_most else f"{one.fits}-{one.at_most}"


def _fitting(line: Line, *, wide: bool) -> str:
    """How many fit of each profile; of those that fit at all, only the largest unless `wide`."""
    found = [f"{one.profile}: {_number(one)}" for one in line.profiles if one.at_most]
    shown = found if wide else found[:1]
    more = len(found) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])]) or NONE


def _stranded(line: Line) -> str:
    return ", ".join(f"{one.counter}: {shown(one.stranded)}" for one in line.counters if one.stranded) or NONE


def _usage_line(line: Line) -> dict[str, Any]:
    return {
        "driver": line.driver,
        "pool": line.pool or None,
        "node": line.node or None,
        "group": line.group or None,
        "devices": line.devices,
        "held": line.held,
        "shared": line.shared,
        "allocatable": line.allocatable,
        "blocked": line.blocked,
        "tainted": line.tainted,
        "largestFit": line.largest or None,
        "physicalDevices": line.physical,
        "fullDevices": line.full,
        "use": round(line.use, 4),
        "profiles": [_profile(one) for one in line.profiles],
        "counters": [_counter(one) for one in line.counters],
    }


def _profile(one: ProfileUsage) -> dict[str, Any]:
    return {
        "profile": one.profile,
        "devices": one.devices,
        "held": one.held,
        "fits": one.fits,
        "fitsAtMost": one.at_most,
        "size": one.size,
        "fragmentation": one.fragmentation,
    }


def _counter(one: CounterUsage) -> dict[str, Any]:
    return {
        "counter": one.counter,
        "total": shown(one.total),
        "left": shown(one.left),
        "stranded": shown(one.stranded),
        "strandedExact": one.exact,
    }


class NamespaceView(StoreView[NamespaceUse]):
    """A line for each namespace."""

    orders: ClassVar[Mapping[str, Callable[[Any], float]]] = {
        "held": lambda one: -one.held,
        "pending": lambda one: -one.pending,
    }

    def __init__(self, options: TopOptions, now: Callable[[], datetime]) -> None:
        super().__init__(options)
        self._now = now
        self._holdings = NamespaceHoldings()

    def measuring(self, store: Store) -> Callable[[], list[NamespaceUse]]:
        """Measures at once, because holders are looked up in the store."""
        found = self._holdings.look(store.snapshot(), pending_claims(store))
        return lambda: found

    def selected(self, line: NamespaceUse) -> bool:  # noqa: ARG002
        """All are."""
        return True

    def tables(self) -> list[Table]:
        """One table."""
        numbers = ("HELD", "USE", "PENDING")
        made = Table(("NAMESPACE", *numbers, "OLDEST"), right=numbers, names=1)
        for one in self.found:
            oldest = age(one.oldest, self._now()) if one.oldest else NONE
            made.add((one.namespace, str(one.held), f"{one.use:.0%}", str(one.pending), oldest))
        return [made]

    def value(self) -> dict[str, Any]:
        """All figures."""
        return {"by": self.options.by, "items": [_line(one) for one in self.found]}


def pending_claims(store: Store) -> dict[str, PendingClaims]:
    """The claims of each namespace without devices, of any allocator."""
    found: dict[str, PendingClaims] = {}
    for claim in store.claims.values():
        if claim.allocation is None and not claim.deleting:
            created = claim.metadata.creation_timestamp or ""
            found.setdefault(claim.key.namespace, PendingClaims()).add(created)
    return found


def _line(one: NamespaceUse) -> dict[str, Any]:
    return {
        "namespace": one.namespace,
        "held": one.held,
        "use": round(one.use, 4),
        "pending": one.pending,
        "oldestPending": one.oldest or None,
    }
