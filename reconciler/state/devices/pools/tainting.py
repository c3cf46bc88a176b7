"""Taints that administrators put on devices. Source: TNT-7."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Mask
from reconciler.api.objects.slices import DeviceTaint
from reconciler.api.objects.taint_rules import DeviceTaintRule, DeviceTaintSelector
from reconciler.state.devices.pools.fleet import Fleet


def taint(fleet: Fleet, rule: DeviceTaintRule, ranges: Sequence[slice]) -> None:
    """Add a rule's taint to the devices it names, within some ranges of rows.

    Writes to the fleet's column of taints. Without a selector a rule names no device, as documented upstream.
    """
    selector = rule.spec.device_selector
    if selector is None or not ranges:
        return
    hit = np.zeros(fleet.size, dtype=np.bool_)
    for rows in ranges:
        hit[rows] = True
    hit &= _named(fleet, selector)
    column = fleet.codes["taints"]
    before_codes = np.unique(column[hit]).tolist()
    chosen = [(code, hit & (column == code)) for code in before_codes]
    for code, rows_of_code in chosen:
        before: tuple[DeviceTaint, ...] = fleet.words.taints.values[code] if code >= 0 else ()
        column[rows_of_code] = fleet.words.taints.code((*before, rule.spec.taint))


def _named(fleet: Fleet, selector: DeviceTaintSelector) -> Mask:
    """(D,) the devices whose names a selector gives; what it does not give matches any."""
    hit = np.ones(fleet.size, dtype=np.bool_)
    if selector.driver is not None:
        hit &= fleet.codes["driver"] == fleet.words.drivers.find(selector.driver)
    if selector.pool is not None:
        of_name = [at for at, pool in enumerate(fleet.pools) if pool.id.pool == selector.pool]
        hit &= np.isin(fleet.pool_of, of_name)
    if selector.device is not None:
        named = np.zeros(fleet.size, dtype=np.bool_)
        for at, pool in enumerate(fleet.pools):
            named[[int(fleet.start[at]) + row for row in pool.rows_of(selector.device)]] = True
        hit &= named
    return hit
