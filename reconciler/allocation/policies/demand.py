"""What claims and pods ask for, and how often: the demand that policies keep room for."""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from pydantic import ValidationError

from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import Slot, read_claims
from reconciler.allocation.dra.selector_masks import QUICK, are_slow, is_overspent, steps_to_run
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.meta import ObjectMeta
from reconciler.errors import Malformed
from reconciler.state.caches import Cache
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot

MAX_SHAPES = 256
"""Shapes of one demand: each costs a pass over the fleet whenever the demand or the fleet changes"""
MAX_LENGTH = 2**18
"""Characters of a demand as JSON: a ConfigMap holds four times as much"""
KEPT = 4
"""Demands that are known to be ready on one fleet"""
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
        spec = None if self.spec is None else json.loads(text_of(self.spec))
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


_READY: Cache[Fleet, dict[str, object]] = Cache(lambda _: {}, on_fork=dict.copy)
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
            known[self.digest] = snapshot.classes
            if len(known) > KEPT:
                del known[next(iter(known))]
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


def text_of(spec: ResourceClaimSpec) -> str:
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
        raise Malformed(source, place, str(first["msg"])) from exc
    return Shape(spec, amounts["cpuMilli"], amounts["weight"], amounts["value"])


NO_DEMAND = Demand(())
