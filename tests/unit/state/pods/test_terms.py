"""Terms of affinity, and PodGroups."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import CoschedulingPodGroup, GangKey, GangRules, GangSource, Tier
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import LabelSelector
from reconciler.api.objects.semantics import ALL_GATES
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.pods.groups import NoRules, PodGroups, rules_of
from reconciler.state.pods.terms import PodSet, Scope, affinity_of, conflicting, ports_of, spread_of
from tests.tools.gangs import child_of, composite_group, coscheduling_group, grouped, pod_group

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
    found = namespaces(namespaces=["three"], namespaceSelector={"matchLabels": {"team": "y"}})
    assert found == {"two", "three"}


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
        assert not selector.parsed


def test_sets_of_pods_pass_all_tests():
    both = PodSet(
        tuple(
            (Scope(frozenset(["one"])), LabelSelector(match_labels=labels).parsed)
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
        pod(containers=[container(hostPort=80), container()], initContainers=[container(hostPort=82)])
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
    assert isinstance(found, CoschedulingPodGroup)
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


def gang(name: str, source: GangSource = GangSource.COMPOSITE) -> GangKey:
    return GangKey("default", source, name)


def tree(*raw: dict[str, Any]) -> PodGroups:
    groups = PodGroups()
    for one in raw:
        groups.note(changed(one))
    return groups


def rules(groups: PodGroups, root: str) -> GangRules | NoRules | None:
    member = Pod.model_validate(grouped("p", group="a"))
    return rules_of(gang(root), [member], groups, KindsOnDemand(None))


A, B = (gang(name, GangSource.POD_GROUP) for name in "ab")
TWO = (
    composite_group("top", 1),
    child_of("top", composite_group("middle", 2, topology="block")),
    child_of("middle", pod_group("a", 3, topology="rack")),
    child_of("middle", pod_group("b", None)),
)


def test_the_rules_of_a_tree_are_those_of_its_groups():
    groups = tree(*TWO)
    assert groups.root(A) == groups.root(gang("middle")) == gang("top")
    assert groups.pod_groups(gang("top")) == [A, B]
    of_a = GangRules(3, (Tier("rack", required=True),), "a")
    middle = GangRules(2, (Tier("block", required=True),), "middle", (of_a, GangRules(1, (), "b")))
    found = rules(groups, "top")
    assert found == GangRules(1, (), "top", (middle,))
    assert isinstance(found, GangRules)
    assert found.least_pods == 4
    assert found.is_met({"a": 3, "b": 1})
    assert not found.is_met({"a": 2, "b": 5})
    assert list(found.met({"a": 2, "b": 5})) == []


def test_a_group_runs_only_if_all_groups_above_it_have_enough():
    groups = tree(
        composite_group("top", 1),
        child_of("top", composite_group("left", 2)),
        child_of("left", pod_group("a", 1)),
        child_of("left", pod_group("b", 2)),
        child_of("top", pod_group("c", 1)),
    )
    found = rules(groups, "top")
    assert isinstance(found, GangRules)
    assert list(found.met({"a": 1, "b": 1, "c": 1})) == ["c"]
    assert list(found.met({"a": 1, "b": 2})) == ["a", "b"]


def test_a_change_concerns_the_trees_before_and_after_it():
    groups = tree(*TWO[1:])
    assert groups.root(A) == gang("top")  # which does not exist yet
    assert groups.note(changed(TWO[0])) == {gang("top")}
    found = groups.note(Removed("CompositePodGroup", ObjectKey("default", "middle")))
    assert found == {gang("top"), gang("middle")}
    assert groups.pod_groups(gang("top")) == []


@pytest.mark.parametrize(
    ("raw", "root", "reason", "said"),
    [
        (TWO[1:], "top", "GangNotFound", "CompositePodGroup default/top, which middle names as its parent"),
        (
            [
                child_of("y", composite_group("x")),
                child_of("x", composite_group("y")),
                child_of("y", pod_group("a")),
            ],
            "x", "GangInvalid", "cycle: x, y",
        ),
        (
            [
                composite_group("1", 1),
                *(child_of(str(n), composite_group(str(n + 1), 1)) for n in range(1, 4)),
                child_of("4", pod_group("a")),
            ],
            "1", "GangInvalid", "has 4 groups above it",
        ),
        ([composite_group("x", 0), child_of("x", pod_group("a"))], "x", "GangInvalid", "minGroupCount is 0"),
    ],
    ids=["missing", "cycle", "deep", "minimum"],
)  # fmt: skip
def test_a_tree_that_cannot_be_used_says_why(raw: Any, root: str, reason: str, said: str):
    groups = tree(*raw)
    assert groups.root(A) == gang(root)
    found = rules(groups, root)
    assert isinstance(found, NoRules)
    assert (found.reason, said in found.message) == (reason, True)


@pytest.mark.parametrize("gate", ["CompositePodGroup", "GenericWorkload"])
def test_a_group_whose_gate_is_off_says_so(gate):
    groups = PodGroups(ALL_GATES - {gate})
    for one in TWO:
        groups.note(changed(one))
    assert groups.root(A) == (A if gate == "CompositePodGroup" else gang("top"))
    member = Pod.model_validate(grouped("p", group="a"))
    found = rules_of(groups.root(A), [member], groups, KindsOnDemand(None))
    assert isinstance(found, NoRules)
    assert found.reason == "FeatureDisabled"
    assert f"feature gate {gate}; it is off" in found.message
