"""A run's objects by kind; refusals and other kinds beside them."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.api.manifests.bundle import Bundle, as_served, read_bundle
from reconciler.api.manifests.inferred_nodes import ASSUMED, HOSTNAME, infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey, ObjectMeta
from reconciler.api.objects.slices import ResourceSlice
from reconciler.embedded import ApiServer
from tests.tools.builders import Object, claim, device, devices, resource_slice
from tests.tools.checkout import SHARED, needs

SAMPLES = SHARED / "samples"
CLAIM = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s}, spec: {}}"


def bundle_of(tmp_path: Path, **files: str) -> Bundle:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return read_bundle([str(tmp_path)], io.BytesIO())


def refusals(bundle: Bundle, tmp_path: Path) -> list[str]:
    return [str(refusal.problem).replace(f"{tmp_path}/", "") for refusal in bundle.refused]


def test_objects_are_sorted_by_kind_in_the_order_of_the_input(tmp_path: Path):
    text = f"{CLAIM % 'b'}\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: n}}}}\n---\n{CLAIM % 'a'}\n"
    bundle = bundle_of(tmp_path, f=text)
    assert [claim.key.name for claim in bundle.of(ResourceClaim)] == ["b", "a"]
    assert [node.key for node in bundle.of(Node)] == [ObjectKey("", "n")]
    assert bundle.of(DeviceClass) == ()
    assert bundle.size == 3


@pytest.mark.parametrize("given", ["", ", namespace: ''", ", namespace: ~"])
def test_a_claim_without_a_namespace_is_in_default(tmp_path: Path, given: str):
    bundle = bundle_of(tmp_path, f=CLAIM % f"c{given}")
    assert [claim.key for claim in bundle.of(ResourceClaim)] == [ObjectKey("default", "c")]


def test_a_namespace_that_is_given_stays(tmp_path: Path):
    bundle = bundle_of(tmp_path, f=CLAIM % "c, namespace: ns")
    assert [claim.key for claim in bundle.of(ResourceClaim)] == [ObjectKey("ns", "c")]


def test_a_kind_of_the_cluster_has_no_namespace(tmp_path: Path):
    bundle = bundle_of(tmp_path, f="{apiVersion: v1, kind: Node, metadata: {name: n, namespace: x}}")
    assert [node.key for node in bundle.of(Node)] == [ObjectKey("", "n")]


def test_other_kinds_are_counted_and_left_alone(tmp_path: Path):
    other = "{apiVersion: apps/v1, kind: Deployment, spec: 5}"
    foreign = "{apiVersion: other.example.com/v1, kind: Pod}"
    bundle = bundle_of(tmp_path, f=f"{other}\n---\n{other}\n---\n{foreign}")
    assert bundle.ignored == {"Deployment": 2, "Pod of other.example.com/v1": 1}
    assert bundle.refused == ()


def test_an_object_that_occurs_twice_is_refused_naming_both_places(tmp_path: Path):
    bundle = bundle_of(tmp_path, a=CLAIM % "c", b=f"# note\n{CLAIM % 'c'}", c=CLAIM % "c, namespace: other")
    found = refusals(bundle, tmp_path)
    assert found == ["b.yaml:2: ResourceClaim default/c: metadata.name: is also in a.yaml:1, which is used"]
    assert len(bundle.of(ResourceClaim)) == 2


def test_a_derived_attribute_that_no_constraint_uses_is_refused_with_its_claim_alone(tmp_path: Path):
    wants = {"deviceClassName": "any", "derivedAttributes": [{"name": "d/bus", "expression": "'1'"}]}
    devices = {"requests": [{"name": "r", "exactly": wants}], "constraints": [{"matchAttribute": "d/other"}]}
    made = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c"}}
    claims = [
        {**made, "kind": "ResourceClaim", "spec": {"devices": devices}},
        {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": devices}}},
    ]
    bundle = bundle_of(tmp_path, f=yaml.safe_dump_all([*claims, yaml.safe_load(CLAIM % "d")]))
    assert [claim.key.name for claim in bundle.of(ResourceClaim)] == ["d"]
    for refusal, path in zip(refusals(bundle, tmp_path), ("spec", "spec.spec"), strict=True):
        assert f"{path}.devices.requests[0].exactly.derivedAttributes[0].name" in refusal
        assert "must be referenced by at least one matchAttribute" in refusal


def test_a_refused_object_does_not_stop_the_others(tmp_path: Path):
    bad = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: bad}, spec: x}"
    bundle = bundle_of(tmp_path, a=f"{CLAIM % 'x'}\n---\n{bad}\n---\na: [\n---\n{CLAIM % 'y'}\n", b="a: b: c")
    assert [claim.key.name for claim in bundle.of(ResourceClaim)] == ["x", "y"]
    first, second, third = refusals(bundle, tmp_path)
    assert first == "a.yaml:3: ResourceClaim default/bad: spec: must be an object, got 'x'"
    assert second.startswith("a.yaml:6:1: while parsing a flow node")
    assert third.startswith("b.yaml:1:5: mapping values are not allowed")


def test_an_entry_keeps_what_we_do_not_read_in_the_spelling_of_v1(tmp_path: Path):
    text = f"{CLAIM % 'c, x: 1'}".replace("v1", "v1beta1").replace("spec: {}", "spec: {}, y: 2")
    (entry,) = bundle_of(tmp_path, f=text).entries["ResourceClaim"].values()
    assert entry.raw == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", "x": 1},
        "spec": {},
        "y": 2,
    }


@needs(SAMPLES)
class TestPublishedManifests:
    """Whatever people published is read, or refused with a true reason."""

    def test_every_published_file_is_read_or_refused_in_one_line(self):
        bundle = read_bundle([str(SAMPLES)], io.BytesIO())
        assert len(bundle.of(ResourceClaim)) > 100
        assert len(bundle.of(ResourceSlice)) > 40
        assert len(bundle.of(Pod)) > 200
        for refusal in bundle.refused:
            assert "\n" not in str(refusal.problem)
            assert str(refusal.problem).startswith(str(SAMPLES))

    def test_versions_that_no_server_serves_any_more_are_read(self):
        old = sorted(SAMPLES.glob("*/history/v1alpha3"))
        bundle = read_bundle([str(path) for path in old], io.BytesIO())
        reasons = [str(refusal.problem) for refusal in bundle.refused]
        alike = (
            ".source: was removed in 1.31",
            ".resourceClassName: was removed",
            "is also in",
            "spec: is missing",
        )
        assert len(bundle.of(ResourceClaim)) > 10
        assert [reason for reason in reasons if not any(word in reason for word in alike)] == []

    def test_a_published_page_with_a_broken_document_is_refused_at_its_line(self):
        (path,) = (SAMPLES / "kubernetes_website" / "malformed").rglob("*.yaml")
        bundle = read_bundle([str(path)], io.BytesIO())
        assert any("could not find expected ':'" in str(refusal.problem) for refusal in bundle.refused)


def sliced(**fields: Any) -> str:
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    return yaml.safe_dump({**raw, "spec": {**spec, **fields}})


@pytest.mark.parametrize("value", ["{int: .inf}", "{string: true}", "{int: 1.5}", "{string: 3}"])
def test_a_value_that_no_attribute_can_have_is_refused_and_not_left_out(tmp_path: Path, value: str):
    device = {"name": "d", "attributes": {"a": yaml.safe_load(value)}}
    bundle = bundle_of(tmp_path, f=sliced(devices=[device]))
    assert not bundle.of(ResourceSlice)
    assert len(bundle.refused) == 1


def mixed(name: str, *content: Object, slices: int = 1) -> Object:
    made = resource_slice(name, content, slices=slices, nodeName="n")
    made["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "4"}}}]
    return made


def test_counters_and_devices_of_one_slice_are_served_in_two():
    told: list[str] = []
    counters, found = as_served([mixed("s", device("a", draws={"g": {"m": 1}}))], told.append)
    assert [one["metadata"]["name"] for one in (counters, found)] == ["s-counters", "s"]
    assert "devices" not in counters["spec"]
    assert "sharedCounters" not in found["spec"]
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in (counters, found)} == {2}
    assert told == ["ResourceSlice s: counters and devices must be in separate slices; split into two"]
    ApiServer().load([counters, found])


def test_other_slices_of_the_pool_learn_that_there_are_more():
    plain = resource_slice("t", devices("B"), slices=2, nodeName="n")
    other = resource_slice("u", devices("C"), pool="q", nodeName="n")
    served = as_served([plain, mixed("s", device("A"), slices=2), other], lambda _: None)
    counts = {one["metadata"]["name"]: one["spec"]["pool"]["resourceSliceCount"] for one in served}
    assert counts == {"t": 3, "s-counters": 3, "s": 3, "u": 1}


def test_attributes_without_a_type_get_one_with_a_warning():
    told: list[str] = []
    raw = resource_slice("s", [{"name": "A", "attributes": {"mode": "x"}}], nodeName="n")
    (found,) = as_served([raw], told.append)
    assert found["spec"]["devices"][0]["attributes"] == {"mode": {"string": "x"}}
    assert len(told) == 1


def test_everything_else_stays_as_it_is():
    raws = [claim("c"), resource_slice("s", devices("A"), nodeName="n"), {"kind": "Secret"}]
    told: list[str] = []
    assert as_served(raws, told.append) == raws
    assert told == []


# -- Nodes that are described, named, or assumed.


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def slice_(devices: list[dict[str, Any]] | None = None, **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "resourceSliceCount": 1}
    whole = {"driver": "d", "pool": pool, "devices": devices or [], **spec}
    return ResourceSlice.model_validate({"metadata": {"name": "s"}, "spec": whole})


def asks(*requirements: tuple[Any, ...]) -> dict[str, Any]:
    """A selector of one term: (key, operator, values...) each."""
    expressions = [{"key": key, "operator": op, "values": list(values)} for key, op, *values in requirements]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def by_selector(*requirements: tuple[Any, ...]) -> ResourceSlice:
    return slice_(nodeSelector=asks(*requirements))


def assumed_labels(*slices: ResourceSlice) -> dict[str, str]:
    found = infer_nodes([], slices).assumed
    assert found is not None
    return {key: value for key, value in found.metadata.labels.items() if key != HOSTNAME}


def test_described_nodes_are_used_as_they_are():
    described = node("n1", zone="a")
    found = infer_nodes([described], [slice_(nodeName="n1"), slice_(allNodes=True)])
    assert found.nodes == (described,)
    assert (found.named, found.assumed, found.unmatched) == ((), None, ())


def test_a_node_that_is_only_named_gets_the_label_every_node_has():
    per_device = slice_([{"name": "0", "nodeName": "n2"}], perDeviceNodeSelection=True)
    found = infer_nodes([], [slice_(nodeName="n1"), per_device, slice_(nodeName="n1")])
    assert found.named == ("n1", "n2")
    assert [n.metadata.labels for n in found.nodes] == [{HOSTNAME: "n1"}, {HOSTNAME: "n2"}]
    assert found.assumed is None


def test_where_nodes_are_described_the_others_are_gone():
    per_device = slice_([{"name": "0", "nodeName": "n2"}], perDeviceNodeSelection=True)
    slices = [slice_(nodeName="n3"), per_device, slice_(nodeName="n1")]
    found = infer_nodes([node("n1")], slices, ["n4", "n1"])
    assert [n.key.name for n in found.nodes] == ["n1"]
    assert (found.named, found.gone) == ((), ("n3", "n2", "n4"))
    added = infer_nodes([node("n1")], slices, are_new=True)
    assert (added.named, added.gone) == (("n3", "n2"), ())


def test_without_any_node_one_is_assumed():
    for slices in ([], [slice_(allNodes=True)]):
        found = infer_nodes([], slices)
        assert [n.key.name for n in found.nodes] == [ASSUMED]
        assert found.assumed is found.nodes[0]


def test_selectors_that_reach_a_node_need_no_assumption():
    found = infer_nodes([node("n1", zone="a")], [by_selector(("zone", "In", "a", "b"))])
    assert (found.assumed, found.unmatched) == (None, ())


def test_a_node_is_assumed_for_selectors_that_reach_none():
    found = infer_nodes([node("n1", zone="a")], [by_selector(("zone", "In", "b"))])
    assert [n.key.name for n in found.nodes] == ["n1", ASSUMED]
    assert found.assumed is not None
    assert found.assumed.metadata.labels == {HOSTNAME: ASSUMED, "zone": "b"}


@pytest.mark.parametrize(
    ("requirements", "labels"),
    [
        ([("zone", "In", "b", "a")], {"zone": "b"}),
        ([("gpu", "Exists")], {"gpu": "true"}),
        ([("cores", "Gt", "63")], {"cores": "64"}),
        ([("cores", "Lt", "0")], {"cores": "-1"}),
        ([("cores", "Gt", "63"), ("cores", "Lt", "66")], {"cores": "64"}),
        ([("zone", "In", "a", "b"), ("zone", "NotIn", "a")], {"zone": "b"}),
        ([("zone", "NotIn", "a")], {}),
        ([("virtual", "DoesNotExist")], {}),
        ([("zone", "In", "a"), ("gpu", "Exists"), ("virtual", "DoesNotExist")], {"zone": "a", "gpu": "true"}),
    ],
)
def test_labels_are_chosen_that_meet_every_requirement(
    requirements: list[tuple[Any, ...]], labels: dict[str, str]
):
    assert assumed_labels(by_selector(*requirements)) == labels


def test_selectors_are_met_together_as_far_as_they_go_the_earlier_first():
    slices = [
        by_selector(("zone", "In", "a")),
        by_selector(("zone", "In", "b")),
        by_selector(("rack", "In", "1"), ("zone", "Exists")),
        by_selector(("virtual", "DoesNotExist")),
        by_selector(("virtual", "Exists")),
    ]
    found = infer_nodes([], slices)
    assert assumed_labels(*slices) == {"zone": "a", "rack": "1"}
    told = [selector.node_selector_terms[0].match_expressions[0].key for selector in found.unmatched]
    assert told == ["zone", "virtual"]


@pytest.mark.parametrize(
    "selector",
    [
        asks((HOSTNAME, "In", "worker-7")),
        {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w"]}]}
            ]
        },
        {"nodeSelectorTerms": []},
        asks(("a", "In", "1"), ("a", "In", "2")),
    ],
)
def test_a_selector_that_no_assumed_node_can_meet_is_reported(selector: dict[str, Any]):
    found = infer_nodes([node("n1")], [slice_(nodeSelector=selector)])
    assert found.assumed is None
    assert len(found.unmatched) == 1


def test_a_later_term_is_used_where_the_first_cannot_be():
    selector = {
        "nodeSelectorTerms": [
            *asks((HOSTNAME, "In", "x"))["nodeSelectorTerms"],
            *asks(("z", "Exists"))["nodeSelectorTerms"],
        ]
    }
    device = slice_([{"name": "0", "nodeSelector": selector}], perDeviceNodeSelection=True)
    assert assumed_labels(device) == {"z": "true"}


@pytest.mark.parametrize("requirement", [("a", "Is", "b"), ("a", "Gt", "b"), ("a", "In")])
@pytest.mark.parametrize("described", [[], [node("n1")]])
def test_a_selector_that_cannot_be_read_is_left_to_the_decision(
    requirement: tuple[Any, ...], described: list[Node]
):
    assert infer_nodes(described, [by_selector(requirement)]).unmatched == ()
