"""Devices that are excluded because a holder or the pending pod requests exclusive use."""

from collections.abc import Collection

from reconciler.api.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL, Hint
from reconciler.state.koordinator.holdings import Holdings
from reconciler.state.koordinator.machine import Machine


def excluded_minors(
    kind: str, hint: Hint, machine: Machine, holdings: Holdings, released: Collection[int]
) -> frozenset[int]:
    """Minors of one type that a pod cannot have, because it or a holder requests exclusive use.

    Exclusive use is without another holder of that type on the device, or on its PCIe switch. A device
    without a known switch counts as its own switch. The holders of minors in `released` are ignored.
    """
    minors = machine.devices.get(kind, {}).keys()
    closed = set(holdings.exclusive(kind, DEVICE_LEVEL)) - set(released)
    busy_switches = {
        _switch(machine, kind, minor) for minor in holdings.exclusive(kind, PCIE_LEVEL).difference(released)
    }
    held = holdings.held(kind).difference(released)
    if hint.exclusive_policy == DEVICE_LEVEL:
        closed |= held
    elif hint.exclusive_policy == PCIE_LEVEL:
        busy_switches |= {_switch(machine, kind, minor) for minor in held}
    return frozenset(m for m in minors if m in closed or _switch(machine, kind, m) in busy_switches)


def _switch(machine: Machine, kind: str, minor: int) -> str | int:
    pcie = machine.pcie(kind, minor)
    return minor if pcie is None else pcie
