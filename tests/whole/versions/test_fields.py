"""Fields, kinds and versions against the published schemas of Kubernetes 1.32 to 1.37.

A field of a kind that is read is in its model, or listed as ignored. Kinds that are only served are stored as
they are. No kind or version of devices and gangs is unknown.
"""

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest

from reconciler.analysis.doctor.checks import examine
from reconciler.analysis.doctor.findings import read_input
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.claims import DeviceRequest, ExactDeviceRequest
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import Device
from reconciler.api.validation.served_kinds import every_kind
from reconciler.api.versions.ignored import HARMLESS, UNUSED, ignored, model_in, unknown_in, used
from reconciler.api.versions.kinds import KINDS, NAMES, RESOURCE, SCHEDULING, SINCE, Kind, is_newer
from reconciler.api.versions.reading import to_v1
from tests.tools.release_schemas import MINORS, definitions, filled, full_name, type_of


def _models(model: type) -> set[type]:
    """A model and all models in it."""
    found = {model}
    for annotation in used(model).values():
        inner = model_in(annotation)
        if inner is not None and inner not in found:
            found |= _models(inner)
    return found


READ = {name: kind for name, kind in KINDS.items() if kind.model is not ApiObject}
OF_KUBERNETES = {
    name: kind
    for name, kind in READ.items()
    if "." not in kind.group or (kind.group.endswith(".k8s.io") and not kind.group.endswith("x-k8s.io"))
}
INLINE = {"BasicDevice": Device, "DeviceRequest": ExactDeviceRequest}
"""Types of older versions that have the fields of a part of today's, besides their own"""
CONVERTED = {("Device", "basic"), ("PodGroupSpec", "podGroupTemplateRef")}
"""(type, field) of older versions that is gone after reading"""
OF_CLAIMS = {
    model
    for name, kind in OF_KUBERNETES.items()
    if kind.group in (RESOURCE, SCHEDULING)
    for model in _models(kind.model)
}
ABSENT = {
    "Workload": {"v1alpha1"}  # its groups of pods were named in 1.35 in a way that is gone
}
"""Kinds and versions that are not read"""


@cache
def compared(minor: int) -> frozenset[tuple[type, str, str]]:
    """(model, type, field) of everything that the kinds of a release have."""
    found: set[tuple[type, str, str]] = set()
    for kind in OF_KUBERNETES.values():
        for version in (*kind.versions, *kind.only_in_files):
            name = full_name(kind.group, version, kind.name)
            if name in definitions(minor):
                _compare(minor, name, kind.model, found)
    return frozenset(found)


def _compare(minor: int, name: str, model: type, found: set[tuple[type, str, str]]) -> None:
    short = name.rpartition(".")[2]
    for field, schema in definitions(minor)[name].get("properties", {}).items():
        entry = (model, short, field)
        if entry in found:
            continue
        found.add(entry)
        below = type_of(schema)
        inner = Device if field == "basic" else model_in(used(model).get(field))
        if below and inner is not None:
            _compare(minor, below, inner, found)


@pytest.mark.parametrize("minor", MINORS)
def test_every_field_is_read_or_listed_as_ignored(minor: int):
    lacking = [
        f"{short}.{field}"
        for model, short, field in compared(minor)
        if (short, field) not in CONVERTED
        and field not in used(model)
        and field not in used(INLINE.get(short, model))
        and field not in ignored(model) | UNUSED.get(model, {}).keys()
        and field not in UNUSED.get(INLINE.get(short, model), {})
    ]
    assert lacking == []


UNIONS = (
    r"nodeAllocatableResources|\."
    r"(disruptionMode|schedulingPolicy|preemptionPolicy|resourceClaims|skipNodeOperations|partitionType)"
)
"""Fields for which an object with all fields at once, each of them "1", is refused"""


@pytest.mark.parametrize("name", OF_KUBERNETES)
def test_doctor_knows_every_field_of_an_object_with_all_of_them(name: str):
    kind = OF_KUBERNETES[name]
    known = definitions(MINORS[-1])
    for version in kind.versions:
        if (published := full_name(kind.group, version, kind.name)) in known:
            made = filled(known[published], known) | {
                "apiVersion": kind.api_version(version),
                "kind": kind.name,
            }
            text = json.dumps(made).replace('"source": "1"', '"source": "FromClass"')
            for before in ('"name": ', 'Attribute": ', '"requests": [') * name.startswith("ResourceClaim"):
                text = text.replace(f'{before}"1"', f'{before}"d/x"')
            assert list(unknown_in(kind.model, to_v1(json.loads(text), []))) == []
            found = examine(read_input(of_text("a.yaml", text), Semantics()))
            assert [one for one in found if one.check in ("put-right", "unknown-field")] == []
            refused = [one.field for one in found if one.check == "unreadable"]
            assert [one for one in refused if not re.search(UNIONS, one)] == []


def test_what_is_listed_as_ignored_is_in_some_release_and_not_read():
    known = {(model, field) for minor in MINORS for model, _, field in compared(minor)}
    known |= {(ExactDeviceRequest, field) for field in UNUSED.get(ExactDeviceRequest, ())}
    custom = {kind.model for name, kind in READ.items() if name not in OF_KUBERNETES}
    for model, names in HARMLESS.items():
        if not any(model.__name__.startswith(one.__name__) for one in custom):
            stale = [name for name in names.split() if (model, name) not in known or name in used(model)]
            assert stale == [], model
    for model, remarks in UNUSED.items():
        assert [name for name in remarks if (model, name) not in known or name in used(model)] == [], model


OURS = {
    ("AllocatedDevice", "consumedCounters"),  # a preview, as the next three
    ("Counter", "requestPolicy"),
    ("Counter", "valueFrom"),
    ("ResourceSliceSpec", "sharingAffinity"),
    ("Device", "compatibleOnlyWith"),  # of an annotation
    ("ExactDeviceRequest", "name"),  # it shares what an alternative has
}
"""Fields that are read and that no server has"""


def test_what_is_read_is_in_some_release():
    known: dict[type, set[str]] = {}
    for minor in MINORS:
        for model, _, field in compared(minor):
            known.setdefault(model, set()).add(field)
    found = {(model.__name__, field) for model in known for field in used(model).keys() - known[model]}
    assert found == OURS


def _of_our_groups(minor: int) -> Iterator[tuple[str, str, str]]:
    """(group, version, kind) of all kinds about devices and gangs of a release."""
    for name, schema in definitions(minor).items():
        match = re.fullmatch(r"io\.k8s\.api\.(resource|scheduling)\.(v\w+)\.(\w+)", name)
        if match and "apiVersion" in schema.get("properties", {}) and not match[3].endswith("List"):
            yield {"resource": RESOURCE, "scheduling": SCHEDULING}[match[1]], match[2], match[3]


@pytest.mark.parametrize("minor", MINORS)
def test_every_kind_and_version_about_devices_and_gangs_is_known(minor: int):
    for group, version, kind in _of_our_groups(minor):
        if (group, kind) in NAMES:
            known = KINDS[NAMES[group, kind]]
            assert {*known.versions, *known.only_in_files} | ABSENT.get(kind, set()) >= {version}, kind
        else:
            assert is_newer(group, kind) == (kind in ABSENT), kind


def test_fields_are_dated_by_their_first_release():
    """But for those of parts that are newer themselves, and of kinds that are."""
    first: dict[tuple[type, str], int] = {}
    for minor in MINORS:
        for model, short, field in compared(minor):
            first.setdefault((model if field in used(model) else INLINE.get(short, model), field), minor)
    oldest: dict[type, int] = {}
    for (model, _), minor in first.items():
        oldest[model] = min(oldest.get(model, minor), minor)
    del first[DeviceRequest, "exactly"]  # inline before
    newer = {key: minor for key, minor in first.items() if minor > max(oldest[key[0]], MINORS[0])}
    dated = {
        (model, field): since.minor for model, fields in SINCE.items() for field, since in fields.items()
    }
    ours = {key for key in newer if key[0] in OF_CLAIMS or key in dated}
    assert {key: minor for key, minor in newer.items() if key in ours and key[1] in used(key[0])} == {
        key: minor for key, minor in dated.items() if key[1] in used(key[0]) and minor <= MINORS[-1]
    }


@pytest.mark.parametrize("minor", MINORS)
def test_each_release_gets_the_best_version_that_it_has(minor: int):
    for name, kind in OF_KUBERNETES.items():
        served = [one for one in kind.versions if full_name(kind.group, one, kind.name) in definitions(minor)]
        assert kind.version_of(minor) == (served[0] if served else None), name


@pytest.mark.parametrize("name", OF_KUBERNETES)
def test_every_version_that_is_read_exists(name: str):
    kind: Kind = KINDS[name]
    for version in (*kind.versions, *kind.only_in_files):
        assert any(full_name(kind.group, version, kind.name) in definitions(minor) for minor in MINORS)


def test_every_version_that_is_served_exists():
    for kind in every_kind():
        for group, version in kind.served:
            if not kind.served[0].is_custom and "x-k8s.io" not in group:
                assert any(full_name(group, version, kind.kind) in definitions(minor) for minor in MINORS), (
                    kind.kind
                )
