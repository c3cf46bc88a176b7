"""What a pod demands (KOO-3 to KOO-6): its requests and annotations, parsed and validated once for all nodes.

And the number of devices and their shares that it needs on one machine.
"""

from collections.abc import Hashable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.api.objects.core import Pod, ResourceRequirements
from reconciler.api.objects.quantity import Quantity
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import annotations
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import APPLY_FOR_ALL, NO_HINT, REQUESTS_AS_COUNT, Hint
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.vocabulary import GPU, TYPES, Rules, Shares, plus, shares_of


class Status(StrEnum):
    """Whether a retry can help."""

    LATER = "Unschedulable"
    """A pod that terminates may free devices."""
    NEVER = "UnschedulableAndUnresolvable"
    """No terminating pod can help."""
    ERROR = "Error"


class Failure(Struct, frozen=True):
    """Why one pod cannot be allocated, on one node or on all."""

    reason: str
    """A short identifier, `insufficient-devices:gpu`."""
    status: Status
    message: str


def insufficient(kind: str) -> Failure:
    """Fewer usable devices than requested."""
    return Failure(f"insufficient-devices:{kind}", Status.LATER, f"Insufficient {kind} devices")


def requested(pod: Pod) -> dict[str, int]:
    """The requests of the whole pod for resources in TYPE_OF, without zeros (KOO-3).

    The maximum of the running phase and of each init container. Earlier restartable init containers run
    during later ones, and in the running phase. Raises Malformed.
    """
    subject = f"Pod {pod.key}"

    def of(quantities: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: n for name, n in shares_of(subject, quantities).items() if name in koord.TYPE_OF}

    running: dict[str, int] = {}
    for container in pod.spec.containers:
        running = plus(running, of(_wanted(container.resources)))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = plus(sidecars, of(_wanted(container.resources)))
        if container.restart_policy == "Always":
            sidecars = now
        peak = {name: max(peak.get(name, 0), now.get(name, 0)) for name in {**peak, **now}}
    running = plus(running, sidecars)
    total = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
    total = plus(total, of(pod.spec.overhead))
    return {name: amount for name, amount in total.items() if amount}


def _wanted(resources: ResourceRequirements) -> Mapping[str, Quantity]:
    """Requests; a limit without a request counts as a request."""
    return {**resources.limits, **resources.requests}


WHOLE = 100
"""The share of a whole device."""

UNITS = (koord.KOORD_GPU, koord.KOORD_FPGA, koord.KOORD_RDMA)

COMBINATIONS = frozenset(
    frozenset(names)
    for names in (
        *((name,) for name in koord.WHOLE_GPU),
        (koord.KOORD_GPU,),
        (koord.KOORD_FPGA,),
        (koord.KOORD_RDMA,),
        (koord.GPU_MEMORY,),
        (koord.GPU_MEMORY_RATIO,),
        (koord.GPU_CORE, koord.GPU_MEMORY),
        (koord.GPU_CORE, koord.GPU_MEMORY_RATIO),
        (koord.NPU_CORE, koord.GPU_MEMORY_RATIO),
        (koord.GPU_SHARED, koord.GPU_MEMORY),
        (koord.GPU_SHARED, koord.GPU_MEMORY_RATIO),
        (koord.GPU_SHARED, koord.GPU_CORE, koord.GPU_MEMORY),
        (koord.GPU_SHARED, koord.GPU_CORE, koord.GPU_MEMORY_RATIO),
        (koord.GPU_SHARED, koord.NPU_CORE, koord.NPU_CPU, koord.GPU_MEMORY),
        (koord.GPU_SHARED, koord.NPU_CORE, koord.NPU_CPU, koord.NPU_DVPP, koord.GPU_MEMORY),
    )
)
"""The sets of resource names of one type that may be requested together."""


def by_type(requests: Shares) -> dict[str, dict[str, int]]:
    """The requests of each device type, unchanged; types in the order of TYPES."""
    return {
        kind: mine
        for kind in TYPES
        if (mine := {name: n for name, n in requests.items() if koord.TYPE_OF[name] == kind})
    }


def invalid_requests(requests: Shares) -> Failure | None:
    """Why the requests of one type are invalid, or None."""
    for name in UNITS:
        if name in requests and not _in_whole_devices(requests[name]):
            message = f"invalid resource unit {name}: {requests[name]}"
            return Failure("invalid-request-unit", Status.NEVER, message)
    if frozenset(requests) not in COMBINATIONS or not _amounts_agree(requests):
        message = f"invalid resource device requests: [{' '.join(sorted(requests))}]"
        return Failure("invalid-request-combination", Status.NEVER, message)
    return None


def normalised(requests: Shares) -> dict[str, int]:
    """The requests in shares of devices: a number of GPUs becomes shares of core and memory."""
    for name in (*koord.WHOLE_GPU, koord.KOORD_GPU):
        if name in requests:
            share = requests[name] * (WHOLE if name in koord.WHOLE_GPU else 1)
            return {koord.GPU_CORE: share, koord.GPU_MEMORY_RATIO: share}
    return dict(requests)


def _in_whole_devices(share: int) -> bool:
    return share <= WHOLE or share % WHOLE == 0


def _amounts_agree(requests: Mapping[str, int]) -> bool:
    shares = [requests[name] for name in (koord.GPU_CORE, koord.GPU_MEMORY_RATIO) if name in requests]
    cards = requests.get(koord.GPU_SHARED)
    if koord.NPU_CPU in requests:
        return (cards or 0) <= 1 and requests.get(koord.NPU_DVPP, 0) <= WHOLE
    if cards is None:
        return all(map(_in_whole_devices, shares))
    return all(share % cards == 0 and share // cards <= WHOLE for share in shares)


class Instance(Struct, frozen=True):
    """The requests of one type: the number of devices, and the shares charged to each."""

    count: int
    each: Shares
    shared: bool = False
    """Whether a part of a GPU is requested."""
    of_all: bool = False
    """All matching devices of a machine are needed, whatever `count` is."""


class Demand(Struct, frozen=True):
    """Requests and annotations of a pod, and of all that ask in the same words."""

    shape: Hashable
    """Equal for pods that ask for the same in the same words."""
    written: Mapping[str, Shares]
    """Device type -> requests as written."""
    requests: Mapping[str, Shares]
    """Device type -> requests in shares."""
    hints: Mapping[str, Hint]
    upstream: bool = False
    """Whether the rules of the release apply"""
    joint: tuple[str, ...] = ()
    """The types to be near each other, the one that decides first; empty if fewer than two."""
    primary: str = ""
    """The first type of the joint list that is requested, also where it is alone."""
    same_pcie: bool = False
    gpu: Instance | None = None
    partition: annotations.PartitionSpec | None = None
    isolation: str = ""
    templates: Mapping[str, tuple[str, ...]] | None = None
    """vendor-model -> templates that a shared request equals; None where no template is needed."""

    def hint(self, kind: str) -> Hint:
        return self.hints.get(kind, NO_HINT)


def read_demand(pod: Pod, rules: Rules) -> Demand | Failure | None:
    """The demand of a pod; None without requests for devices; a Failure if the pod is invalid."""
    subject = f"Pod {pod.key}"
    notes = pod.metadata.annotations
    shapes = annotations.LENIENT if rules.upstream else annotations.STRICT
    try:
        requests = requested(pod)
    except Malformed as exc:
        return Failure("invalid-request-unit", Status.NEVER, str(exc))
    written = by_type(requests)
    try:
        if not written:
            annotations.allocated(subject, notes)
            return None
        joint = annotations.joint_allocate(subject, notes, shapes)
        hints = annotations.hints(subject, notes, shapes)
        spec = annotations.partition_spec(subject, notes, shapes) if GPU in written else None
    except Malformed as exc:
        return Failure(f"malformed-annotation:{exc.field.rpartition('/')[2]}", Status.NEVER, str(exc))
    for of_type in written.values():
        if refused := invalid_requests(of_type):
            return refused
    normal = {kind: normalised(of_type) for kind, of_type in written.items()}
    listed = tuple(
        kind
        for kind in dict.fromkeys(joint.device_types if joint else ())
        if kind in normal and hints.get(kind, NO_HINT).allocate_strategy != APPLY_FOR_ALL
    )
    gpu = gpu_instance(normal[GPU]) if GPU in normal else None
    templates = _templates(gpu, rules)
    if templates == {}:
        message = "no matched GPU shared resource template"
        return Failure("no-matching-share-template", Status.NEVER, message)
    return Demand(
        shape=(
            tuple(sorted(requests.items())),
            *(notes.get(key) for key in (koord.JOINT_ALLOCATE, koord.ALLOCATE_HINT, koord.PARTITION_SPEC)),
            pod.metadata.labels.get(koord.ISOLATION_PROVIDER),
        ),
        written=written,
        requests=normal,
        hints=hints,
        upstream=rules.upstream,
        joint=listed if len(listed) > 1 else (),
        primary=listed[0] if listed else "",
        same_pcie=joint is not None and joint.required_scope == annotations.SAME_PCIE,
        gpu=gpu,
        partition=spec,
        isolation=pod.metadata.labels.get(koord.ISOLATION_PROVIDER, ""),
        templates=templates,
    )


def leading_type(demand: Demand) -> str:
    """The type of the joint list that the proposal chooses first: GPUs if the list has them."""
    return GPU if GPU in demand.joint else demand.joint[0]


def gpu_instance(requests: Shares) -> Instance:
    """The number of GPUs, and the shares of each (KOO-5). Memory in bytes is always a part of a GPU."""
    ratio = requests.get(koord.GPU_MEMORY_RATIO)
    if koord.GPU_SHARED in requests:
        count = requests[koord.GPU_SHARED]
    elif ratio is not None and ratio > WHOLE and ratio % WHOLE == 0:
        count = ratio // WHOLE
    else:
        count = 1
    charged = [
        name for name in (koord.GPU_CORE, koord.NPU_CORE, koord.NPU_CPU, koord.NPU_DVPP) if name in requests
    ]
    charged.append(koord.GPU_MEMORY if ratio is None else koord.GPU_MEMORY_RATIO)
    each = {name: requests[name] // count for name in charged}
    return Instance(count, each, shared=ratio is None or each[koord.GPU_MEMORY_RATIO] < WHOLE)


def _templates(gpu: Instance | None, rules: Rules) -> Mapping[str, tuple[str, ...]] | None:
    if gpu is None or not gpu.shared or not rules.template_resources & gpu.each.keys():
        return None
    return koord.matching_templates(gpu.each, rules.templates)


def instances(demand: Demand, machine: Machine, *, trial: bool) -> dict[str, Instance] | Failure:
    """Device type -> needed devices, in the order of the decision."""
    found: dict[str, Instance] = {}
    for kind in wanted_types(demand, machine, trial=trial):
        needed = instance(demand, kind, machine)
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


def instance(demand: Demand, kind: str, machine: Machine) -> Instance | Failure:
    """The devices of one type that a pod needs on one machine."""
    devices = machine.devices.get(kind)
    wanted = type_demand(demand, kind)
    count = wanted.count
    if devices and wanted.of_all:
        selector = demand.hint(kind).selector
        # The release also counts unhealthy devices, and so requires more than exist.
        count = sum(
            (demand.upstream or device.health) and (selector is None or selector.matches(device.labels))
            for device in devices.values()
        )
    if not devices or not count:
        return Failure(f"no-devices-of-type:{kind}", Status.NEVER, f"Insufficient {kind} devices")
    return Instance(count, wanted.each, wanted.shared)


def type_demand(demand: Demand, kind: str) -> Instance:
    """The devices of one type that a pod needs on any machine."""
    hint, strategy = demand.hint(kind), demand.hint(kind).allocate_strategy
    if kind == GPU and demand.gpu is not None:
        return demand.gpu if demand.upstream else _gpus(demand, demand.gpu, strategy)
    ((name, amount),) = demand.requests[kind].items()
    # In the release a multiple of a whole device overrides the hint.
    if amount > WHOLE and (demand.upstream or strategy not in (APPLY_FOR_ALL, REQUESTS_AS_COUNT)):
        return Instance(amount // WHOLE, {name: WHOLE})
    if strategy == REQUESTS_AS_COUNT:
        return Instance(amount, {name: WHOLE if hint.exclusive_policy == annotations.DEVICE_LEVEL else 1})
    return Instance(1, {name: amount}, of_all=strategy == APPLY_FOR_ALL)


def _gpus(demand: Demand, gpu: Instance, strategy: str) -> Instance:
    written = demand.written[GPU]
    if strategy == REQUESTS_AS_COUNT and koord.KOORD_GPU in written:
        # A GPU has no virtual functions: an instance is the whole GPU.
        return Instance(written[koord.KOORD_GPU], {koord.GPU_CORE: WHOLE, koord.GPU_MEMORY_RATIO: WHOLE})
    return replace(gpu, of_all=strategy == APPLY_FOR_ALL)
