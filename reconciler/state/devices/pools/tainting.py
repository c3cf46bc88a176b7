"""Taints from DeviceTaintRules. Source: TNT-7."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Mask
from reconciler.api.objects.slices import DeviceTaint
from reconciler.api.objects.taint_rules import DeviceTaintRule, DeviceTaintSelector
from reconciler.state.devices.pools.fleet import Fleet


def taint(fleet: Fleet, rule: DeviceTaintRule, ranges: Sequence[slice]) -> None:
    """Add a rule's taint to its devices within some ranges of rows.

    Writes to the fleet's column of taints. As upstream, a rule without a selector matches no device.
    """
    selector = rule.spec.device_selector
    if selector is None or not ranges:
        return
    selected = np.zeros(fleet.size, dtype=np.bool_)
    for rows in ranges:
        selected[rows] = True
    selected &= _matching(fleet, selector)
    column = fleet.codes["taints"]
    before_codes = np.unique(column[selected]).tolist()
    groups = [(code, selected & (column == code)) for code in before_codes]
    for code, rows_of_code in groups:
        before: tuple[DeviceTaint, ...] = fleet.vocabulary.taints.values[code] if code >= 0 else ()
        column[rows_of_code] = fleet.vocabulary.taints.code((*before, rule.spec.taint))


def _matching(fleet: Fleet, selector: DeviceTaintSelector) -> Mask:
    """(D,) the devices that a selector matches. A field that is not set matches any device."""
    selected = np.ones(fleet.size, dtype=np.bool_)
    if selector.driver is not None:
        selected &= fleet.codes["driver"] == fleet.vocabulary.drivers.find(selector.driver)
    if selector.pool is not None:
        of_name = [at for at, pool in enumerate(fleet.pools) if pool.id.pool == selector.pool]
        selected &= np.isin(fleet.pool_of, of_name)
    if selector.device is not None:
        named = np.zeros(fleet.size, dtype=np.bool_)
        for at, pool in enumerate(fleet.pools):
            named[[int(fleet.start[at]) + row for row in pool.rows_of(selector.device)]] = True
        selected &= named
    return selected
