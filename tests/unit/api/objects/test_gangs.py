"""What pods and PodGroups say about gangs."""

from typing import Any

import pytest

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
from reconciler.errors import Malformed


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
    assert gang_of(pod(spec, labels=labels, annotations=annotations)) == GangKey(
        "ns", GangSource.POD_GROUP, "a"
    )
    assert gang_of(pod(labels=labels, annotations=annotations)) == GangKey("ns", GangSource.COSCHEDULING, "b")
    assert gang_of(pod(annotations=annotations)) == GangKey("ns", GangSource.ANNOTATION, "c")
    assert gang_of(pod()) is None


def test_annotations_say_size_and_topology():
    assert annotated_rules(annotated(gang="g", gang_size="16")) == GangRules(16)
    topology = "rack=preferred, example.com/block"
    assert annotated_rules(annotated(gang="g", gang_size="2", gang_topology=topology)) == GangRules(
        2, (Tier("rack", required=False), Tier("example.com/block", required=True))
    )


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
