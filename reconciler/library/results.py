"""The answers as plain objects, and rows of them as data frames."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import pandas
    import polars

    from reconciler.library.fleet import Fleet

T = TypeVar("T")
Manifest = Mapping[str, Any]
"""An object of the API as it is in YAML or JSON"""


class Rows(tuple[T, ...]):
    """Rows of one kind, as a tuple. Where pandas or polars is installed, also as a data frame."""

    kind: type[T]

    def __new__(cls, kind: type[T], rows: Iterable[T] = ()) -> "Rows[T]":
        """Rows of the dataclass `kind`."""
        made = super().__new__(cls, cast("Iterable[Any]", rows))
        made.kind = kind
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.kind, tuple(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(one.name for one in fields(cast("Any", self.kind)))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each row as a dict."""
        return [asdict(cast("Any", row)) for row in self]

    def to_pandas(self) -> "pandas.DataFrame":
        """A data frame. Needs pandas."""
        import pandas  # noqa: PLC0415 - an option

        return pandas.DataFrame(self.to_dicts(), columns=[*self.columns])

    def to_polars(self) -> "polars.DataFrame":
        """A data frame. Needs polars."""
        import polars  # noqa: PLC0415 - an option

        return polars.DataFrame(self.to_dicts(), schema=[*self.columns])

    def to_frame(self) -> "pandas.DataFrame | polars.DataFrame":
        """A data frame of pandas, or of polars if only that is installed. Raises ImportError without both."""
        return self.to_pandas() if find_spec("pandas") or not find_spec("polars") else self.to_polars()


@dataclass(frozen=True, slots=True)
class Grant:
    """One device of one claim."""

    claim: str
    """`NAMESPACE/NAME`"""
    request: str
    driver: str
    pool: str
    device: str
    node: str
    """Empty if the device can be reached from several nodes"""
    pod: str
    """For which the claim was decided; empty for a claim alone"""


@dataclass(frozen=True, slots=True)
class Pending:
    """Claims, or a pod, without devices."""

    claims: tuple[str, ...]
    pod: str
    reason: str
    """An identifier of docs/reasons.md"""
    message: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """Who got what."""

    grants: Rows[Grant]
    """In the order of the decisions; claims that had devices before are not among them"""
    pending: Rows[Pending]
    claims: tuple[Manifest, ...]
    """The allocated claims, as the controller would write them"""
    fleet: "Fleet"
    """With these claims allocated, for further questions"""


@dataclass(frozen=True, slots=True)
class Gate:
    """A test that devices must pass for a request."""

    claim: str
    request: str
    gate: str
    about: str
    left: int
    """Devices that pass this gate and all earlier ones"""
    detail: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why claims can or cannot be allocated."""

    allocated: bool
    """Whether nothing is pending"""
    allocatable: bool
    """Whether the claims can be allocated now"""
    node: str
    """Where; empty if nowhere"""
    reason: str
    """An identifier of docs/reasons.md; empty if nothing stops the claims"""
    message: str
    remedy: str
    gates: Rows[Gate]
    """Of each request in its order"""
    blockers: tuple[str, ...]
    """What stops each request: the smallest sets of gates, counters that are short, errors"""
    nearest: tuple[str, ...]
    """Nodes that almost fit, and what they lack"""


@dataclass(frozen=True, slots=True)
class Placed:
    """One device of one copy of what was to be placed."""

    copy: int
    """From 1"""
    unit: str
    """Such as `claim default/vision` or `pod default/trainer`"""
    claim: str
    request: str
    driver: str
    pool: str
    device: str
    node: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Claims that lose their devices on a node that is drained, and where they fit instead."""

    claims: tuple[str, ...]
    pod: str
    node: str
    """Another node for them; empty if none fits, or if they need none"""
    reason: str
    """Empty if they fit elsewhere"""
    message: str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer of a what-if analysis."""

    fits: bool
    """Whether all copies fit that were asked for, and all lost claims fit elsewhere"""
    copies: int
    """How many copies fit"""
    limit: str
    """Why no more were tried: `asked`, `full`, `gave-up`, `bound` or `nothing`"""
    reason: str
    """Why the next copy does not fit; empty if none was refused"""
    message: str
    placed: Rows[Placed]
    lost: Rows[Lost]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one set, and how many of them fit beside the sets before it."""

    name: str
    count: int
    fits: int
    nodes: tuple[str, ...]
    """Of each pod that fits"""
    reason: str
    """Why not all fit; empty if they do"""
    message: str


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a demand."""

    name: str
    count: int
    fit_now: int
    """How many fit on the fleet as it is"""
    message: str
    """Why no more fit there"""
    shapes: tuple[str, ...]
    """Shapes of nodes that can hold it"""


@dataclass(frozen=True, slots=True)
class Option:
    """New nodes that hold all of a demand that does not fit now."""

    nodes: dict[str, int]
    """Shape -> number of nodes"""
    cost: float
    cost_at_least: float
    """No nodes of these shapes cost less"""


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many nodes a demand needs."""

    fits_now: bool
    answered: bool
    """Whether all of it fits, now or on the nodes of an option"""
    items: Rows[Item]
    options: Rows[Option]
    """The cheapest first"""


@dataclass(frozen=True, slots=True)
class Usage:
    """How full a part of the fleet is. docs/capacity.md defines the words."""

    driver: str
    pool: str
    node: str
    devices: int
    held: int
    """Exclusively or in shares"""
    allocatable: int
    blocked: int
    tainted: int
    physical: int
    full: int
    use: float
    """0 to 1"""


@dataclass(frozen=True, slots=True)
class Profile:
    """Devices of one kind, such as partitions of one size."""

    driver: str
    pool: str
    node: str
    profile: str
    devices: int
    held: int
    fits: int
    """How many more can be allocated together"""
    size: float
    """The share of a physical device that one needs"""
