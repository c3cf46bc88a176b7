"""Terms of affinity, and PodGroups."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import LabelSelector
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.terms import PodSet, Scope, affinity_of, conflicting, ports_of, spread_of
from tests.tools.gangs import coscheduling_group, pod_group

TEAMS = {"one": {"team": "x"}, "two": {"team": "y"}, "three": {}}


def no_labels(_namespace: str) -> dict[str, str]:
    return {}


def pod(**spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "one", "labels": {"app": "web", "v": "1"}}
    return Pod.model_validate({"metadata": metadata, "spec": spec})


def near(**term: Any) -> Pod:
    of_pods = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
    return pod(affinity={"podAffinity": of_pods})


def namespaces(**term: Any) -> set[str]:
    """The namespaces that a term of a pod on a node covers."""
    (found,) = affinity_of(near(**term))
    return {name for name in TEAMS if found.scope.covers(name, TEAMS.__getitem__)}


def test_namespaces_of_a_term():
    assert namespaces() == {"one"}
    assert namespaces(namespaces=["two"]) == {"two"}
    assert namespaces(namespaceSelector={}) == set(TEAMS)
    assert namespaces(namespaceSelector={"matchLabels": {"team": "y"}}) == {"two"}
    assert namespaces(namespaces=["three"], namespaceSelector={"matchLabels": {"team": "y"}}) == {
        "two",
        "three",
    }


def test_a_selector_that_accepts_no_labels_covers_all_namespaces_for_the_pod_itself():
    """FIT-4: kube-scheduler 1.36 tests namespace selectors of the pod's own terms without labels, too."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}
    (term,) = affinity_of(near(namespaceSelector=selector))
    covered = {name for name in TEAMS if term.scope.covers_own(name, TEAMS.__getitem__)}
    assert covered == set(TEAMS)
    assert namespaces(namespaceSelector=selector) == {"two", "three"}


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    (nothing,) = affinity_of(near())
    (everything,) = affinity_of(near(labelSelector={}))
    assert not nothing.selector.matches({"app": "web"})
    assert everything.selector.matches({})


def test_a_spread_constraint_adds_the_labels_of_its_keys():
    """FIT-5: the filter reads matchLabelKeys itself; keys that the pod lacks are ignored."""
    constraint = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["v", "none"],
    }
    ignored = {**constraint, "whenUnsatisfiable": "ScheduleAnyway"}
    (found,) = spread_of(pod(topologySpreadConstraints=[constraint, ignored]))
    assert found.selector.matches({"app": "web", "v": "1"})
    assert not found.selector.matches({"app": "web", "v": "2"})
    assert (found.skew, found.least, found.by_affinity, found.by_taints) == (2, 1, True, False)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"key": "a", "operator": "Gt", "values": ["1"]}, "label selector: a Gt: unknown operator"),
        ({"key": "a", "operator": "In"}, "needs at least one value"),
        ({"key": "a", "operator": "Exists", "values": ["1"]}, "takes no values"),
    ],
)
def test_a_selector_that_cannot_be_read_is_named(expression: Any, message: str):
    selector = LabelSelector.model_validate({"matchExpressions": [expression]})
    with pytest.raises(Rejected, match=message):
        selector.parsed()


def test_sets_of_pods_pass_all_tests():
    both = PodSet(
        tuple(
            (Scope(frozenset(["one"])), LabelSelector(match_labels=labels).parsed())
            for labels in ({"a": "1"}, {"b": "2"})
        ),
        terminating=True,
    )
    assert both.has("one", {"a": "1", "b": "2"}, no_labels)
    assert not both.has("one", {"a": "1"}, no_labels)
    assert not both.has("two", {"a": "1", "b": "2"}, no_labels)


def container(**rest: Any) -> dict[str, Any]:
    return {"name": "c", "ports": [{"containerPort": 8080, **rest}]}


def test_ports_of_a_pod():
    """FIT-7: sidecars count, other init containers do not."""
    found = ports_of(
        pod(
            containers=[container(hostPort=80), container()],
            initContainers=[container(hostPort=82)],
        )
    )
    assert sorted(str(port) for port in found) == ["80/TCP"]
    sidecar = {**container(hostPort=81), "restartPolicy": "Always"}
    assert [str(port) for port in ports_of(pod(initContainers=[sidecar]))] == ["81/TCP"]


def test_all_ports_are_ports_of_the_node_in_its_network():
    """The API server sets hostPort then; manifests may lack it."""
    assert [str(port) for port in ports_of(pod(containers=[container()], hostNetwork=True))] == ["8080/TCP"]


def test_what_a_port_conflicts_with():
    (wild,) = ports_of(pod(containers=[container(hostPort=80)]))
    (own,) = ports_of(pod(containers=[container(hostPort=80, hostIP="10.0.0.1")]))
    assert [port.address for port in conflicting(wild)] == [""]
    assert [port.address for port in conflicting(own)] == ["10.0.0.1", "0.0.0.0"]


KUBERNETES = GangKey("default", GangSource.POD_GROUP, "g")
COSCHEDULING = GangKey("default", GangSource.COSCHEDULING, "g")


def changed(raw: dict[str, Any]) -> Changed:
    thing = read(raw)
    return Changed(type(thing).__name__, thing)


def test_groups_of_one_name_in_both_api_groups_are_two():
    groups = PodGroups()
    assert groups.note(changed(pod_group())) == {KUBERNETES}
    assert groups.note(changed(coscheduling_group(least=3))) == {COSCHEDULING}
    found = groups.get(COSCHEDULING)
    assert found is not None
    assert found.rules is not None
    assert found.rules.least == 3


def test_a_change_of_the_status_concerns_no_gang():
    groups = PodGroups()
    groups.note(changed(pod_group()))
    written = {**pod_group(), "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}}
    assert groups.note(changed(written)) == frozenset()


def test_a_listing_drops_groups_of_its_kind_only():
    groups = PodGroups()
    groups.note(changed(pod_group()))
    groups.note(changed(coscheduling_group()))
    assert groups.note(Replaced("PodGroup", (), ())) == {KUBERNETES}
    assert groups.get(COSCHEDULING) is not None
    assert groups.note(Removed("CoschedulingPodGroup", ObjectKey("default", "g"))) == {COSCHEDULING}
    assert groups.get(COSCHEDULING) is None
