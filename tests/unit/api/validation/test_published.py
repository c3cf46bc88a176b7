"""Our schemas of custom kinds are those that their projects publish, where the definitions are at hand.

CONTRIBUTING.md says where these are looked for.
"""

from typing import Any

import pytest

from reconciler.api.validation.kinds import GroupVersion, ServedKind
from tests.tools.definitions import DEFINITIONS, SCHEMAS, Json, Published, facts, json_schema, published

NEWER = {".status.admissionChecks[].requeueAfterSeconds", ".status.admissionChecks[].retryCount"}
"""Fields of Kueue 0.14. Older servers drop them"""
PAIRS = [(kind, one) for kind in SCHEMAS for one in published() if one.of(kind)]
each_pair = pytest.mark.parametrize(
    ("kind", "one"),
    PAIRS,
    ids=lambda found: f"{found.name} {found.source}" if isinstance(found, Published) else "",
)


def of(schema: Json) -> dict[str, Any]:
    """The fields of a schema, without what is inside objects that others define."""
    return dict(facts(schema))


def test_there_is_a_definition_of_each_kind():
    if not published():
        pytest.skip(f"no published definitions: set {DEFINITIONS} to a folder that has them")
    assert {kind for kind, _ in PAIRS} == set(SCHEMAS)


def newest(kind: ServedKind) -> Published:
    """Of the release with the highest name."""
    known = (one for defined, one in PAIRS if defined is kind and one.version == kind.stored.version)
    return max(known, key=lambda one: one.source)


@each_pair
def test_each_field_of_ours_is_there_and_has_its_type(kind: ServedKind, one: Published):
    there = of(one.schema)
    for path, ours in of(json_schema(SCHEMAS[kind])).items():
        if path in NEWER and path not in there:
            assert "retryCount" not in str(one.schema), "an older release has neither"
            continue
        assert there[path].get("type") == ours["type"], path
        assert there[path].get("enum") == ours.get("enum"), path
        if one is newest(kind):
            assert there[path] == ours, path


@each_pair
def test_names_scope_versions_and_subresources_agree(kind: ServedKind, one: Published):
    spec = one.definition["spec"]
    names = spec["names"]
    assert (names["plural"], names["singular"]) == (kind.plural, kind.singular)
    assert (spec["scope"] == "Namespaced") is kind.namespaced
    (version,) = (found for found in spec["versions"] if found["name"] == one.version)
    assert ("status" in version.get("subresources", {})) is kind.has_status
    if one is newest(kind):
        assert tuple(names.get("shortNames", ())) == kind.short_names
        assert version["storage"]
        assert set(kind.served) <= {GroupVersion(spec["group"], found["name"]) for found in spec["versions"]}
