"""The demand of a pod, parsed and validated once for all nodes (KOO-3 to KOO-5)."""

from collections.abc import Hashable, Mapping

from msgspec import Struct

from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.requests import WHOLE, by_type, normalised, refusal
from reconciler.api.koordinator import annotations
from reconciler.api.koordinator.amounts import Shares
from reconciler.api.koordinator.annotations import APPLY_FOR_ALL, NO_HINT, SAME_PCIE, Hint, PartitionSpec
from reconciler.api.koordinator.names import (
    ALLOCATE_HINT,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    ISOLATION_PROVIDER,
    JOINT_ALLOCATE,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    PARTITION_SPEC,
)
from reconciler.api.koordinator.pod import requested
from reconciler.api.objects.core import Pod
from reconciler.errors import Malformed
from reconciler.state.koordinator.rules import Rules
from reconciler.state.koordinator.templates import matching


class Instance(Struct, frozen=True):
    """The requests of one type: the number of devices, and the shares charged to each."""

    count: int
    each: Shares
    shared: bool = False
    """Whether a part of a GPU is requested."""


class Demand(Struct, frozen=True):
    """Requests and annotations of a pod, and of all that ask in the same words."""

    shape: Hashable
    """Equal for pods that ask for the same in the same words."""
    written: Mapping[str, Shares]
    """Device type -> requests as written."""
    requests: Mapping[str, Shares]
    """Device type -> requests in shares."""
    hints: Mapping[str, Hint]
    joint: tuple[str, ...] = ()
    """The types to be near each other, the one that decides first; empty if fewer than two."""
    primary: str = ""
    """The first type of the joint list that is requested, also where it is alone."""
    same_pcie: bool = False
    gpu: Instance | None = None
    partition: PartitionSpec | None = None
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
        if refused := refusal(of_type):
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
            *(notes.get(key) for key in (JOINT_ALLOCATE, ALLOCATE_HINT, PARTITION_SPEC)),
            pod.metadata.labels.get(ISOLATION_PROVIDER),
        ),
        written=written,
        requests=normal,
        hints=hints,
        joint=listed if len(listed) > 1 else (),
        primary=listed[0] if listed else "",
        same_pcie=joint is not None and joint.required_scope == SAME_PCIE,
        gpu=gpu,
        partition=spec,
        isolation=pod.metadata.labels.get(ISOLATION_PROVIDER, ""),
        templates=templates,
    )


def leading_type(demand: Demand) -> str:
    """The type of the joint list that the proposal chooses first: GPUs if the list has them."""
    return GPU if GPU in demand.joint else demand.joint[0]


def gpu_instance(requests: Shares) -> Instance:
    """The number of GPUs, and the shares of each (KOO-5). Memory in bytes is always a part of a GPU."""
    ratio = requests.get(GPU_MEMORY_RATIO)
    if GPU_SHARED in requests:
        count = requests[GPU_SHARED]
    elif ratio is not None and ratio > WHOLE and ratio % WHOLE == 0:
        count = ratio // WHOLE
    else:
        count = 1
    charged = [name for name in (GPU_CORE, NPU_CORE, NPU_CPU, NPU_DVPP) if name in requests]
    charged.append(GPU_MEMORY if ratio is None else GPU_MEMORY_RATIO)
    each = {name: requests[name] // count for name in charged}
    return Instance(count, each, shared=ratio is None or each[GPU_MEMORY_RATIO] < WHOLE)


def _templates(gpu: Instance | None, rules: Rules) -> Mapping[str, tuple[str, ...]] | None:
    if gpu is None or not gpu.shared or not rules.template_resources & gpu.each.keys():
        return None
    return matching(gpu.each, rules.templates)
