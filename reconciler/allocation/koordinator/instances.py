"""The number of devices and their shares that a pod needs on one machine, by type (KOO-5, KOO-6)."""

from msgspec import Struct

from reconciler.allocation.koordinator.demand import Demand, Instance
from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.requests import WHOLE
from reconciler.api.koordinator.annotations import APPLY_FOR_ALL, DEVICE_LEVEL, REQUESTS_AS_COUNT, Hint
from reconciler.api.koordinator.names import GPU, GPU_CORE, GPU_MEMORY_RATIO, KOORD_GPU, TYPES
from reconciler.state.koordinator.machine import Machine


class TypeDemand(Struct, frozen=True):
    """The devices of one type that a pod needs on any machine."""

    instance: Instance
    of_all: bool = False
    """All matching devices of the machine are needed."""


def instances(
    demand: Demand, machine: Machine, *, upstream: bool, trial: bool
) -> dict[str, Instance] | Failure:
    """Device type -> needed devices, in the order of the decision."""
    found: dict[str, Instance] = {}
    for kind in wanted_types(demand, machine, trial=trial):
        needed = instance(demand, kind, machine, upstream=upstream)
        if isinstance(needed, Failure):
            return needed
        found[kind] = needed
    for kind in found:
        devices = machine.devices[kind].values()
        if demand.hint(kind).vf_selector is not None and not any(device.vf_groups for device in devices):
            message = f"Insufficient {kind} VirtualFunctions"
            return Failure(f"no-virtual-functions:{kind}", Status.NEVER, message)
    return found


def wanted_types(demand: Demand, machine: Machine, *, trial: bool) -> tuple[str, ...]:
    """The requested types; in a trial on a well-planned machine only the primary type (KOO-13)."""
    whole_gpus = demand.gpu is not None and not demand.gpu.shared
    if trial and machine.well_planned and demand.primary and whole_gpus:
        return (demand.primary,)
    return tuple(kind for kind in TYPES if kind in demand.requests)


def instance(demand: Demand, kind: str, machine: Machine, *, upstream: bool) -> Instance | Failure:
    """The devices of one type that a pod needs on one machine."""
    devices = machine.devices.get(kind)
    wanted = type_demand(demand, kind, upstream=upstream)
    count = wanted.instance.count
    if devices and wanted.of_all:
        selector = demand.hint(kind).selector
        # The release also counts unhealthy devices, and so requires more than exist.
        count = sum(
            (upstream or device.health) and (selector is None or selector.matches(device.labels))
            for device in devices.values()
        )
    if not devices or not count:
        return Failure(f"no-devices-of-type:{kind}", Status.NEVER, f"Insufficient {kind} devices")
    return Instance(count, wanted.instance.each, wanted.instance.shared)


def type_demand(demand: Demand, kind: str, *, upstream: bool) -> TypeDemand:
    """The devices of one type that a pod needs on any machine."""
    hint = demand.hint(kind)
    if kind == GPU and demand.gpu is not None:
        return TypeDemand(demand.gpu) if upstream else _gpus(demand, demand.gpu, hint)
    ((name, amount),) = demand.requests[kind].items()
    # In the release a multiple of a whole device overrides the hint.
    if amount > WHOLE and (upstream or hint.allocate_strategy not in (APPLY_FOR_ALL, REQUESTS_AS_COUNT)):
        return TypeDemand(Instance(amount // WHOLE, {name: WHOLE}))
    if hint.allocate_strategy == APPLY_FOR_ALL:
        return TypeDemand(Instance(1, {name: amount}), of_all=True)
    if hint.allocate_strategy == REQUESTS_AS_COUNT:
        return TypeDemand(Instance(amount, {name: WHOLE if hint.exclusive_policy == DEVICE_LEVEL else 1}))
    return TypeDemand(Instance(1, {name: amount}))


def _gpus(demand: Demand, gpu: Instance, hint: Hint) -> TypeDemand:
    written = demand.written[GPU]
    if hint.allocate_strategy == REQUESTS_AS_COUNT and KOORD_GPU in written:
        # A GPU has no virtual functions: an instance is the whole GPU.
        return TypeDemand(Instance(written[KOORD_GPU], {GPU_CORE: WHOLE, GPU_MEMORY_RATIO: WHOLE}))
    return TypeDemand(gpu, of_all=hint.allocate_strategy == APPLY_FOR_ALL)
