"""Checks what pods request of Koordinator's devices, also in the templates of workloads. Source: KOO-4."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconciler.allocation.koordinator.requests import WHOLE, by_type, refusal
from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.analysis.doctor.koordinator import metadata_of
from reconciler.api.koordinator.names import (
    CURRENT_NAME,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    KOORD_GPU,
    WHOLE_GPU,
)
from reconciler.api.koordinator.pod import requested
from reconciler.api.manifests.origin import Origin
from reconciler.api.objects.core import Pod
from reconciler.api.objects.validating import subject_of, validated
from reconciler.api.versions.shapes import Raw, mapping
from reconciler.errors import Malformed

MAX_GPUS = 8
"""GPUs of a usual large machine. An amount in percent up to this is probably a number of GPUs."""
MIN_MEMORY = 2**20
"""Bytes; less is probably an amount without its unit"""
_IN_PERCENT = (KOORD_GPU, GPU_CORE, GPU_MEMORY_RATIO)


class _Asking(NamedTuple):
    """A pod, or the pod template of a workload."""

    origin: Origin
    subject: str
    path: str
    """Of the pod's spec"""
    pod: Pod


def requests(data: DoctorInput) -> Iterator[Finding]:
    """Requests that Koordinator refuses for good."""
    for one in _pods(data):
        try:
            wanted = by_type(requested(one.pod))
        except Malformed as exc:
            yield findings.KOORDINATOR_REQUEST.finding_at(
                one.origin, one.subject, f"{one.path}.containers", f"{exc.field}: {exc.reason}"
            )
            continue
        for of_type in wanted.values():
            if failure := refusal(of_type):
                amounts = ", ".join(f"{name}: {amount}" for name, amount in sorted(of_type.items()))
                what = f"{failure.message}; the pod requests {amounts}"
                yield findings.KOORDINATOR_REQUEST.finding_at(
                    one.origin, one.subject, _place(one, of_type), what
                )


def units(data: DoctorInput) -> Iterator[Finding]:
    """Amounts that are allowed, but probably in another unit than was meant."""
    for one in _pods(data):
        try:
            wanted = requested(one.pod)
        except Malformed:  # another check reports it
            continue
        for name, amount in sorted(wanted.items()):
            if what := _doubt(name, amount):
                field = _place(one, {name: amount})
                yield findings.KOORDINATOR_UNITS.finding_at(one.origin, one.subject, field, what)


def _doubt(name: str, amount: int) -> str:
    """Why an amount is probably in the wrong unit; empty if it is not."""
    if name in _IN_PERCENT and amount <= MAX_GPUS:
        return f"{name}: {amount} is {amount} percent of a GPU; {amount * WHOLE} is {amount} whole"
    if name == GPU_MEMORY and amount < MIN_MEMORY:
        return f"{name}: {amount} is {amount} bytes; write for example {amount}Gi"
    if name in WHOLE_GPU and amount >= WHOLE and amount % WHOLE == 0:
        return f"{name}: {amount} is {amount} whole GPUs, not percent"
    return ""


def _pods(data: DoctorInput) -> Iterator[_Asking]:
    for one in data.documents:
        if one.entry is not None and isinstance(one.entry.object, Pod):
            yield _Asking(one.document.origin, subject_of(one.document.raw), "spec", one.entry.object)
        elif one.entry is None:
            yield from _template(one.document.origin, one.document.raw)


def _template(origin: Origin, raw: Raw) -> Iterator[_Asking]:
    *_, (path, metadata) = metadata_of(raw)
    where = path.removesuffix(".metadata")
    spec: object = raw
    for step in where.split("."):
        spec = mapping(spec).get(step)
    if not mapping(mapping(spec).get("spec")).get("containers"):
        return
    named = {**mapping(metadata), "name": "template"}
    try:
        pod = validated(Pod, {"metadata": named, "spec": mapping(spec)["spec"]})
    except Malformed:  # a server reports it
        return
    yield _Asking(origin, subject_of(raw), f"{where}.spec", pod)


def _place(one: _Asking, names: Mapping[str, int]) -> str:
    """The path of the first container that requests one of the resources."""
    for key, containers in (
        ("containers", one.pod.spec.containers),
        ("initContainers", one.pod.spec.init_containers),
    ):
        for number, container in enumerate(containers):
            for part in ("requests", "limits"):
                written = getattr(container.resources, part)
                found = next((n for n in written if CURRENT_NAME.get(n, n) in names), None)
                if found is not None:
                    return f"{one.path}.{key}[{number}].resources.{part}[{found}]"
    return f"{one.path}.containers"
