"""The demand as it is learnt: how often each shape was asked for, of late.

A claim counts 1 when it is seen, half after one half-life, a quarter after two. All counts decay alike, so a
count is kept as its value at a common time, and a new claim counts the more the later it comes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from reconciler.allocation.policies.demand import MAX_LENGTH, MAX_SHAPES, MOST, Demand, Shape, text_of
from reconciler.api.objects.claims import ResourceClaimSpec

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
        text = text_of(shape)
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


def differs(one: Demand, other: Demand) -> bool:
    """Whether decisions should use the other demand: it has other shapes, or their shares moved."""
    shares, others = _shares(one), _shares(other)
    if shares.keys() != others.keys():
        return True
    return sum(abs(shares[key] - others[key]) for key in shares) > MOVED


def _shares(demand: Demand) -> dict[Key, float]:
    total = sum(shape.weight for shape in demand.shapes)
    return {_key_of(shape): shape.weight / total for shape in demand.shapes}


def _key_of(shape: Shape) -> Key:
    return Key("" if shape.spec is None else text_of(shape.spec), shape.cores)


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
