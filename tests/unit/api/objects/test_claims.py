"""Claims and the small rules that live on their models."""

from typing import Any

import pytest

from reconciler.api.objects.claims import (
    LONGEST_KEY,
    DeviceClaim,
    DeviceConstraint,
    DeviceSubRequest,
    ResourceClaim,
)
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import (
    CoschedulingPodGroup,
    GangKey,
    GangRules,
    GangSource,
    PodGroup,
    Tier,
    annotated_rules,
    gang_of,
    group_claims,
)
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Malformed, Rejected

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "unknown": 1},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "x", "count": 2}}]}},
}


@pytest.mark.parametrize(("count", "wanted"), [({}, 1), ({"count": 0}, 1), ({"count": 3}, 3)])
def test_an_absent_or_zero_count_asks_for_one_device(count: dict[str, int], wanted: int):
    assert DeviceSubRequest.model_validate(count).wanted == wanted


@pytest.mark.parametrize(
    ("named", "request_name", "alternative", "applies"),
    [
        ([], "gpu", "", True),
        (["gpu"], "gpu", "", True),
        (["gpu"], "gpu", "big", True),
        (["gpu/big"], "gpu", "big", True),
        (["gpu/big"], "gpu", "small", False),
        (["gpu/big"], "gpu", "", False),
        (["nic"], "gpu", "", False),
    ],
)
def test_a_constraint_applies_to_the_requests_it_names(
    named: list[str], request_name: str, alternative: str, applies: bool
):
    constraint = DeviceConstraint.model_validate({"requests": named})
    assert constraint.applies_to(request_name, alternative) is applies


def test_keys_print_as_people_write_them():
    assert str(ObjectKey("ns", "c")) == "ns/c"
    assert str(ObjectKey("", "n1")) == "n1"
    assert str(DeviceID("d", "p", "0")) == "d/p/0"
    assert DeviceID("d", "p", "0").pool_id == PoolID("d", "p")


def with_parameters(text: str) -> ResourceClaim:
    """A claim with configuration for a driver."""
    opaque = {"driver": "d", "parameters": {"text": text}}
    return ResourceClaim.model_validate({**CLAIM, "spec": {"devices": {"config": [{"opaque": opaque}]}}})


@pytest.mark.parametrize("size", [0, LONGEST_KEY, 4 * LONGEST_KEY])
def test_equal_specs_have_equal_keys_and_others_have_not(size: int):
    one, same, other = (with_parameters("x" * size + end).spec for end in "yyz")
    assert one.key == same.key != other.key
    assert one == same  # although one of them may have its key
    assert len(one.key or b"") <= LONGEST_KEY


def test_a_spec_that_is_not_unicode_has_no_key():
    assert with_parameters("\ud800").spec.key is None


def test_a_changed_copy_of_a_spec_has_a_key_of_its_own():
    spec = with_parameters("x").spec
    before = spec.key
    assert spec.model_copy(update={"devices": DeviceClaim()}).key != before
    assert "key" not in spec.model_dump()


# -- What pods and PodGroups say about gangs.


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    return Pod.model_validate({"metadata": {"name": "p", "namespace": "ns", **metadata}, "spec": spec or {}})


def annotated(**given: str) -> Pod:
    return pod(
        annotations={f"dra-reconciler.io/{key.replace('_', '-')}": text for key, text in given.items()}
    )


def group(spec: dict[str, Any], status: dict[str, Any] | None = None) -> PodGroup:
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec, "status": status or {}}
    return PodGroup.model_validate(raw)


def test_a_pod_names_its_gang_in_three_ways_and_kubernetes_own_wins():
    spec = {"schedulingGroup": {"podGroupName": "a"}}
    labels, annotations = {"scheduling.x-k8s.io/pod-group": "b"}, {"dra-reconciler.io/gang": "c"}
    found = gang_of(pod(spec, labels=labels, annotations=annotations))
    assert found == GangKey("ns", GangSource.POD_GROUP, "a")
    assert gang_of(pod(labels=labels, annotations=annotations)) == GangKey("ns", GangSource.COSCHEDULING, "b")
    assert gang_of(pod(annotations=annotations)) == GangKey("ns", GangSource.ANNOTATION, "c")
    assert gang_of(pod()) is None


def test_annotations_say_size_and_topology():
    assert annotated_rules(annotated(gang="g", gang_size="16")) == GangRules(16)
    topology = "rack=preferred, example.com/block"
    found = annotated_rules(annotated(gang="g", gang_size="2", gang_topology=topology))
    assert found == GangRules(2, (Tier("rack", required=False), Tier("example.com/block", required=True)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "gang-size]: is missing"),
        ({"gang_size": "many"}, "'many' is not a number of pods"),
        ({"gang_size": "0"}, "'0' is not a number of pods"),
        ({"gang_size": "²"}, "is not a number of pods"),
        ({"gang_size": "2", "gang_topology": "rack=maybe"}, "'rack=maybe' is not KEY, KEY=required"),
        ({"gang_size": "2", "gang_topology": "=required"}, "'=required' is not KEY"),
        ({"gang_size": "2", "gang_topology": ",".join("abcdefghi")}, "has 9 keys; the maximum is 8"),
    ],
)
def test_annotations_that_say_nothing_are_refused_with_the_field(given: dict[str, str], message: str):
    with pytest.raises(Malformed) as caught:
        annotated_rules(annotated(gang="g", **given))
    assert "Pod ns/p" in str(caught.value)
    assert message in str(caught.value)


def test_a_group_is_a_gang_only_with_a_minimum():
    gang = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    assert group(gang).rules == GangRules(3)
    assert group({"schedulingPolicy": {"basic": {}}}).rules is None
    rack = {**gang, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    assert group(rack).rules == GangRules(3, (Tier("rack", required=True),))


def test_a_coscheduling_group_needs_its_minimum():
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 4}}
    assert CoschedulingPodGroup.model_validate(raw).rules == GangRules(4)


def test_an_entry_stands_for_one_of_the_group_if_all_of_it_is_equal():
    mine = [
        {"name": "a", "resourceClaimTemplateName": "t"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimName": "shared"},
        {"name": "d", "resourceClaimName": "shared"},
        {"name": "e", "resourceClaimTemplateName": "nothing"},
    ]
    of_group = [
        {"name": "a", "resourceClaimTemplateName": "t"},
        {"name": "b", "resourceClaimTemplateName": "other"},
        {"name": "c", "resourceClaimName": "shared"},
        {"name": "e", "resourceClaimTemplateName": "nothing"},
    ]
    names = [{"name": "a", "resourceClaimName": "g-a-1"}, {"name": "e"}]
    asking = pod({"resourceClaims": mine})
    made = group({"resourceClaims": of_group}, {"resourceClaimStatuses": names})
    assert group_claims(asking, made) == {"a": "g-a-1", "c": "shared"}
    assert group_claims(asking, group({"resourceClaims": of_group})) == {"a": None, "c": "shared", "e": None}


# -- Node selectors match as the scheduler matches them. Rules NM-1 and NM-2.


LABELS = {
    "zone": "a", "cores": "64", "half": "1.5",
    "minus": "-5", "huge": "9223372036854775808", "empty": "",
}  # fmt: skip


def selector(*terms: dict[str, object]) -> NodeSelector:
    return NodeSelector.model_validate({"nodeSelectorTerms": list(terms)})


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, object]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("zone", "In", "b", "a"), True),
        (expression("zone", "In", "b"), False),
        (expression("missing", "In", "a"), False),
        (expression("empty", "In", ""), True),
        (expression("missing", "In", ""), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("missing", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("zone", "DoesNotExist"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("cores", "Gt", "63"), True),
        (expression("cores", "Gt", "64"), False),
        (expression("cores", "Lt", "65"), True),
        (expression("cores", "Lt", "64"), False),
        (expression("minus", "Lt", "-4"), True),
        (expression("missing", "Gt", "1"), False),
        (expression("half", "Gt", "1"), False),
        (expression("zone", "Lt", "1"), False),
        (expression("huge", "Gt", "1"), False),
        (field("In", "n1"), True),
        (field("In", "n2"), False),
        (field("NotIn", "n2"), True),
        (field("NotIn", "n1"), False),
        ({}, False),
        ({"matchExpressions": [], "matchFields": []}, False),
    ],
)
def test_a_term_matches_as_its_operators_say(term: dict[str, object], matches: bool):
    assert selector(term).matches("n1", LABELS) is matches


def test_all_conditions_of_a_term_must_hold():
    both = {**expression("zone", "In", "a"), **field("In", "n1")}
    assert selector(both).matches("n1", LABELS)
    assert not selector(both).matches("n2", LABELS)
    assert not selector(both).matches("n1", {})


def test_one_term_is_enough():
    assert selector({}, expression("zone", "In", "b"), field("In", "n1")).matches("n1", LABELS)


def test_a_selector_without_terms_matches_nothing():
    assert selector().matches("n1", LABELS) is False


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (expression("a", "Is", "b"), "unknown operator"),
        (expression("a", "In"), "at least one value"),
        (expression("a", "NotIn"), "at least one value"),
        (expression("a", "Exists", "b"), "takes no values"),
        (expression("a", "DoesNotExist", "b"), "takes no values"),
        (expression("a", "Gt", "1", "2"), "exactly one value"),
        (expression("a", "Gt", "x"), "an integer"),
        (expression("a", "Lt", "1.5"), "an integer"),
        (expression("a", "Lt", "9223372036854775808"), "an integer"),
        (field("In", "n1", key="metadata.namespace"), "only the field metadata.name"),
        (field("In", "n1", "n2"), "exactly one value"),
        (field("Exists"), "needs In or NotIn"),
    ],
)
def test_a_selector_that_cannot_be_read_is_rejected_whichever_term_would_match(
    term: dict[str, object], reason: str
):
    """A later term is read too: whether a selector is an error must not depend on the node."""
    with pytest.raises(Rejected, match=reason):
        selector(field("In", "n1"), term).matches("n1", LABELS)
