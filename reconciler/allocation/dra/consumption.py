"""What an allocation takes of a capacity, and what it draws from counters where a request says how much.
Source: CAP-1 to CAP-12, SCC-1, SCC-2.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.fit import fits
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.api.objects.claims import ConsumedCounters
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.quantity import INT64_MAX, NANO, Quantity
from reconciler.api.objects.semantics import FRACTIONAL_RANGE, SHARED_CAPACITY, Semantics
from reconciler.api.objects.slices import CapacityPolicy, CapacityRange
from reconciler.state.devices.counters import CounterSetColumns
from reconciler.state.devices.encoding.vocabulary import Asked, CapacitySlot
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View

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
    if any(not allowed(taken[slot.key], slot.policy, rules) for slot in own):
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
    unit = _unit(allowed, rules)
    if unit == MILLI and request.nanos % MILLI:
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


def _unit(allowed: CapacityRange, rules: Semantics) -> int:
    """In which unit, in billionths, steps of a range are counted (CAP-6)."""
    bounds = [one for one in (allowed.min, allowed.max, allowed.step) if one is not None]
    fine = allowed.step is not None and allowed.step.nanos >= MILLI
    is_milli = fine and all(one.nanos % MILLI == 0 for one in bounds)
    return MILLI if is_milli and rules.has(FRACTIONAL_RANGE) else NANO


def allowed(amount: Quantity, policy: CapacityPolicy | None, rules: Semantics) -> bool:
    """CAP-7."""
    if policy is None or (policy.default is not None and amount == policy.default):
        return True
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        if limits.max is not None and amount > limits.max:
            return False
        if limits.step is None:
            return True
        unit = _unit(limits, rules)
        if unit == MILLI and amount.nanos % MILLI:
            return False
        found, least, step = (-(-one.nanos // unit) for one in (amount, limits.min, limits.step))
        return step > 0 and (found - least) % step == 0
    return not policy.valid_values or amount in policy.valid_values


Requested = Mapping[str, Quantity]
"""Capacity key -> what a request wants of it"""


class RequestDraws(Struct, frozen=True):
    """What n devices draw for one request option, beside what others of their kind draw in any case."""

    asking: Mask
    """(n,) the request says the amount of a counter"""
    refused: Mask
    """(n,) such devices that cannot give the amount, whatever is held"""
    table: Amounts
    """(P, C) distinct draws, in the unit of each set's counter; the first is nothing"""
    whole: Codes
    """(n, K) row of `table` for each set of an asking device"""
    further: Codes
    """(n, K) the same for a further share: what the device draws in any case is drawn already (CTR-9)"""

    def of(self, view: View) -> "RequestDraws":
        """The same for the devices of a view."""
        parts = {name: view.of(getattr(self, name)) for name in ("asking", "refused", "whole", "further")}
        return replace(self, **parts)

    def fit(self, left: Amounts, sets: Codes, sharing: Mask, rows: Rows | slice = slice(None)) -> Mask:
        """(m,) of some rows: what they draw fits in what is left of their sets.

        left    (S, C)
        sets    (m, K)  their rows of `left`, -1 for none
        sharing (m,)    an earlier share has drawn
        """
        fitting = ~self.refused[rows]
        at = np.flatnonzero(self.asking[rows])
        draws = np.where(sharing[at, np.newaxis], self.further[rows][at], self.whole[rows][at])
        fitting[at] &= fits(left, self.table, sets[at], draws)
        return fitting


def drawn_by(asks: RequestDraws | None, rows: Rows, k: int, fleet: Fleet) -> Amounts:
    """(m, C) what some rows of a fleet draw from their set number k for a request, or in any case."""
    found = fleet.table.take(fleet.draws[rows, k], axis=0, mode="clip")
    if asks is not None:
        asking = asks.asking[rows]
        found[asking] = asks.table[asks.whole[rows[asking], k]]
    return found


def request_draws(requested: Requested, snapshot: Snapshot, matching: Mask) -> RequestDraws | None:
    """What the devices in a mask (D,) draw for a request; None if it says no amount of a counter."""
    fleet, rules = snapshot.fleet, snapshot.rules
    if not rules.has(SHARED_CAPACITY):
        return None
    codes = fleet.codes["asked"]
    rows = np.flatnonzero(matching & (codes >= 0))
    if not len(rows):
        return None
    kinds = [*codes[rows, np.newaxis].T, *_kinds(fleet)[fleet.sets[rows]].T, *fleet.draws[rows].T]
    _, kind = np.unique(np.array(kinds).T, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    in_order, ends = rows[np.argsort(kind, kind="stable")], np.cumsum(np.bincount(kind))
    table, whole = [np.zeros(fleet.table.shape[1], dtype=np.int64)], np.zeros_like(fleet.sets)
    further, refused = whole.copy(), np.zeros(fleet.size, dtype=np.bool_)
    for alike in np.split(in_order, ends[:-1]):
        row = alike.item(0)
        for k, columns in enumerate(_sets_of(row, fleet)):
            amounts = _row(requested, row, columns, fleet, rules)
            if amounts is None:
                refused[alike] = True
                break
            drawn = np.minimum(amounts, np.iinfo(np.int64).max - fleet.table[fleet.draws[row, k]])
            further[alike, k], whole[alike, k] = len(table), len(table) + 1
            table += [drawn, drawn + fleet.table[fleet.draws[row, k]]]
    made = RequestDraws(matching & (codes >= 0), refused, np.array(table), whole, further)
    refused |= ~made.fit(fleet.totals, fleet.sets, np.zeros_like(refused))
    return made


def consumed_counters(requested: Requested, row: int, snapshot: Snapshot) -> tuple[ConsumedCounters, ...]:
    """What the result of a device says of its counters: also what it draws in any case (SCC-3)."""
    fleet, found = snapshot.fleet, []
    for k, columns in enumerate(_sets_of(row, fleet)):
        drawn = fleet.table[fleet.draws[row, k]].tolist()
        nanos = {
            name: much * unit
            for name, unit, much in zip(columns.counters, columns.units, drawn, strict=False)
            if much
        }
        for one, much in _amounts(requested, row, columns, fleet, snapshot.rules):
            if much is not None:
                nanos[one.counter] = nanos.get(one.counter, 0) + much.nanos
        amounts = {name: Quantity(much) for name, much in nanos.items()}
        found.append(ConsumedCounters(counter_set=columns.id.name, counters=amounts))
    return tuple(found)


def _sets_of(row: int, fleet: Fleet) -> Iterator[CounterSetColumns]:
    return (fleet.set_columns[number] for number in fleet.sets[row].tolist() if number >= 0)


def _kinds(fleet: Fleet) -> Codes:
    """(S + 1,) sets that publish the same have the same kind; -1, the last, is no set."""
    known: dict[object, int] = {}
    kinds = [
        known.setdefault((it.id.name, it.scale, it.totals, *it.policies.items()), len(known))
        for it in fleet.set_columns
    ]
    return np.array([*kinds, -1], dtype=np.int32)


def _row(
    requested: Requested, row: int, columns: CounterSetColumns, fleet: Fleet, rules: Semantics
) -> Amounts | None:
    """(C,) what a device draws from a set as the request says, rounded up to units; None if it cannot."""
    found = np.zeros(fleet.table.shape[1], dtype=np.int64)
    for one, amount in _amounts(requested, row, columns, fleet, rules):
        if amount is None:
            return None
        at = columns.counters.index(one.counter)
        drawn = int(found[at]) - (-amount.nanos // columns.units[at])
        found[at] = min(drawn, max(columns.totals[at], 0) + 1)
    return found


def _amounts(
    requested: Requested, row: int, columns: CounterSetColumns, fleet: Fleet, rules: Semantics
) -> Iterator[tuple[Asked, Quantity | None]]:
    """How much a device draws of each counter of a set of which the request says it; None if that is not
    allowed or cannot be represented.
    """
    code = int(fleet.codes["asked"][row])
    for one in fleet.vocabulary.asked.values[code] if code >= 0 else ():
        if one.set == columns.id.name:
            at = columns.counters.index(one.counter)
            total = Quantity(columns.totals[at] * columns.units[at])
            slot = CapacitySlot(one.keys[0], total, columns.policies.get(one.counter))
            wanted = max((requested[key] for key in one.keys if key in requested), default=None)
            try:
                amount = resolved(slot, wanted, rules)
            except Fatal:
                yield one, None
            else:
                yield one, amount if amount.nanos >= 0 and allowed(amount, slot.policy, rules) else None
