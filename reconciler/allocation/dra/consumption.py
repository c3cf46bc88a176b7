"""What an allocation takes of a capacity: the request, rounded as a policy says. Source: CAP-1 to CAP-12."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.allocation.dra.budget import Fatal
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.quantity import INT64_MAX, NANO, Quantity
from reconciler.api.objects.semantics import FRACTIONAL_RANGE, Semantics
from reconciler.api.objects.slices import CapacityPolicy, CapacityRange
from reconciler.state.devices.encoding.vocabulary import CapacitySlot

MILLI = NANO // 1000


class Consumption(Struct, frozen=True):
    """What one allocation consumes of each capacity of a device, and what the device has."""

    taken: Mapping[str, Quantity]
    """Capacity key, as the slice spells it -> amount"""
    total: Mapping[str, int]
    """Capacity key -> billionths"""

    def fits(self, consumed: Mapping[str, int]) -> bool:
        """Whether it fits in addition to what is consumed already (CAP-8)."""
        return all(consumed.get(key, 0) + q.nanos <= self.total[key] for key, q in self.taken.items())

    def added_to(self, consumed: Mapping[str, int]) -> dict[str, int]:
        """What is consumed afterwards."""
        return {**consumed, **{key: consumed.get(key, 0) + q.nanos for key, q in self.taken.items()}}


def consume(
    slots: tuple[CapacitySlot, ...], requests: Mapping[str, Quantity], rules: Semantics
) -> Consumption | None:
    """What an allocation with these capacity requests consumes; None if the device cannot give it.

    Every capacity is resolved before the first refusal. So an amount that cannot be represented is an error
    in any order (CAP-12). Raises Fatal for such an amount.
    """
    own = [slot for slot in slots if not slot.drawn]
    taken = {slot.key: resolved(slot, requests.get(slot.key), rules) for slot in own}
    for key, amount in taken.items():
        if amount.nanos < 0:
            raise Fatal(
                Reason.CAPACITY_INVALID, f"capacity {key}: the amount to consume is negative: {amount}"
            )
    if not requests.keys() <= {slot.key for slot in slots}:
        return None
    if any(not allowed(taken[slot.key], slot.policy) for slot in own):
        return None
    return Consumption(taken, {slot.key: slot.value.nanos for slot in own})


def resolved(slot: CapacitySlot, request: Quantity | None, rules: Semantics) -> Quantity:
    """CAP-3: the default or the whole capacity; else the request, rounded up to what the policy allows."""
    policy = slot.policy
    if request is None:
        return policy.default if policy is not None and policy.default is not None else slot.value
    if policy is None:
        return request
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_to_range(slot.key, request, policy.valid_range, policy.valid_range.min, rules)
    if policy.valid_values:
        return min((value for value in policy.valid_values if value >= request), default=request)
    return request


def _round_to_range(
    key: str, request: Quantity, allowed: CapacityRange, minimum: Quantity, rules: Semantics
) -> Quantity:
    """CAP-5, CAP-6: at least the minimum, and a whole number of steps above it."""
    if request < minimum:
        return minimum
    if allowed.step is None:
        return request
    unit = NANO
    bounds = [minimum, allowed.step, *([allowed.max] if allowed.max is not None else [])]
    if (
        rules.has(FRACTIONAL_RANGE)
        and allowed.step.nanos >= MILLI
        and all(q.nanos % MILLI == 0 for q in bounds)
    ):
        unit = MILLI
        if request.nanos % MILLI:
            raise Fatal(
                Reason.CAPACITY_INVALID, f"capacity {key}: a request of {request} is finer than a thousandth"
            )
    wanted, least, step = (-(-q.nanos // unit) for q in (request, minimum, allowed.step))
    if step <= 0:
        raise Fatal(Reason.CAPACITY_INVALID, f"capacity {key}: the step {allowed.step} is not positive")
    rounded = least + -(-(wanted - least) // step) * step
    if max(wanted, rounded) > INT64_MAX:
        raise Fatal(
            Reason.CAPACITY_INVALID, f"capacity {key}: a request of {request} is too large to be rounded"
        )
    return Quantity(rounded * unit, allowed.step.format)


def allowed(amount: Quantity, policy: CapacityPolicy | None) -> bool:
    """CAP-7."""
    if policy is None or (policy.default is not None and amount == policy.default):
        return True
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        if limits.max is not None and amount > limits.max:
            return False
        return limits.step is None or (amount.nanos - limits.min.nanos) % limits.step.nanos == 0
    return not policy.valid_values or amount in policy.valid_values
