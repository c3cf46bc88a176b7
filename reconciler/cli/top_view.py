"""What `top` shows: tables of lines that are chosen, sorted and measured."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from reconciler.analysis.capacity.lines import By
from reconciler.api.objects.similar_names import instead
from reconciler.cli.exits import NoAnswer
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, TableLine, echo_value, plain, print_table, wrapped
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
