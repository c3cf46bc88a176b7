"""Checks slices in the shape of KEP-4815's first revision against the limits of its text. Source: CCF-8."""

from collections.abc import Iterator

from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.objects.validating import subject_of
from reconciler.api.versions.composite import is_first_revision
from reconciler.api.versions.reading import is_ours
from reconciler.api.versions.shapes import Raw, mapping, mappings

MAX_ENTRIES = 127
"""Mixins and devices of a slice: fewer than 128"""
MAX_PROPERTIES = 32
"""Attributes and capacities of a mixin or device"""

Problem = tuple[str, str]
"""Field and what is wrong with it"""


def limits(data: DoctorInput) -> Iterator[Finding]:
    """Slices that the text does not allow. They are read here all the same."""
    for one in data.documents:
        raw, spec = one.document.raw, mapping(one.document.raw.get("spec"))
        if raw.get("kind") == "ResourceSlice" and is_ours(raw) and is_first_revision(spec):
            for field, what in _exceeded(spec):
                yield rules.FIRST_REVISION.finding_at(one.document.origin, subject_of(raw), field, what)


def _exceeded(spec: Raw) -> Iterator[Problem]:
    mixins, devices = mappings(spec.get("deviceMixins")), mappings(spec.get("devices"))
    if len(mixins) + len(devices) > MAX_ENTRIES:
        what = f"{len(mixins)} mixins and {len(devices)} devices; at most {MAX_ENTRIES} together are allowed"
        yield "spec.devices", what
    bodies: dict[str, Raw] = {}
    for number, mixin in enumerate(mixins):
        body = bodies[str(mixin.get("name"))] = mapping(mixin.get("composite"))
        yield from _too_many(f"spec.deviceMixins[{number}].composite", _names(body), "")
    for number, device in enumerate(devices):
        kind = "composite" if "composite" in device else "basic"
        body, where = mapping(device.get(kind)), f"spec.devices[{number}].{kind}"
        sources = body.get("consumesCapacityFrom")
        if isinstance(sources, list) and len(sources) > 1:
            yield f"{where}.consumesCapacityFrom", f"has {len(sources)} entries; 1 is allowed"
        included = (bodies.get(str(one.get("name")), {}) for one in mappings(body.get("includes")))
        yield from _too_many(where, _names(body).union(*map(_names, included)), " with its mixins")


def _names(body: Raw) -> set[tuple[str, str]]:
    return {(field, name) for field in ("attributes", "capacity") for name in mapping(body.get(field))}


def _too_many(where: str, names: set[tuple[str, str]], extra: str) -> Iterator[Problem]:
    if len(names) > MAX_PROPERTIES:
        yield (
            where,
            f"has {len(names)} attributes and capacities{extra}; at most {MAX_PROPERTIES} are allowed",
        )
