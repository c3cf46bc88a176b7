"""The kernels for gangs, written with loops."""

from kernels.bounds import UNLIMITED
from kernels.types import Amounts, Codes, Mask


def per_domain(each: Amounts, codes: Codes, size: int) -> list[int]:
    """See the kernel."""
    return [sum(int(n) for n, code in zip(each, codes, strict=True) if code == g) for g in range(size)]


def apart(each: Amounts, codes: Codes, groups: Codes) -> list[int]:
    """See the kernel."""
    seen, found = set(), []
    for number, code, group in zip(each.tolist(), codes.tolist(), groups.tolist(), strict=True):
        if group <= 0 or number <= 0 or code < 0:
            found.append(number)
        else:
            found.append(0 if (code, group) in seen else 1)
            seen.add((code, group))
    return found


def most_with(supply: Amounts, needs: Amounts) -> list[int]:
    """See the kernel."""
    found = []
    for amount in supply.tolist():
        modest = sorted(needs.tolist())
        found.append(max(n for n in range(len(modest) + 1) if sum(modest[:n]) <= amount))
    return found


def devices_of_sets(left: Amounts, least: Amounts, devices: Amounts) -> list[int]:
    """See the kernel."""
    return [
        min([max(a, 0) // b for a, b in zip(has, draws, strict=True) if b > 0] + [number])
        for has, draws, number in zip(left.tolist(), least.tolist(), devices.tolist(), strict=True)
    ]


def room_for(free: Amounts, wanted: Amounts, among: Mask) -> list[int]:
    """See the kernel."""
    return [
        min(
            [max(a, 0) // b for a, b in zip(free[:, n].tolist(), wanted.tolist(), strict=True) if b]
            + [UNLIMITED]
        )
        if among[n]
        else 0
        for n in range(free.shape[1])
    ]
