"""What claims and pods ask for, and how often: the demand that policies keep room for."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from pydantic import ValidationError

from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import Slot, read_claims
from reconciler.allocation.dra.selector_masks import QUICK, are_slow, is_overspent, steps_to_run
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.objects.validating import said_plainly
from reconciler.errors import Malformed
from reconciler.state.caches import Cache, Recent
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

MAX_SHAPES = 256
"""Shapes of one demand: each costs a pass over the fleet whenever the demand or the fleet changes"""
MAX_LENGTH = 2**18
"""Characters of a demand as JSON: a ConfigMap holds four times as much"""
KEPT = 2
"""Demands that are known to be ready on one fleet, at least"""
MOST = 10**9
"""The largest weight, value or CPU of a shape"""


class Shape(Struct, frozen=True):
    """Claims of one spec and the CPU of their pod."""

    spec: ResourceClaimSpec | None
    """None for pods without claims"""
    cores: int
    """Thousandths of a CPU"""
    weight: int
    """How often it is asked for, relative to other shapes"""
    value: int = 0
    """What `least-loss` counts for a place where it fits, in thousandths of a device; 0 for its size"""

    def to_json(self) -> dict[str, object]:
        """As `read_demand` reads it."""
        spec = None if self.spec is None else json.loads(demand_text(self.spec))
        return {"weight": self.weight, "value": self.value, "cpuMilli": self.cores, "spec": spec}

    def claim(self) -> ResourceClaim | None:
        """A claim of this shape; None for pods without claims."""
        if self.spec is None:
            return None
        return ResourceClaim(metadata=ObjectMeta(name="shape", namespace="demand"), spec=self.spec)

    def slots(self, snapshot: Snapshot) -> tuple[Slot, ...]:
        """Its requests; empty if it has none, or if no node could meet them."""
        slots = self.parsed(snapshot)
        return () if is_overspent(slots, snapshot.fleet) else slots

    def parsed(self, snapshot: Snapshot) -> tuple[Slot, ...]:
        """The same without a run of selectors: also those that take too many steps."""
        claim = self.claim()
        if claim is None:
            return ()
        try:
            return read_claims([claim], snapshot.classes, snapshot.rules).slots
        except Fatal:  # for example a class that was deleted: nobody can ask for it now
            return ()


_READY: Cache[Fleet, Recent[str, object]] = Cache(lambda _: Recent(KEPT), on_fork=Recent.fork)
"""Digest of a demand -> the classes with which it was ready"""


class Demand(Struct, frozen=True, dict=True):
    """All shapes, each once."""

    shapes: tuple[Shape, ...]

    @cached_property
    def digest(self) -> str:
        """Equal for equal demands."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12] if self.shapes else ""

    def is_ready(self, snapshot: Snapshot) -> bool:
        """Whether the selectors of all shapes ran on the fleet, or take little time together."""
        known = _READY.of(snapshot.fleet)
        if known.get(self.digest) is not snapshot.classes:
            fleet = snapshot.fleet
            if sum(steps_to_run(shape.parsed(snapshot), fleet) for shape in self.shapes) > QUICK:
                return False
            known.put(self.digest, snapshot.classes)
        return True

    def without_slow(self, snapshot: Snapshot) -> "Demand":
        """Without shapes whose selectors are known to be slow: they run again whenever the fleet changes."""
        return Demand(tuple(shape for shape in self.shapes if not are_slow(shape.parsed(snapshot))))

    @property
    def claims(self) -> Iterator[ResourceClaim]:
        """A claim of each shape."""
        return (claim for shape in self.shapes if (claim := shape.claim()) is not None)

    def to_json(self) -> str:
        """As `read_demand` reads it."""
        return json.dumps({"shapes": [shape.to_json() for shape in self.shapes]}, sort_keys=True)


class ReadDemand(NamedTuple):
    """The demand in a text, without what could not be read."""

    demand: Demand
    refused: tuple[Malformed, ...] = ()
    """One for each shape that is left out"""


def demand_text(spec: ResourceClaimSpec) -> str:
    """JSON without defaults, equal for equal specs."""
    return spec.model_dump_json(by_alias=True, exclude_defaults=True)


def read_demand(text: str, source: str) -> ReadDemand:
    """A demand from `{"shapes": [{"weight": 3, "cpuMilli": 4000, "spec": {"devices": ...}}]}`.

    A shape that cannot be read is refused alone. Raises Malformed, naming `source`, if no shape can be.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(source, "", f"is longer than {MAX_LENGTH} characters; keep the most frequent shapes")
    try:
        raws = json.loads(text)["shapes"]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise Malformed(source, "shapes", "must be JSON with a list of shapes") from exc
    if not isinstance(raws, list):
        raise Malformed(source, "shapes", "must be a list")
    shapes, refused = [], []
    for number, raw in enumerate(raws[:MAX_SHAPES]):
        try:
            shapes.append(_shape(raw, f"shapes[{number}]", source))
        except Malformed as exc:
            refused.append(exc)
    if len(raws) > MAX_SHAPES:
        refused.append(Malformed(source, f"shapes[{MAX_SHAPES}:]", f"only {MAX_SHAPES} shapes are read"))
    return ReadDemand(Demand(tuple(shapes)), tuple(refused))


def _shape(raw: object, where: str, source: str) -> Shape:
    if not isinstance(raw, dict):
        raise Malformed(source, where, "must be an object")
    amounts = {}
    for field, least in (("weight", 1), ("cpuMilli", 0), ("value", 0)):
        amount = raw.get(field, least)
        if not isinstance(amount, int) or isinstance(amount, bool) or not least <= amount <= MOST:
            raise Malformed(source, f"{where}.{field}", f"must be a whole number from {least} to {MOST}")
        amounts[field] = amount
    try:
        spec = ResourceClaimSpec.model_validate(raw["spec"]) if raw.get("spec") is not None else None
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, (f"{where}.spec", *first["loc"])))
        raise Malformed(source, place, said_plainly(first)) from exc
    return Shape(spec, amounts["cpuMilli"], amounts["weight"], amounts["value"])


NO_DEMAND = Demand(())


SPEC_LENGTH = 2**13
"""Claims with longer specs, in characters of JSON, are not counted"""
PARTS = 1000
"""Parts of a claim in which weights count"""
LEAST_SHARE = 1000
"""A shape is left out of the demand if it is less than one so many-th of it"""
REBASE = 60.0
"""Half-lives after which counts are brought back to the present, so that they stay small numbers"""
MOVED = 0.05
"""A demand is another one if the shares of its shapes differ by so much in total"""


class Key(NamedTuple):
    """What makes shapes distinct."""

    spec: str
    """JSON of the spec, without what the driver alone reads"""
    cores: int
    """Thousandths of a CPU"""


class Count(Struct):
    """A shape and how often it was asked for, as if at the common time."""

    spec: ResourceClaimSpec
    value: float


class LearntDemand:
    """Counts of shapes. Of too many shapes, the rarest are dropped."""

    def __init__(self, half_life: float) -> None:
        """`half_life` in seconds."""
        self._half_life = half_life
        self._common = 0.0
        """The common time, in half-lives"""
        self._counts: dict[Key, Count] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, spec: ResourceClaimSpec, cores: int, at: float, weight: float = 1.0) -> None:
        """Count a claim that was seen at a time in seconds. A claim that holds no devices is not counted."""
        shape = _shape_of(spec)
        if shape is None:
            return
        text = demand_text(shape)
        if len(text) > SPEC_LENGTH:
            return
        self._rebase(at)
        key = Key(text, min(max(cores, 0), MOST))
        known = self._counts.setdefault(key, Count(shape, 0.0))
        known.value += weight * 2.0 ** (at / self._half_life - self._common)
        if len(self._counts) > MAX_SHAPES:
            del self._counts[min((one for one in self._counts if one != key), key=self._rank)]

    def load(self, shapes: Iterable[Shape], at: float) -> None:
        """Add what `demand` returned at a time in seconds."""
        for shape in shapes:
            if shape.spec is not None:
                self.count(shape.spec, shape.cores, at, shape.weight / PARTS)

    def demand(self, at: float) -> Demand:
        """The shapes, the most frequent first, with thousandths of claims as weights."""
        self._rebase(at)
        scale = PARTS * 2.0 ** (self._common - at / self._half_life)
        ordered = sorted(self._counts.items(), key=lambda one: self._rank(one[0]), reverse=True)
        total = sum(count.value for count in self._counts.values())
        shapes, length = [], 0
        for key, count in ordered:
            length += len(key.spec) + LEAST_SHARE
            if count.value * LEAST_SHARE < total or length > MAX_LENGTH:
                break
            weight = min(max(round(count.value * scale), 1), MOST)
            shapes.append(Shape(count.spec, key.cores, weight))
        return Demand(tuple(shapes))

    def _rank(self, key: Key) -> tuple[float, Key]:
        return self._counts[key].value, key

    def _rebase(self, at: float) -> None:
        now = at / self._half_life
        if not self._counts:
            self._common = now
        elif now - self._common > REBASE:
            factor = 2.0 ** (self._common - now)
            for count in self._counts.values():
                count.value *= factor
            self._common = now


def demand_differs(one: Demand, other: Demand) -> bool:
    """Whether decisions should use the other demand: it has other shapes, or their shares moved."""
    shares, others = _shares(one), _shares(other)
    if shares.keys() != others.keys():
        return True
    return sum(abs(shares[key] - others[key]) for key in shares) > MOVED


def _shares(demand: Demand) -> dict[Key, float]:
    total = sum(shape.weight for shape in demand.shapes)
    return {_key_of(shape): shape.weight / total for shape in demand.shapes}


def _key_of(shape: Shape) -> Key:
    return Key("" if shape.spec is None else demand_text(shape.spec), shape.cores)


def _shape_of(spec: ResourceClaimSpec) -> ResourceClaimSpec | None:
    """The spec without the configuration for drivers; None if it takes no devices for itself."""
    requests = [
        request
        for request in spec.devices.requests
        if request.exactly is None or not request.exactly.admin_access
    ]
    if len(requests) < len(spec.devices.requests) or not requests:
        return None
    devices = spec.devices.model_copy(update={"config": ()})
    return spec.model_copy(update={"devices": devices})
