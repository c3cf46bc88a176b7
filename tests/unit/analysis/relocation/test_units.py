"""Who leaves together, which claims are free then, what that costs, and the search among sets of pods."""

import inspect
import sys
from typing import Any

import pytest

from reconciler.analysis.relocation.occupants import Occupants, Pods
from reconciler.analysis.relocation.victim_sets import OFFSET, Cost, Pricing, Subsets
from reconciler.analysis.world import world_of
from reconciler.api.objects.gangs import GANG, SIZE, GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools import small_fleet
from tests.tools.builders import gpu_slice
from tests.tools.gangs import child_of, composite_group, pod_group
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, held, node, pod


def holding(name: str, device: str, *users: str) -> Object:
    made = claim(name)
    made["metadata"]["uid"] = name
    reserved = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users]
    return {**made, "status": {**held(DRIVER, "n", device, on="n"), "reservedFor": reserved}}


def running(name: str, *claims: str, annotations: Object | None = None, **spec: Any) -> Object:
    made = pod(name, *claims, gates=(), nodeName="n", **spec)
    made["metadata"] |= {"uid": f"uid-{name}", "annotations": annotations or {}, "labels": {"app": name}}
    return made


def occupants(*objects: Object) -> Occupants:
    raws = [node("n"), device_class(), gpu_slice("n", 8, driver=DRIVER), *objects]
    world = world_of(map(read, raws), Semantics())
    return Occupants(world)


def keys(*names: str) -> frozenset[ObjectKey]:
    return frozenset(ObjectKey("default", name) for name in names)


def budget(app: str, allowed: int) -> Object:
    return small_fleet.budget(app, allowed, selector={"matchLabels": {"app": app}})


def test_a_claim_is_free_when_all_pods_that_it_is_reserved_for_are_gone():
    found = occupants(holding("c", "gpu-0", "a", "b"), running("a", "c"), running("b", "c"))
    assert found.freed(keys("a")) == ()
    assert found.freed(keys("a", "b")) == tuple(keys("c"))


@pytest.mark.parametrize("users", [(), ("gone",)])
def test_a_claim_without_pods_is_never_freed(users: tuple[str, ...]):
    found = occupants(holding("c", "gpu-0", *users), running("a"))
    assert found.freed(keys("a")) == ()


def test_before_it_is_reserved_a_claim_belongs_to_the_pods_that_name_it():
    found = occupants(holding("c", "gpu-0"), pod("a", "c"))
    assert found.freed(keys("a")) == tuple(keys("c"))


def gang(name: str, size: int) -> Object:
    return running(name, annotations={GANG: "g", SIZE: str(size)})


@pytest.mark.parametrize(
    ("size", "leaving", "with_them"),
    [
        pytest.param(2, "a", "a", id="one is spare"),
        pytest.param(2, "ab", "abc", id="two of three leave one of the two needed"),
        pytest.param(3, "a", "abc", id="none is spare"),
        pytest.param(4, "a", "abc", id="it has too few already"),
    ],
)
def test_a_gang_leaves_down_to_its_minimum_or_as_a_whole(size: int, leaving: str, with_them: str):
    found = occupants(*[gang(name, size) for name in "abc"])
    assert found.together(keys(*leaving)) == keys(*with_them)
    (unit, *_) = found.units(keys(*with_them))
    assert (unit.gang is not None) == (with_them == "abc")


@pytest.mark.parametrize("least", [None, 1, 2], ids=["basic", "gang of 1", "gang of 2"])
def test_a_group_that_is_disrupted_as_a_whole_is_one_victim(least: int | None):
    group = pod_group(least=least)
    members = [running(name, schedulingGroup={"podGroupName": "g"}) for name in "abc"]
    group["spec"]["disruptionMode"] = {"single": {}}
    assert occupants(group, *members).together(keys("a")) == keys("a")
    group["spec"]["disruptionMode"] = {"all": {}}
    found = occupants(group, *members)
    assert found.together(keys("a")) == keys("a", "b", "c")
    (unit,) = found.units(keys("a", "b", "c"))
    assert unit.gang is not None


def disrupted(group: Object, mode: str) -> Object:
    return {**group, "spec": {**group["spec"], "disruptionMode": {mode: {}}}}


@pytest.mark.parametrize(
    ("least", "mode", "leaving", "with_them"),
    [
        (1, "single", "a0", "a0"),
        (1, "single", "a0 a1", "a0 a1 a2"),  # the group would be too small
        (2, "single", "a0 a1", "a0 a1 a2 b0"),  # and without it so would the tree
        (2, "single", "b0", "a0 a1 a2 b0"),
        (1, "all", "a0", "a0 a1 a2 b0"),
    ],
)
def test_a_tree_loses_groups_down_to_its_minimum_or_all_of_it(
    least: int, mode: str, leaving: str, with_them: str
):
    tree = disrupted(composite_group("tree", least), mode)
    groups = [child_of("tree", pod_group("a", 2)), child_of("tree", pod_group("b", 1))]
    names = ("a0", "a1", "a2", "b0")
    pods = [running(name, schedulingGroup={"podGroupName": name[0]}) for name in names]
    found = occupants(tree, *groups, *pods)
    assert found.together(keys(*leaving.split())) == keys(*with_them.split())
    assert found.wholes(found.pods.values()) == (mode == "all")
    (unit, *others) = found.units(keys(*names))
    assert (unit.gang, others) == (GangKey("default", GangSource.COMPOSITE, "tree"), [])


def test_the_priority_of_a_group_counts_instead_of_that_of_its_pods():
    group = pod_group(least=1)
    group["spec"]["priority"] = 9
    found = occupants(group, running("a", schedulingGroup={"podGroupName": "g"}), running("b", priority=8))
    price = Pricing(found, lambda _: 0, lambda _: 0)
    assert price.of(keys("a")).highest == 9
    assert price.of(keys("b")) < price.of(keys("a"))


def test_a_whole_group_costs_more_than_as_many_pods():
    group = pod_group(least=1)
    group["spec"]["disruptionMode"] = {"all": {}}
    members = [running(name, schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    found = occupants(group, *members, running("c"), running("d"))
    price = Pricing(found, lambda _: 0, lambda _: 0)
    assert price.of(keys("c", "d")) < price.of(keys("a", "b")) < price.of(keys("a", "b", "c"))


def test_costs_are_those_of_kube_scheduler_in_its_order():
    found = occupants(
        holding("c", "gpu-0", "a"),
        running("a", "c", priority=-5),
        running("b", priority=7),
        budget("a", 0),
        budget("b", 1),
    )
    price = Pricing(found, lambda _: 1, lambda _: 0)
    both = price.of(keys("a", "b"))
    assert both[:4] == (1, 7, 2 + 2 * OFFSET, 2)
    assert both[6:] == (1, (ObjectKey("default", "a"), ObjectKey("default", "b")))
    assert price.of(keys("b")) < price.of(keys("a")) < both
    assert price.of(keys()) == Cost()
    assert price.least(keys("a", "b")) == both._replace(devices=0)


def test_a_pod_counts_once_however_many_budgets_it_violates():
    again = budget("a", 0)
    again["metadata"]["name"] = "a-again"
    found = occupants(running("a"), budget("a", 0), again)
    assert Pricing(found, lambda _: 0, lambda _: 0).of(keys("a")).violations == 1


@pytest.mark.parametrize(("priority", "violations"), [(1, 2), (-1, 1)])
def test_the_most_important_pods_use_the_budgets_first(priority: int, violations: int):
    """Two others have one budget each, of one eviction, and `both` has the two: first or last of all."""
    both = running("both", priority=priority)
    both["metadata"]["labels"] = {"a": "", "b": ""}
    others, budgets = [], []
    for name in "ab":
        other, one = running(name), budget(name, 1)
        other["metadata"]["labels"] = {name: ""}
        one["spec"]["selector"] = {"matchExpressions": [{"key": name, "operator": "Exists"}]}
        others.append(other)
        budgets.append(one)
    price = Pricing(occupants(both, *others, *budgets), lambda _: 0, lambda _: 0)
    assert price.of(keys("both", "a", "b")).violations == violations


def test_the_pod_that_ran_longer_costs_more():
    old, young = running("old"), running("young")
    old["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    young["status"] = {"startTime": "2026-01-02T00:00:00Z"}
    price = Pricing(occupants(old, young, running("starting")), lambda _: 0, lambda _: 0)
    assert price.of(keys("starting")) < price.of(keys("young")) < price.of(keys("old"))


@pytest.fixture
def shallow():
    """Calls can be nested half as deep as there are pods."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 75)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("shallow")
def test_many_pods_are_decided_without_nested_calls():
    found = occupants(*[running(f"p{number}") for number in range(150)])
    needed = keys("p0", "p1", "p7")
    search = Subsets(
        found,
        frozenset(found.pods),
        Pricing(found, _none, _none),
        lambda pods, _: needed <= pods,
        lambda pods, _: needed <= pods,
    )
    search.search(found.pods)
    assert search.best is not None
    assert search.best[1] == needed


def _none(_: Pods) -> int:
    return 0
