"""How many devices of each type a pod needs on one machine, each charged how much (sections 5.2, 5.3)."""

from reconciler.koordinator.annotations import APPLY_FOR_ALL, DEVICE_LEVEL, REQUESTS_AS_COUNT, Hint
from reconciler.koordinator.demand import Demand, Instance
from reconciler.koordinator.failure import Failure, Status
from reconciler.koordinator.machine import Machine
from reconciler.koordinator.names import GPU, GPU_CORE, GPU_MEMORY_RATIO, KOORD_GPU, TYPES
from reconciler.koordinator.requests import WHOLE


def instances(
    demand: Demand, machine: Machine, *, upstream: bool, trial: bool
) -> dict[str, Instance] | Failure:
    """Device type -> what is needed, in the order in which types are decided."""
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
    """The requested types; in a trial only the primary one where the others are planned elsewhere (9.4)."""
    whole_gpus = demand.gpu is not None and not demand.gpu.shared
    if trial and machine.well_planned and demand.primary and whole_gpus:
        return (demand.primary,)
    return tuple(kind for kind in TYPES if kind in demand.requests)


def instance(demand: Demand, kind: str, machine: Machine, *, upstream: bool) -> Instance | Failure:
    """What is needed of one type."""
    if not machine.devices.get(kind):
        return _none_of(kind)
    if kind == GPU and demand.gpu is not None:
        if upstream:
            return demand.gpu
        return _gpus(demand, demand.gpu, machine)
    hint = demand.hint(kind)
    ((name, amount),) = demand.requests[kind].items()
    # The release lets a multiple of a whole device outrank what the hint says.
    if amount > WHOLE and (upstream or hint.allocate_strategy not in (APPLY_FOR_ALL, REQUESTS_AS_COUNT)):
        return Instance(amount // WHOLE, {name: WHOLE})
    if hint.allocate_strategy == APPLY_FOR_ALL:
        return _all(kind, Instance(0, {name: amount}), hint, machine, upstream=upstream)
    if hint.allocate_strategy == REQUESTS_AS_COUNT:
        return Instance(amount, {name: WHOLE if hint.exclusive_policy == DEVICE_LEVEL else 1})
    return Instance(1, {name: amount})


def _gpus(demand: Demand, gpu: Instance, machine: Machine) -> Instance | Failure:
    hint = demand.hint(GPU)
    if hint.allocate_strategy == APPLY_FOR_ALL:
        return _all(GPU, gpu, hint, machine, upstream=False)
    written = demand.written[GPU]
    if hint.allocate_strategy == REQUESTS_AS_COUNT and KOORD_GPU in written:
        # A GPU has no virtual functions: an instance of it is the card.
        return Instance(written[KOORD_GPU], {GPU_CORE: WHOLE, GPU_MEMORY_RATIO: WHOLE})
    return gpu


def _all(kind: str, each: Instance, hint: Hint, machine: Machine, *, upstream: bool) -> Instance | Failure:
    """Every matching device. The release counts sick ones, too, and so asks for what nobody has."""
    count = sum(
        (upstream or device.health) and (hint.selector is None or hint.selector.matches(device.labels))
        for device in machine.devices[kind].values()
    )
    return Instance(count, each.each, each.shared) if count else _none_of(kind)


def _none_of(kind: str) -> Failure:
    return Failure(f"no-devices-of-type:{kind}", Status.NEVER, f"Insufficient {kind} devices")
