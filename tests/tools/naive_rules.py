"""Single rules of the allocator, written with plain values. Slow on purpose (docs/reference/rules)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reconciler.api.objects.plan import Reason
from reconciler.api.objects.quantity import NANO, Quantity
from tests.tools.allocation_world import World
from tests.tools.builders import Object

DeviceKey = tuple[str, str, str]
Amounts = dict[str, Fraction]


class Failure(Exception):
    """An error, as opposed to a plain "does not fit"."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def exact(quantity: str) -> Fraction:
    return Fraction(Quantity.parse(quantity).nanos, NANO)


def selected(selector: Object, node: Object) -> bool:
    """NM-2."""
    return any(
        bool(term.get("matchExpressions") or term.get("matchFields"))
        and all(_holds(r, node["metadata"].get("labels", {})) for r in term.get("matchExpressions", ()))
        and all(
            (node["metadata"]["name"] in r["values"]) == (r["operator"] == "In")
            for r in term.get("matchFields", ())
        )
        for term in selector["nodeSelectorTerms"]
    )


def _holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(f"not used in these worlds: {requirement}")


def tolerates(toleration: Object, taint: Object) -> bool:
    """TNT-2."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator", "Equal"):
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.get("value", "") == taint.get("value", "")
    return False


def resolved(entry: Object, asked: Fraction | None, *, fractional: bool) -> Fraction:
    """CAP-3 to CAP-6."""
    policy = entry.get("requestPolicy") or {}
    if asked is None:
        return exact(policy["default"]) if "default" in policy else exact(entry["value"])
    if "validRange" in policy:
        return _in_range(policy["validRange"], asked, fractional=fractional)
    larger = [exact(v) for v in policy.get("validValues", ()) if exact(v) >= asked]
    return min(larger, default=asked)


def _in_range(valid: Object, asked: Fraction, *, fractional: bool) -> Fraction:
    least = exact(valid["min"])
    if asked < least:
        return least
    if "step" not in valid:
        return asked
    step, grain = exact(valid["step"]), _grain(valid, fractional=fractional)
    if grain != 1 and (asked / grain).denominator != 1:
        raise Failure(Reason.CAPACITY_INVALID)
    asked, least, step = (-(-q // grain) * grain for q in (asked, least, step))
    reached = least
    while reached < asked:
        reached += step
    if reached / grain > 2**63 - 1:
        raise Failure(Reason.CAPACITY_INVALID)
    return reached


def _grain(valid: Object, *, fractional: bool) -> Fraction:
    bounds = [exact(valid[key]) for key in ("min", "max", "step") if key in valid]
    fine = exact(valid["step"]) >= Fraction(1, 1000) and all((b * 1000).denominator == 1 for b in bounds)
    return Fraction(1, 1000) if fractional and fine else Fraction(1)


def permitted(entry: Object, taken: Fraction, *, fractional: bool) -> bool:
    """CAP-7."""
    policy = entry.get("requestPolicy") or {}
    if "default" in policy and exact(policy["default"]) == taken:
        return True
    if "validRange" in policy:
        valid = policy["validRange"]
        if "max" in valid and taken > exact(valid["max"]):
            return False
        if "step" not in valid:
            return True
        grain = _grain(valid, fractional=fractional)
        if grain != 1 and (taken / grain).denominator != 1:
            return False
        whole, least, step = (-(-q // grain) for q in (taken, exact(valid["min"]), exact(valid["step"])))
        return (whole - least) % step == 0
    values = policy.get("validValues", ())
    return not values or taken in [exact(v) for v in values]


def values_of(attribute: Object | None, *, lists: bool) -> frozenset[tuple[str, Any]] | None:
    """An attribute as a set of typed values; None if it is absent, or a list that is not supported."""
    if attribute is None:
        return None
    ((kind, value),) = attribute.items()
    if not kind.endswith("s"):
        return frozenset([(kind, value)])
    return frozenset((kind[:-1], v) for v in value) if lists else None


def applies(constraint: Object, request: str, sub: str) -> bool:
    """CON-1."""
    named = constraint.get("requests") or [request]
    return request in named or bool(sub and f"{request}/{sub}" in named)


@dataclass
class Holdings:
    """Devices held before the decision (AS-1, AS-2)."""

    dedicated: set[DeviceKey]
    shares: dict[DeviceKey, Amounts]
    records: dict[DeviceKey, list[dict[tuple[str, str], Fraction] | None]] = field(default_factory=dict)
    """What each hold says of counters; None if it says nothing"""

    def __contains__(self, key: DeviceKey) -> bool:
        return key in self.dedicated or key in self.shares


def holdings(world: World) -> Holdings:
    found = Holdings(set(), {})
    for claim in world.held:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            key = (result["driver"], result["pool"], result["device"])
            if result.get("adminAccess"):
                continue
            said = {
                (of_set["counterSet"], name): exact(value)
                for of_set in result.get("consumedCounters", ())
                for name, value in of_set["counters"].items()
            }
            found.records.setdefault(key, []).append(said or None)
            if result.get("shareID") and world.rules.has("DRAConsumableCapacity"):
                consumed = found.shares.setdefault(key, {})
                for name, value in result.get("consumedCapacity", {}).items():
                    consumed[name] = consumed.get(name, Fraction(0)) + exact(value)
            else:
                found.dedicated.add(key)
    return found
