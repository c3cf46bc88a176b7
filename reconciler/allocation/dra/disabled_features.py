"""Devices that cannot be allocated because the gate of a feature that they use is off.

Source: SEL-1, POOL-2, GRP-7. What is held does not matter: waiting does not help.
"""

from collections.abc import Mapping

import numpy as np

from kernels.types import Mask
from reconciler.allocation.dra.static_match import draws
from reconciler.api.objects.semantics import (
    BINDING_CONDITIONS,
    COMPATIBILITY_GROUPS,
    DEVICE_STATUS,
    PARTITIONABLE_DEVICES,
)
from reconciler.state.caches import Cache, share
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Topology

Disabled = Mapping[str, Mask]
"""Feature gate that is off -> (D,) the devices that need it; only gates that some device needs"""


def _disabled(topology: Topology) -> Disabled:
    fleet, rules = topology.fleet, topology.rules
    found: dict[str, Mask] = {}
    if not rules.binding_conditions:
        gate = DEVICE_STATUS if rules.has(BINDING_CONDITIONS) else BINDING_CONDITIONS
        found[gate] = _waiting(fleet)
    if not rules.has(PARTITIONABLE_DEVICES):
        found[PARTITIONABLE_DEVICES] = draws(fleet, np.arange(fleet.size)) | _partitioned(fleet)
    if not rules.has(COMPATIBILITY_GROUPS) and fleet.exclusion is not None:
        exclusion = fleet.exclusion
        silent = (exclusion.names == 0).all(axis=2) & (exclusion.scopes >= 0)
        found[COMPATIBILITY_GROUPS] = np.any(silent, axis=1)
    return {gate: mask for gate, mask in found.items() if mask.any()}


_DISABLED = Cache(_disabled, on_fork=share)


def disabled_features(topology: Topology) -> Disabled:
    """The devices that need a gate that is off, by gate."""
    return _DISABLED.of(topology)


def _waiting(fleet: Fleet) -> Mask:
    """(D,) devices with binding conditions."""
    bindings = fleet.vocabulary.bindings.values
    codes = [code for code, binding in enumerate(bindings) if binding.conditions]
    return np.isin(fleet.codes["binding"], codes)


def _partitioned(fleet: Fleet) -> Mask:
    """(D,) devices of slices that are ignored without partitionable devices."""
    pieces = [
        np.full(
            len(block.names),
            block.slice.spec.per_device_node_selection is not None or bool(block.slice.spec.shared_counters),
        )
        for pool in fleet.pools
        for block in pool.blocks
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.bool_)
