"""The schemas are those that Kubernetes publishes: fields, required fields, and how lists are merged."""

from pathlib import Path

import kubernetes_validate
import msgspec
import pytest
from kubernetes_asyncio.client import models

from reconciler.api.validation.served_kinds import every_kind
from reconciler.embedded import schemas
from reconciler.embedded.descriptions import description_of
from reconciler.embedded.schemas import ANY_FIELDS, NEWER, PROPOSED, VERSION, definitions, fields_of

FOLDERS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
OTHER_MERGES = {
    # retainKeys drops other sources from an entry; claims and volumes of a pod cannot change.
    ("PodSpec", "resourceClaims"), ("PodSpec", "volumes"), ("PodStatus", "resourceClaimStatuses"),
    ("PodGroupSpec", "resourceClaims"), ("PodGroupStatus", "resourceClaimStatuses"),
    ("PodGroupTemplate", "resourceClaims"),
    # Published: replaced as a whole.
    ("PodDisruptionBudgetSpec", "selector"),
    # Written by kubelets only.
    ("ContainerStatus", "allocatedResourcesStatus"), ("ContainerStatus", "volumeMounts"),
}  # fmt: skip
CUSTOM = ("scheduling.koordinator.sh", "scheduling.x-k8s.io", "kueue.x-k8s.io", "autoscaling.x-k8s.io")
"""Groups of custom resources, which Kubernetes does not publish"""
MARKS = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key")


@pytest.fixture(scope="module")
def published():
    """(group or "", version, type) -> its schema; the group only where types of two groups share a name."""
    return definitions_of("1.36")


def definitions_of(release):
    path = FOLDERS / f"v{release}.0-local" / "_definitions.json"
    if not path.exists():
        pytest.skip(f"kubernetes-validate does not carry the schemas of {release}")
    return msgspec.json.decode(path.read_bytes())["$defs"]


@pytest.fixture(scope="module")
def ours():
    served = tuple((version, kind) for kind in every_kind() for version in kind.served)
    found = definitions(served)
    return {
        name: schema
        for name, schema in found.items()
        if not name.endswith(CUSTOM) and ANY_FIELDS not in schema  # of kinds that are newer than the client
    }


def original(published, name, schema):
    """The published type of a name such as v1.Pod or core.v1.Event. Some names stand for several types."""
    *group, version, kind = name.split(".")
    named = [
        found
        for full, found in published.items()
        if full.endswith(f".{version}.{kind}") and (not group or f".{group[0]}." in full)
    ]
    known = set(schema["properties"]) - set(NEWER.get(kind, ()))
    (found,) = {
        msgspec.json.encode(one): one for one in named if set(one.get("properties", ())) == known
    }.values()
    return kind, found


def test_every_type_has_the_published_fields_and_merges(ours, published):
    differing = set()
    for name, schema in ours.items():
        kind, found = original(published, name, schema)
        assert set(found.get("required", ())) == set(schema.get("required", ())), name
        for field, there in found.get("properties", {}).items():
            here = schema["properties"][field]
            if [here.get(mark) for mark in MARKS] != [there.get(mark) for mark in MARKS]:
                differing.add((kind, field))
            # Published: also null, beside the type. Types without fields, such as times, are inlined here.
            if "type" in there:
                assert here["type"] in there["type"], f"{name}.{field}"
    assert differing == OTHER_MERGES


def test_fields_that_are_read_from_the_text_of_the_library_are_those_of_its_types():
    types = {name: kind for name, kind in vars(models).items() if hasattr(kind, "openapi_types")}
    assert "V1Pod" in types
    for name, kind in types.items():
        fields = {kind.attribute_map[attribute]: of for attribute, of in kind.openapi_types.items()}
        proposed = PROPOSED.get(VERSION.sub("", name, count=1), {})
        assert {**(fields_of(name, newer=False) or {}), **proposed} == {**fields, **proposed}, name


def test_a_library_without_known_source_is_an_error_and_no_type_without_fields(tmp_path, monkeypatch):
    monkeypatch.setattr(schemas, "_folder", lambda: tmp_path)
    (tmp_path / "v1_made_up.py").write_text("class V1MadeUp(BaseModel):\n    name: str\n")
    with pytest.raises(RuntimeError, match=r"v1_made_up\.py has no openapi_types"):
        fields_of("V1MadeUp")
    monkeypatch.undo()
    monkeypatch.setattr(schemas, "find_spec", lambda _name: None)
    with pytest.raises(RuntimeError, match="kubernetes-asyncio has no source"):
        schemas._folder.__wrapped__()


def test_newer_fields_are_those_of_the_next_release(ours, published):
    newer = definitions_of("1.37")
    for name, schema in ours.items():
        *_, version, kind = name.split(".")
        for full, before in published.items():
            known = set(before.get("properties", ()))
            if full.endswith(f".{version}.{kind}") and known <= set(schema["properties"]):
                now = newer[full].get("properties", {}) if full in newer else {}
                assert known | now.keys() == schema["properties"].keys(), full
                for field in now.keys() - known:
                    here = schema["properties"][field]
                    assert here.get("type", "object") in now[field].get("type", "object"), (full, field)


def test_descriptions_are_whole_sentences_without_marks(ours):
    text = ours["v1.ExactDeviceRequest"]["properties"]["adminAccess"]["description"]
    assert text.startswith("AdminAccess indicates that")
    assert text.endswith("otherwise it is enabled.")
    assert "noqa" not in str(ours)
    assert ours["v1.Pod"]["description"].startswith("Containers that run together")


def test_no_type_is_described_as_another_whose_name_it_ends_with():
    """As PodResourceClaimStatus, which is not the status of a claim."""
    found = definitions(tuple((version, kind) for kind in every_kind() for version in kind.served))
    texts = {name.rpartition(".")[2]: schema.get("description") for name, schema in found.items()}
    general = {None, *map(description_of, ("Reference", "Status", "VolumeSource"))}
    same = {
        (name, other)
        for name, text in texts.items()
        for other in texts
        if name != other and name.endswith(other) and text == texts[other] and text not in general
    }
    assert same == {
        ("ConfigMapNodeConfigSource", "NodeConfigSource"),
        ("LinuxContainerUser", "ContainerUser"),
        ("WorkloadPodGroupTemplateReference", "PodGroupTemplateReference"),
    }


def test_every_field_of_every_kind_is_described():
    """What kubectl shows: the description of a field, and of its type."""
    found = definitions(tuple((version, kind) for kind in every_kind() for version in kind.served))
    for name, schema in found.items():
        for field, its in schema["properties"].items():
            of = its.get("$ref", "").removeprefix(schemas.REF)
            assert its.get("description") or found[of].get("description"), f"{name}.{field}"
