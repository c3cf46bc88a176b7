"""What claims and pods ask for, and how often: the demand that policies keep room for."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import Slot, read_claims
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.meta import ObjectMeta
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Shape:
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
        spec = None if self.spec is None else json.loads(self.spec.model_dump_json(exclude_defaults=True))
        return {"weight": self.weight, "value": self.value, "cpuMilli": self.cores, "spec": spec}

    def slots(self, snapshot: Snapshot) -> tuple[Slot, ...]:
        """Its requests; empty if it has none, or if no node could meet them."""
        if self.spec is None:
            return ()
        claim = ResourceClaim(metadata=ObjectMeta(name="shape", namespace="demand"), spec=self.spec)
        try:
            return read_claims([claim], snapshot.classes, snapshot.rules).slots
        except Fatal:  # for example a class that was deleted: nobody can ask for it now
            return ()


@dataclass(frozen=True)
class Demand:
    """All shapes, each once."""

    shapes: tuple[Shape, ...]

    @cached_property
    def digest(self) -> str:
        """Equal for equal demands."""
        text = json.dumps([shape.to_json() for shape in self.shapes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12] if self.shapes else ""


def read_demand(text: bytes, source: str) -> Demand:
    """A demand from `{"shapes": [{"weight": 3, "cpuMilli": 4000, "spec": {"devices": ...}}]}`.

    Raises Malformed.
    """
    try:
        shapes = json.loads(text)["shapes"]
    except (ValueError, TypeError, KeyError) as exc:
        raise Malformed(source, "shapes", "must be JSON with a list of shapes") from exc
    if not isinstance(shapes, list):
        raise Malformed(source, "shapes", "must be a list")
    return Demand(tuple(_shape(raw, f"shapes[{number}]", source) for number, raw in enumerate(shapes)))


def _shape(raw: object, where: str, source: str) -> Shape:
    if not isinstance(raw, dict):
        raise Malformed(source, where, "must be an object")
    amounts = {}
    for field, least in (("weight", 1), ("cpuMilli", 0), ("value", 0)):
        amount = raw.get(field, least)
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < least:
            raise Malformed(source, f"{where}.{field}", f"must be a whole number, at least {least}")
        amounts[field] = amount
    try:
        spec = ResourceClaimSpec.model_validate(raw["spec"]) if raw.get("spec") is not None else None
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, (f"{where}.spec", *first["loc"])))
        raise Malformed(source, place, str(first["msg"])) from exc
    return Shape(spec, amounts["cpuMilli"], amounts["weight"], amounts["value"])


NO_DEMAND = Demand(())
