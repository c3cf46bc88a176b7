"""Schemas of custom resources refuse what JSON Schema refuses, and list all fields that we read."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest
from pydantic import BaseModel

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.core import Pod
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.pods import with_label_keys
from reconciler.api.validation.served_kinds import POD
from reconciler.api.validation.structural import (
    DNS_LABEL,
    AnyObject,
    Fields,
    Flag,
    Integer,
    Items,
    Schema,
    Text,
    Texts,
    Time,
    check,
    unknown,
)
from reconciler.plugins.kueue import objects as read_kueue
from reconciler.plugins.provisioning import objects as read_provisioning
from tests.tools.definitions import DEFINITIONS, SCHEMAS, Json, Published, facts, json_schema, published
from tests.tools.front_ends import served
from tests.tools.pod_scenarios import apart, labelled, near, spread, term
from tests.tools.scenario import asking
from tests.tools.small_fleet import Object

MODELS: dict[ServedKind, type[BaseModel]] = {
    read_kueue.WORKLOAD: read_kueue.Workload,
    read_kueue.ADMISSION_CHECK: read_kueue.AdmissionCheck,
    read_kueue.RESOURCE_FLAVOR: read_kueue.ResourceFlavor,
    read_provisioning.PROVISIONING_REQUEST: read_provisioning.ProvisioningRequest,
}
STRANGE: tuple[Any, ...] = (1, "", True, [], {})
TIME = "2026-01-01T00:00:00Z"


def least(schema: Schema, number: int = 0) -> Any:
    """A value that fits; others of other numbers have another key."""
    match schema:
        case Text(words=words) if words:
            return words[0]
        case Text():
            return f"a{number}"
        case Time():
            return TIME
        case Integer(least=smallest):
            return smallest or 0
        case Flag():
            return True
        case AnyObject() | Texts():
            return {}
        case Items(of=of, fewest=fewest):
            return [least(of, at) for at in range(fewest)]
        case Fields(of=of, required=required):
            return {
                name: least(one, number) for name, one in of.items() if name in required or name == "name"
            }


def values(schema: Schema) -> Iterator[Any]:
    """Values at each limit and beyond, and of other types."""
    if not isinstance(schema, Time):
        yield from STRANGE
    yield least(schema)
    match schema:
        case Text(longest=longest):
            yield from ("A", "a.b", "a-1", "-a", "a_c", "a b", "Pending", "é" * 20_000)
            if longest is not None:
                yield from ("a" * longest, "a" * (longest + 1))
        case Integer():
            yield from (-1, 0, 1, 1.5)
        case Texts(value=value, most=most):
            yield from ({"a": one} for one in values(value))
            if most is not None:
                yield from ({str(at): "a" for at in range(size)} for size in (most, most + 1))
        case Items(of=of, most=most, fewest=fewest):
            yield from (
                [least(of, at) for at in range(size)] for size in (fewest, (most or 30), (most or 30) + 1)
            )
            yield [1]
        case Fields(required=required):
            fitting = least(schema)
            yield from ({key: fitting[key] for key in fitting if key != left} for left in required)


def refused(schema: Schema, value: Any) -> bool:
    try:
        return bool(check(schema, value))
    except WrongType:
        return True


def parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    match schema:
        case Items(of=of):
            yield from parts(of)
        case Fields(of=of):
            for one in of.values():
                yield from parts(one)


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.kind)
def test_it_refuses_exactly_what_json_schema_refuses(kind: ServedKind):
    """At each limit of each field, in an object that is valid otherwise."""
    verdicts = Counter[bool]()
    for part in parts(SCHEMAS[kind]):
        if isinstance(part, Fields):
            validator = jsonschema.Draft202012Validator(json_schema(part))
            assert validator.is_valid(least(part))
            for name, inner in part.of.items():
                for value in values(inner):
                    found = {**least(part), name: value}
                    verdicts[validator.is_valid(found)] += 1
                    assert refused(part, found) is not validator.is_valid(found), (name, value)
    assert min(verdicts[True], verdicts[False]) > 20


def test_entries_of_one_key_and_values_of_fixed_fields_are_checked():
    named = Fields({"of": Items(Fields({"name": Text()}), key="name")})
    (cause,) = check(named, {"of": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    assert (cause.reason, cause.field) == ("FieldValueDuplicate", "of[2].name")
    fixed = Fields({"spec": Fields({"a": Text()}, immutable=("a",))})
    assert check(fixed, {"spec": {"a": "1"}}, {"spec": {}}) == []
    (cause,) = check(fixed, {"spec": {"a": "1"}}, {"spec": {"a": "2"}})
    assert (cause.field, cause.message) == ("spec.a", 'Invalid value: "1": field is immutable')


@pytest.mark.parametrize(
    "time",
    [TIME, "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456789+02:00", "1999-12-31T23:59:59-00:00"],
)
def test_times_are_those_of_rfc_3339(time: str):
    assert check(Fields({"at": Time()}), {"at": time}) == []


@pytest.mark.parametrize(
    "time",
    [
        "yesterday", "", "2026-01-01", "20260101T00", "2026-01-01T00:00Z", "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z", "2026-W01-1T00:00:00Z", "2026-01-01T00:00:00+0200", "2026-01-01T00:00:00Z\n",
        "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "0001-01-01T00:00:00+01:00", "٢٠٢٦-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_other_times_are_refused(time: str):
    (cause,) = check(Fields({"at": Time()}), {"at": time})
    assert cause.message.endswith("must be a time in RFC 3339 format")


def test_a_name_that_ends_with_a_line_end_is_refused():
    """Not compared with JSON Schema: where `$` matches in its patterns depends on who reads them."""
    named = Fields({"name": Text(63, pattern=DNS_LABEL)})
    assert check(named, {"name": "abc"}) == []
    (cause,) = check(named, {"name": "abc\n"})
    assert cause.message.endswith(f"should match '{DNS_LABEL}'")


def test_fields_that_are_not_listed_are_named():
    schema = SCHEMAS[read_kueue.WORKLOAD]
    given = {"metadata": {"x": 1}, "spec": {"podSets": [{"template": {"x": 1}, "size": 1}], "y": 1}, "z": 1}
    assert list(unknown(schema, given)) == ["spec.podSets[0].size", "spec.y", "z"]


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.kind)
def test_all_that_is_read_is_listed(kind: ServedKind):
    assert list(missing(MODELS[kind], SCHEMAS[kind], kind.kind)) == []


def missing(model: type[BaseModel], schema: Schema, path: str) -> Iterator[str]:
    """Fields of a model that a schema lacks."""
    while isinstance(schema, Items):
        schema = schema.of
    if not isinstance(schema, Fields):
        yield f"{path}: it is no object there"
        return
    for name, field in model.model_fields.items():
        there = field.alias or name
        if there not in schema.of:
            yield f"{path}.{there}"
        for inner in models_in(field.annotation):
            yield from missing(inner, schema.of[there], f"{path}.{there}")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from models_in(one)


# -- Our schemas of custom kinds are those that their projects publish, where the definitions are at hand.
# CONTRIBUTING.md says where these are looked for.


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


# -- Label keys of affinity and spread, as the API server adds them to selectors.


KEYS = {"matchLabelKeys": ["v", "none"], "mismatchLabelKeys": ["tenant"]}


def pod() -> Object:
    """A pod with keys wherever they may be, and terms without a selector."""
    of_pods = {**near(term("zone", **KEYS), {"topologyKey": "zone", **KEYS})["affinity"]}
    of_pods |= apart(term("zone", **KEYS))["affinity"]
    rest = spread("zone", matchLabelKeys=["v"])
    return labelled(asking("p", affinity=of_pods, **rest), v="1", tenant="x")


def expressions(stored: Any) -> list[Any]:
    """The expressions of all selectors, in order; None for a term without a selector."""
    spec, required = stored["spec"], "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [*spec["affinity"]["podAffinity"][required], *spec["affinity"]["podAntiAffinity"][required]]
    terms += spec["topologySpreadConstraints"]
    return [one["labelSelector"].get("matchExpressions") if "labelSelector" in one else None for one in terms]


OWN = {"key": "v", "operator": "In", "values": ["1"]}
OTHER = {"key": "tenant", "operator": "NotIn", "values": ["x"]}
ADDED = [[OWN, OTHER], None, [OWN, OTHER], [OWN]]


def test_the_server_adds_the_keys_of_new_pods_once():
    cluster = served([pod()])
    stored = cluster.pod("p")
    assert expressions(stored) == ADDED
    cluster.api.store.put(POD, "default/p", stored)
    assert expressions(cluster.pod("p")) == ADDED


def test_manifests_are_read_as_the_server_would_store_them():
    given = pod()
    assert expressions(with_label_keys(given)) == ADDED
    assert expressions(given) == [None, None, None, None]
    stored = {**given, "metadata": {**given["metadata"], "uid": "u"}}
    assert with_label_keys(stored) is stored
    plain = asking("q")
    assert with_label_keys(plain) is plain


def test_many_files_may_repeat_their_namespace():
    text = "---\n".join(
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: n, labels: {{team: '{team}'}}}}\n"
        for team in "xy"
    )
    found = bundle(of_text("f.yaml", text))
    assert (found.refused, found.of(Pod), found.size) == ((), (), 1)
