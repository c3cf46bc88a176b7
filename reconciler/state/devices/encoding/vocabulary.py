"""Values as small integers, and node selectors by the labels that they require."""

from array import array
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar, cast

from reconciler.api.objects import slices
from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement
from reconciler.api.objects.semver import Semver
from reconciler.errors import Rejected

T = TypeVar("T")

UNKNOWN = -2
"""The code of a value that was never seen. No column holds it."""

LARGE = 1 << 13
"""Values from which on the codes are kept in PARTS. A dictionary that grows moves all its entries: that of
the serial numbers of a million devices would hold the event loop for 170 ms, and to split it later for 50"""
PARTS = 61
"""A prime: a dictionary places its entries by the lowest bits of their hashes, which must not be alike"""


class Interner(Generic[T]):
    """Codes of distinct values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.keys: list[Hashable] = cast("list[Hashable]", self.values)
        """The same list while every key is its value: of a million serial numbers, a second one takes 8 MB"""
        self._codes: list[dict[Hashable, int]] = [{}]
        """By the hash of the key"""

    def code(self, value: T, key: Hashable | None = None) -> int:
        """The code of a value. `key` distinguishes values that compare equal, such as 1 and True."""
        key = value if key is None else key
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        known = codes.get(key)
        return self._add(value, key, codes) if known is None else known

    def codes(self, values: Sequence[T]) -> Sequence[int]:
        """The codes of values that are their own keys."""
        if len(self._codes) == 1:
            found = [*map(self._codes[0].get, values)]
            if None not in found:
                return found  # type: ignore[return-value]
        return [self.code(value) for value in values]

    def find(self, key: Hashable) -> int:
        """The code of a known value, else UNKNOWN."""
        parts = self._codes
        codes = parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]
        return codes.get(key, UNKNOWN)

    def _add(self, value: T, key: Hashable, codes: dict[Hashable, int]) -> int:
        """The code of a new value, which belongs in these codes."""
        new = codes[key] = len(self.values)
        if key is not value and self.keys is self.values:
            self.keys = [*self.values]
        self.values.append(value)
        if self.keys is not self.values:
            self.keys.append(key)
        if new == LARGE:
            self._split()
        return new

    def _split(self) -> None:
        parts: list[dict[Hashable, int]] = [{} for _ in range(PARTS)]
        for code, key in enumerate(self.keys):
            parts[hash(key) % PARTS][key] = code
        self._codes = parts


Pair = tuple[str | None, str]
"""A label, or the name of a node without a key"""


class SelectorIndex:
    """An index over an interner of selectors, which may grow. Thread-safe.

    Only selectors that a node could match are evaluated. A fleet of partitioned accelerators may have
    one selector for each device; nearly all name another node.
    """

    def __init__(self, selectors: Interner[NodeSelector]) -> None:
        self._selectors = selectors
        self._indexed = 0
        self._exact: dict[Pair, array[int]] = {}
        """Label -> selectors that every node with it matches"""
        self._by_value: dict[Pair, list[int]] = {}
        """Label -> other selectors that a node with it may match"""
        self._others: list[int] = []
        self._unreadable: dict[int, Rejected] = {}
        self._lock = Lock()

    @property
    def unreadable(self) -> dict[int, Rejected]:
        """Code -> why the selector cannot be parsed."""
        self._follow()
        return self._unreadable

    def codes(self, name: str, labels: Mapping[str, str]) -> list[int]:
        """The codes of the selectors that match a node, in any order. A code may appear more than once."""
        self._follow()
        found = array("q")
        doubtful = [*self._others]
        for pair in (*labels.items(), (None, name)):
            if pair in self._exact:
                found += self._exact[pair]
            doubtful += self._by_value.get(pair, ())
        found.extend([code for code in doubtful if self._selectors.values[code].matches(name, labels)])
        return found.tolist()

    def _follow(self) -> None:
        """Index the selectors that came since."""
        if self._indexed == len(self._selectors.values):
            return
        with self._lock:
            known = len(self._selectors.values)  # another thread may add some meanwhile
            for code in range(self._indexed, known):
                selector = self._selectors.values[code]
                try:
                    selector.check()
                except Rejected as exc:
                    self._unreadable[code] = exc
                    continue
                places = _needs(selector)
                exact = _needs_no_more(selector)
                for place in places:
                    if exact:
                        self._exact.setdefault(place, array("q")).append(code)
                    else:
                        self._by_value.setdefault(place, []).append(code)
                if not places:
                    self._others.append(code)
            self._indexed = known


def _needs(selector: NodeSelector) -> list[Pair]:
    """Labels; a matching node has at least one of them. Empty if there are no such labels."""
    places: list[Pair] = []
    for term in selector.node_selector_terms:
        wanted: list[tuple[str | None, NodeSelectorRequirement]]
        wanted = [(None, r) for r in term.match_fields if r.operator == "In"]
        wanted += [(r.key, r) for r in term.match_expressions if r.operator == "In"]
        if not wanted:
            return []
        key, requirement = min(wanted, key=lambda pair: len(pair[1].values))
        places += [(key, value) for value in requirement.values]
    return places


def _needs_no_more(selector: NodeSelector) -> bool:
    """Whether each term has one requirement only, so that one of its labels is enough."""
    return all(
        len(term.match_fields) + len(term.match_expressions) == 1 for term in selector.node_selector_terms
    )


VERSIONS = 1 << 12
"""Most versions that are kept parsed"""

Scalar = int | bool | str | Semver
Value = Scalar | tuple[Scalar, ...]

Amounts = tuple[tuple[str, int], ...]
"""Counters with billionths, sorted"""


Policies = tuple[tuple[str, slices.CapacityPolicy], ...]
"""Counters with what requests can have of them, sorted"""


class Name(NamedTuple):
    """An attribute or capacity key with its domain (V-6)."""

    domain: str
    id: str


class CapacitySlot(NamedTuple):
    """One capacity of a device: its key as the slice spells it, the amount and the policy for shares."""

    key: str
    value: Quantity
    policy: slices.CapacityPolicy | None
    drawn: bool = False
    """Whether the device does not have it, but draws it from a counter (SCC-1)"""


class Asked(NamedTuple):
    """A counter of which a device draws as much as its request says of a capacity (SCC-1)."""

    set: str
    counter: str
    keys: tuple[str, ...]
    """How requests can spell the capacity"""


class Binding(NamedTuple):
    """Binding conditions of a device."""

    conditions: tuple[str, ...]
    failures: tuple[str, ...]


class NodeUse(NamedTuple):
    """How a device uses one resource of its node. Amounts are billionths."""

    resource: str
    capacity: Name | None
    """The capacity of which a claim gets `times` for what it consumes"""
    times: int
    """Without a capacity: what the claim gets for the device; 0 if it stands for nothing"""
    per_pod: int
    per_container: int

    @property
    def is_mapped(self) -> bool:
        """Whether the device stands for the resource, so that pods cannot share its claim (NAR-4)."""
        return self.capacity is not None or self.times > 0


def node_uses(resources: Mapping[str, slices.NodeAllocatableResource], driver: str) -> tuple[NodeUse, ...]:
    """How a device uses the resources of its node, by their names. Negative amounts count as zero."""
    found = []
    for resource, use in sorted(resources.items()):
        mapping, overhead = use.mapping, use.overhead
        capacity, times = None, None
        if mapping is not None:
            key = mapping.capacity_key
            capacity = qualified(key, driver) if key else None
            times = mapping.capacity_multiplier if key else mapping.device_multiplier
        found.append(
            NodeUse(
                resource,
                capacity,
                _nanos(times, NANO if capacity else 0),
                _nanos(overhead.per_pod if overhead else None),
                _nanos(overhead.per_container if overhead else None),
            )
        )
    return tuple(found)


def _nanos(quantity: Quantity | None, default: int = 0) -> int:
    return default if quantity is None else max(quantity.nanos, 0)


class Vocabulary:
    """All interners of one fleet. It only grows; `Store` replaces it when slices use few of its values."""

    def __init__(self) -> None:
        self.drivers: Interner[str] = Interner()
        self.attributes: dict[Name, Interner[Value]] = {}
        self.capacity: dict[Name, Interner[Quantity]] = {}
        self.nodes: Interner[str] = Interner()
        self.selectors: Interner[NodeSelector] = Interner()
        self.selector_index = SelectorIndex(self.selectors)
        self.taints: Interner[tuple[slices.DeviceTaint, ...]] = Interner()
        self.shapes: Interner[tuple[CapacitySlot, ...]] = Interner()
        self.bindings: Interner[Binding] = Interner()
        self.operations: Interner[tuple[str, ...]] = Interner()
        self.mapped: Interner[tuple[NodeUse, ...]] = Interner()
        self.sets: Interner[str] = Interner()
        self.draws: Interner[Amounts] = Interner()
        self.published: Interner[tuple[tuple[str, Amounts, Policies], ...]] = Interner()
        self.asked: Interner[tuple[Asked, ...]] = Interner()

    @property
    def size(self) -> int:
        """Number of values that `without_values` drops."""
        named: list[Interner[Any]] = [*self.attributes.values(), *self.capacity.values()]
        return (
            len(self.nodes.values) + len(self.shapes.values) + sum(len(interner.values) for interner in named)
        )

    def without_values(self) -> "Vocabulary":
        """A vocabulary without attributes, capacity and node names. It shares all else with this one."""
        other = copy(self)
        other.attributes, other.capacity = {}, {}
        other.nodes, other.shapes = Interner(), Interner()
        return other

    def of_column(self, column: str) -> Interner[Any]:
        """The interner of one of `block.COLUMNS`."""
        interners: dict[str, Interner[Any]] = {
            "driver": self.drivers,
            "node": self.nodes,
            "selector": self.selectors,
            "taints": self.taints,
            "shape": self.shapes,
            "binding": self.bindings,
            "operations": self.operations,
            "mapped": self.mapped,
            "asked": self.asked,
        }
        return interners[column]

    def attribute(self, name: Name) -> Interner[Value]:
        """The values of one attribute; their keys are those of `value_of`."""
        return self.attributes.setdefault(name, Interner())

    def amount(self, name: Name) -> Interner[Quantity]:
        """The values of one capacity."""
        return self.capacity.setdefault(name, Interner())


def qualified(key: str, driver: str) -> Name:
    """A key without a domain belongs to the driver (V-6)."""
    domain, slash, name = key.partition("/")
    return Name(domain, name) if slash else Name(driver, key)


def spellings(key: str, driver: str) -> tuple[str, ...]:
    """How requests can spell the key of a capacity that a slice of a driver names (V-6)."""
    name = qualified(key, driver)
    full = f"{name.domain}/{name.id}"
    return (full, name.id) if name.domain == driver else (full,)


def value_of(attribute: slices.DeviceAttribute) -> tuple[Hashable, Value, bool]:
    """A key, the value for CEL, and whether CEL can evaluate the device at all (CEL-6).

    The key is the string itself, or `(type, value)`: strings are most, and often as many as devices. If CEL
    cannot evaluate the device, the value is a placeholder; constraints compare the key.
    """
    if "string" in attribute:
        return attribute["string"], attribute["string"], True
    if "int" in attribute:
        number = attribute["int"]
        whole = -(2**63) <= number < 2**63
        return ("int", number), number if whole else "", whole
    if "bool" in attribute:
        return ("bool", attribute["bool"]), attribute["bool"], True
    if "version" in attribute:
        return _versions("version", (attribute["version"],))
    if "versions" in attribute:
        return _versions("versions", attribute["versions"])
    if "strings" in attribute:
        return ("strings", attribute["strings"]), attribute["strings"], True
    if "ints" in attribute:
        return ("ints", attribute["ints"]), attribute["ints"], True
    if "bools" in attribute:
        return ("bools", attribute["bools"]), attribute["bools"], True
    return ("unknown",), "", False


@lru_cache(VERSIONS)
def _versions(tag: str, texts: tuple[str, ...]) -> tuple[Hashable, Value, bool]:
    key = tag, texts[0] if tag == "version" else texts
    try:
        parsed = tuple(Semver.parse(text) for text in texts)
    except ValueError:
        return key, "", False
    return key, parsed[0] if tag == "version" else parsed, True
