"""Checks Koordinator's Device objects and annotations. Source: KOO-2, KOO-17."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from reconciler.analysis.doctor.checks import Checks
from reconciler.analysis.doctor.findings import DoctorInput, Finding, Rule, Severity
from reconciler.api.manifests.bundle import Entry
from reconciler.api.manifests.documents import Origin
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.validating import read, subject_of, validated
from reconciler.api.versions.ignored import unknown_in
from reconciler.api.versions.shapes import Raw, mapping, mappings
from reconciler.errors import Malformed, shortened
from reconciler.plugins.koordinator import annotations as notes
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.demand import WHOLE, by_type, invalid_requests, requested
from reconciler.plugins.koordinator.machine import REQUIRED
from reconciler.plugins.koordinator.partitions import LenientPartition, Partition, read_table, table_of

SHAPE: Final = Rule(
    "koordinator-shape",
    Severity.ERROR,
    "A Device of Koordinator has no spec, or an annotation is invalid.",
    "Write the spec; write the annotation as JSON of the documented shape, with names in double quotes.",
)
VALUE: Final = Rule(
    "koordinator-value",
    Severity.WARNING,
    "A name or value in Koordinator's labels or annotations is unknown and ignored.",
    "Fix its spelling, with capital letters as Koordinator documents them.",
)
PARTITION_TABLE: Final = Rule(
    "partition-table",
    Severity.WARNING,
    "A partition table is empty, or part of it has no effect.",
    "List each partition under the number of its GPUs, with an integer as allocationScore.",
)
PARTITION_UNKNOWN_GPU: Final = Rule(
    "partition-unknown-gpu",
    Severity.ERROR,
    "A partition names a GPU that the Device lacks, so it is never allocated.",
    "Fix the minor, or add the GPU to spec.devices.",
)
DUPLICATE_MINOR: Final = Rule(
    "duplicate-minor",
    Severity.ERROR,
    "Two devices of one type have the same minor: only the last of them counts.",
    "Give each device of a type a minor of its own.",
)
REQUEST: Final = Rule(
    "koordinator-request",
    Severity.ERROR,
    "A pod requests Koordinator's devices in amounts that are refused for good.",
    "Request one of the documented sets of resources; above 100 percent, a multiple of 100.",
)
UNITS: Final = Rule(
    "koordinator-units",
    Severity.WARNING,
    "A pod requests Koordinator's devices in an unusual amount.",
    "Check the unit: percent of one GPU for koordinator.sh, whole GPUs for nvidia.com, bytes for gpu-memory.",
)


def _table(subject: str, given: Mapping[str, str]) -> Mapping[int, tuple[Partition, ...]]:
    listed = read_table(subject, given[koord.PARTITIONS], koord.Semantics.PROPOSAL)
    table_of(listed or {}, subject)
    return listed or {}


_READERS: Mapping[str, Callable[[str, Mapping[str, str]], object]] = {
    koord.ALLOCATE_HINT: notes.hints,
    koord.ALLOCATED: notes.allocated,
    koord.JOINT_ALLOCATE: notes.joint_allocate,
    koord.PARTITION_SPEC: notes.partition_spec,
    koord.PARTITIONS: _table,
}
"""Annotation -> the function that parses it; it raises Malformed"""


class Holder(NamedTuple):
    """An object, or the pod template of one, with annotations."""

    origin: Origin
    subject: str
    path: str
    """Of the metadata"""
    annotations: Mapping[str, str]
    """Those of Koordinator that hold JSON"""


def holders(data: DoctorInput) -> Iterator[Holder]:
    """Objects and pod templates with JSON annotations of Koordinator, also in kinds that are not read."""
    for one in data.documents:
        raw = one.document.raw
        for path, metadata in metadata_of(raw):
            given = mapping(mapping(metadata).get("annotations"))
            found = {name: str(given[name]) for name in sorted(given.keys() & _READERS.keys())}
            if found:
                yield Holder(one.document.origin, subject_of(raw), path, found)


def metadata_of(raw: Raw) -> Iterator[tuple[str, Any]]:
    """The metadata of an object and of its pod template, with their paths."""
    yield "metadata", raw.get("metadata")
    spec, path = mapping(raw.get("spec")), "spec"
    if "jobTemplate" in spec:
        spec, path = mapping(mapping(spec["jobTemplate"]).get("spec")), "spec.jobTemplate.spec"
    yield f"{path}.template.metadata", mapping(spec.get("template")).get("metadata")


def shape(data: DoctorInput) -> Iterator[Finding]:
    """Devices without a spec, and annotations that cannot be parsed."""
    for one in data.documents:
        raw = one.document.raw
        if koord.is_device(raw) and not mapping(raw.get("spec")):
            yield SHAPE.finding_at(one.document.origin, subject_of(raw), "spec", "is missing")
    for holder in holders(data):
        for name in holder.annotations:
            try:
                _READERS[name](holder.subject, holder.annotations)
            except Malformed as exc:
                field = f"{holder.path}.annotations[{name}]"
                what = exc.reason if exc.field == name else f"{exc.field}: {exc.reason}"
                yield SHAPE.finding_at(holder.origin, holder.subject, field, what)


def minors(data: DoctorInput) -> Iterator[Finding]:
    """Devices of one type with the same minor."""
    for entry, device in data.of(koord.Device):
        first: dict[tuple[str, int], int] = {}
        for number, info in enumerate(device.spec.devices):
            earlier = first.setdefault((info.type, info.minor), number)
            if earlier != number:
                what = f"{info.type} {info.minor} is also spec.devices[{earlier}]"
                yield DUPLICATE_MINOR.finding(entry, f"spec.devices[{number}].minor", what)


def partitions(data: DoctorInput) -> Iterator[Finding]:
    """Partition tables that are empty, or of which a part has no effect."""
    for entry, device in data.of(koord.Device):
        text = device.metadata.annotations.get(koord.PARTITIONS)
        if text is None:
            continue
        subject, field = subject_of(entry.raw), f"metadata.annotations[{koord.PARTITIONS}]"
        try:
            table = _table(subject, device.metadata.annotations)
        except Malformed:  # another check reports it
            continue
        gpus = {info.minor for info in device.spec.devices if info.type == koord.GPU}
        for what in _unknown_gpus(table, gpus) if device.spec.devices else ():
            yield PARTITION_UNKNOWN_GPU.finding(entry, field, what)
        for what in (*_idle_parts(table), *_refused_by_the_release(subject, text)):
            yield PARTITION_TABLE.finding(entry, field, what)


def _unknown_gpus(table: Mapping[int, tuple[Partition, ...]], gpus: set[int]) -> Iterator[str]:
    for size, of_size in table.items():
        named = {minor for partition in of_size for minor in partition.minors}
        missing = sorted(named - gpus)
        if missing:
            have = shortened(map(str, sorted(gpus)), limit=16) or "none"
            yield f"size {size} names minor {shortened(map(str, missing))}; the GPUs of the Device are {have}"


def _idle_parts(table: Mapping[int, tuple[Partition, ...]]) -> Iterator[str]:
    if not any(table.values()):
        yield "has no partitions"
    for size, of_size in table.items():
        for number, partition in enumerate(of_size):
            count = len(set(partition.minors))
            if count != size:
                yield f"{size}[{number}] is listed under size {size}, but has {count} different minors"


def _refused_by_the_release(subject: str, text: str) -> Iterator[str]:
    """What the proposal allows, but not the release: it then ignores the whole table."""
    try:
        read_table(subject, text, koord.Semantics.UPSTREAM)
    except Malformed as exc:
        yield f"Koordinator's release ignores the whole table: {exc.reason}"


def values(data: DoctorInput) -> Iterator[Finding]:
    """Names and values in labels and annotations that are unknown, so that they count as not set."""
    for entry in data.entries:
        if isinstance(entry.object, koord.Device | Node):
            yield from _policy(entry)
    for holder in holders(data):
        for name in sorted(holder.annotations.keys() & _UNKNOWN_IN.keys()):
            try:
                raw = read(holder.subject, name, holder.annotations[name])
            except Malformed:  # another check reports it
                continue
            for what in _UNKNOWN_IN[name](mapping(raw)):
                field = f"{holder.path}.annotations[{name}]"
                yield VALUE.finding_at(holder.origin, holder.subject, field, what)


def _policy(entry: Entry) -> Iterator[Finding]:
    given = entry.object.metadata.labels.get(koord.PARTITION_POLICY)
    if given is not None:
        for what in _unlisted("the policy", given, (notes.HONOR, notes.PREFER)):
            yield VALUE.finding(entry, f"metadata.labels[{koord.PARTITION_POLICY}]", what)


def _unknown_in_table(raw: Raw) -> Iterator[str]:
    for size, listed in raw.items():
        for number, partition in enumerate(mappings(listed)):
            yield from _unknown_names(LenientPartition, partition, f"{size}[{number}]")


def _unknown_in_spec(raw: Raw) -> Iterator[str]:
    yield from _unknown_names(notes.PartitionSpec, raw, "")
    yield from _unlisted_in(raw, "", {"allocatePolicy": (notes.RESTRICTED, notes.BEST_EFFORT)})


def _unknown_in_joint(raw: Raw) -> Iterator[str]:
    yield from _unknown_names(notes.JointAllocate, raw, "")
    yield from _unlisted_in(raw, "", {"requiredScope": (notes.SAME_PCIE,)})
    given = raw.get("deviceTypes")
    for number, kind in enumerate(given if isinstance(given, list) else ()):
        yield from _unlisted(f"deviceTypes[{number}]", kind, koord.TYPES)


def _unknown_in_hints(raw: Raw) -> Iterator[str]:
    for kind, hint in raw.items():
        yield from _unlisted("the device type", kind, koord.TYPES)
        yield from _unknown_names(notes.Hint, mapping(hint), kind)
        yield from _unlisted_in(mapping(hint), f"{kind}.", _OF_HINTS)


_UNKNOWN_IN: Mapping[str, Callable[[Raw], Iterator[str]]] = {
    koord.PARTITIONS: _unknown_in_table,
    koord.PARTITION_SPEC: _unknown_in_spec,
    koord.JOINT_ALLOCATE: _unknown_in_joint,
    koord.ALLOCATE_HINT: _unknown_in_hints,
}
"""Annotation that people write -> the function that finds unknown names and values in it"""
_OF_HINTS = {
    "allocateStrategy": (notes.APPLY_FOR_ALL, notes.REQUESTS_AS_COUNT),
    "requiredTopologyScope": tuple(REQUIRED),
    "exclusivePolicy": (notes.DEVICE_LEVEL, notes.PCIE_LEVEL),
}
"""Field of a hint -> its values"""


def _unknown_names(model: type, raw: Raw, path: str) -> Iterator[str]:
    for where, key, known in unknown_in(model, raw, path):
        yield f"{where}: there is no field {key}{suggestion(key, known)}"


def _unlisted_in(raw: Raw, path: str, known: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for key, listed in known.items():
        yield from _unlisted(f"{path}{key}", raw.get(key), listed)


def _unlisted(where: str, value: Any, known: tuple[str, ...]) -> Iterator[str]:
    """Text that is not listed. Empty text counts as not set; another check reports what is not text."""
    if isinstance(value, str) and value and value not in known:
        hint = suggestion(value, known) or f"; known are {', '.join(known)}"
        yield f"{where} {value} is unknown{hint}"


MAX_GPUS = 8
"""GPUs of a usual large machine. An amount in percent up to this is probably a number of GPUs."""
MIN_MEMORY = 2**20
"""Bytes; less is probably an amount without its unit"""
_IN_PERCENT = (koord.KOORD_GPU, koord.GPU_CORE, koord.GPU_MEMORY_RATIO)


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
            yield REQUEST.finding_at(
                one.origin, one.subject, f"{one.path}.containers", f"{exc.field}: {exc.reason}"
            )
            continue
        for of_type in wanted.values():
            if failure := invalid_requests(of_type):
                amounts = ", ".join(f"{name}: {amount}" for name, amount in sorted(of_type.items()))
                what = f"{failure.message}; the pod requests {amounts}"
                yield REQUEST.finding_at(one.origin, one.subject, _place(one, of_type), what)


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
                yield UNITS.finding_at(one.origin, one.subject, field, what)


def _doubt(name: str, amount: int) -> str:
    """Why an amount is probably in the wrong unit; empty if it is not."""
    if name in _IN_PERCENT and amount <= MAX_GPUS:
        return f"{name}: {amount} is {amount} percent of a GPU; {amount * WHOLE} is {amount} whole"
    if name == koord.GPU_MEMORY and amount < MIN_MEMORY:
        return f"{name}: {amount} is {amount} bytes; write for example {amount}Gi"
    if name in koord.WHOLE_GPU and amount >= WHOLE and amount % WHOLE == 0:
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
                found = next((n for n in written if koord.CURRENT_NAME.get(n, n) in names), None)
                if found is not None:
                    return f"{one.path}.{key}[{number}].resources.{part}[{found}]"
    return f"{one.path}.containers"


CHECKS: Final = Checks(
    (SHAPE, VALUE, DUPLICATE_MINOR, PARTITION_TABLE, PARTITION_UNKNOWN_GPU, REQUEST, UNITS),
    (shape, minors, partitions, values, requests, units),
)
