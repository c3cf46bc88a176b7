"""Shares: amounts of one device by resource name, and their arithmetic (KOO-1)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reconciler.api.koordinator.names import CURRENT_NAME, GPU_MEMORY
from reconciler.api.objects.quantity import Format, Quantity
from reconciler.errors import Malformed

Shares = Mapping[str, int]

NOTHING: Shares = MappingProxyType({})
LIMIT = 2**60
"""Above any amount of a device, and sums of a few still fit 64 bits."""


def whole(subject: str, name: str, quantity: Quantity) -> int:
    """A quantity as an integer, rounded up. Raises Malformed if it is negative or not below LIMIT."""
    amount = quantity.integer
    if not 0 <= amount < LIMIT:
        raise Malformed(subject, name, f"{quantity} is out of range for a device")
    return amount


def shares_of(subject: str, quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Quantities as integers by current name; if both names are set, the current one counts."""
    current = {CURRENT_NAME.get(name, name): whole(subject, name, q) for name, q in quantities.items()}
    return current | {name: whole(subject, name, q) for name, q in quantities.items() if name in current}


def fits(wanted: Shares, free: Shares) -> bool:
    """Whether the device has enough of each wanted resource that it reports; others are not checked."""
    return all(amount <= free[name] for name, amount in wanted.items() if name in free)


def any_left(free: Shares) -> bool:
    """Whether any amount is free."""
    return any(amount > 0 for amount in free.values())


def minus(these: Shares, those: Shares) -> dict[str, int]:
    """`these` - `those` for every name of `these`, at least zero."""
    return {name: max(amount - those.get(name, 0), 0) for name, amount in these.items()}


def plus(these: Shares, those: Shares) -> dict[str, int]:
    """`these` + `those` for all names of both."""
    return {name: these.get(name, 0) + those.get(name, 0) for name in {**these, **those}}


def least(these: Shares, those: Shares) -> dict[str, int]:
    """The minimum for each name that both have."""
    return {name: min(amount, those[name]) for name, amount in these.items() if name in those}


def printed(shares: Shares) -> dict[str, Any]:
    """Amounts as quantity strings, names sorted; memory with binary suffixes."""
    return {
        name: str(
            Quantity(Quantity.of(shares[name]).nanos, Format.BINARY if name == GPU_MEMORY else Format.DECIMAL)
        )
        for name in sorted(shares)
    }
