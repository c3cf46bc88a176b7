"""Hints: which devices, how many, and virtual functions."""

from typing import Any

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.holdings import Grant, Holdings
from reconciler.plugins.koordinator.names import KOORD_RDMA
from tests.tools.koordinator_builders import (
    PROPOSAL,
    UPSTREAM,
    decide,
    given,
    gpu,
    holding,
    machine,
    nic,
    pod,
)

ALL = {"allocateStrategy": "ApplyForAll"}
COUNT = {"allocateStrategy": "RequestsAsCount"}


def shares(requests: Any, on: Any, hint: Any, semantics: Any = PROPOSAL) -> Any:
    """Type -> (minor, core or rdma share)."""
    found = decide(pod(requests, hint=hint), on, semantics=semantics)
    if isinstance(found, Failure):
        return found.reason
    return {
        kind: sorted((g.minor, g.shares.get(KOORD_RDMA, g.shares.get("koordinator.sh/gpu-core"))) for g in of)
        for kind, of in found.items()
    }


@pytest.mark.parametrize(
    ("name", "amount", "hint", "proposal", "upstream"),
    [
        ("a share of one NIC", 30, {}, [(0, 30)], [(0, 30)]),
        ("whole NICs", 200, {}, [(0, 100), (1, 100)], [(0, 100), (1, 100)]),
        ("all of them", 100, ALL, [(0, 100), (1, 100), (2, 100)], [(0, 100), (1, 100), (2, 100)]),
        ("a count", 2, COUNT, [(0, 1), (1, 1)], [(0, 1), (1, 1)]),
        # The amount is the number of devices; the release takes 200 for two whole ones.
        ("a count that looks like whole NICs", 200, COUNT, "insufficient-devices:rdma", [(0, 100), (1, 100)]),
        # The amount is what each NIC is charged.
        ("all, each charged 200", 200, ALL, "insufficient-devices:rdma", [(0, 100), (1, 100)]),
    ],
)
def test_strategies_say_how_many_and_how_much(
    name: str, amount: int, hint: Any, proposal: Any, upstream: Any
):
    on = machine(nic(0), nic(1), nic(2))
    for semantics, expected in ((PROPOSAL, proposal), (UPSTREAM, upstream)):
        wanted = {"rdma": expected} if isinstance(expected, list) else expected
        assert shares({"rdma": amount}, on, {"rdma": hint}, semantics) == wanted


def test_all_are_the_healthy_ones():
    on = machine(nic(0), nic(1, health=False))
    assert shares({"rdma": 1}, on, {"rdma": ALL}) == {"rdma": [(0, 1)]}
    # The release counts the sick one, and cannot give it.
    assert shares({"rdma": 1}, on, {"rdma": ALL}, UPSTREAM) == "insufficient-devices:rdma"


def test_all_of_none_is_final():
    on = machine(nic(0, labels={"a": "b"}))
    hint = {"rdma": {**ALL, "selector": {"matchLabels": {"a": "c"}}}}
    assert shares({"rdma": 1}, on, hint) == "no-devices-of-type:rdma"


def test_strategies_are_for_gpus_as_well():
    on = machine(*(gpu(i, (0, "0")) for i in range(3)))
    assert shares({"koordinator.sh/gpu": 50}, on, {"gpu": ALL}) == {"gpu": [(0, 50), (1, 50), (2, 50)]}
    assert shares({"nvidia.com/gpu": 1}, on, {"gpu": ALL}) == {"gpu": [(0, 100), (1, 100), (2, 100)]}
    assert shares({"koordinator.sh/gpu": 2}, on, {"gpu": COUNT}) == {"gpu": [(0, 100), (1, 100)]}
    assert shares({"nvidia.com/gpu": 2}, on, {"gpu": COUNT}) == {"gpu": [(0, 100), (1, 100)]}
    assert shares({"koordinator.sh/gpu": 50}, on, {"gpu": ALL}, UPSTREAM) == {"gpu": [(0, 50)]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, [0, 1, 2]),
        ({}, [0, 1, 2]),
        ({"matchLabels": {"t": "x"}}, [0]),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["x", "y"]}]}, [0, 1]),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["x"]}]}, [1, 2]),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}]}, [0, 1]),
        ({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}, [2]),
    ],
)
def test_selectors_are_those_of_kubernetes(selector: Any, expected: list[int]):
    on = machine(nic(0, labels={"t": "x"}), nic(1, labels={"t": "y"}), nic(2))
    hint = {"rdma": {**ALL, "selector": selector}}
    assert given(pod({"rdma": 1}, hint=hint), on) == {"rdma": expected}


def test_a_selector_that_matches_nothing_may_match_later():
    hint = {"rdma": {"selector": {"matchLabels": {"t": "x"}}}}
    found = decide(pod({"rdma": 1}, hint=hint), machine(nic(0)))
    assert isinstance(found, Failure)
    assert (found.reason, found.status) == ("insufficient-devices:rdma", "Unschedulable")


def test_one_virtual_function_of_each_nic():
    on = machine(nic(0, vfs=2), nic(1, vfs=2))
    hint = {"rdma": {"vfSelector": {}, **COUNT}}
    found = decide(pod({"rdma": 2}, hint=hint), on)
    assert not isinstance(found, Failure)
    taken = [(grant.minor, [vf.bus_id for vf in grant.vfs]) for grant in found["rdma"]]
    assert taken == [(0, ["00:00.0"]), (1, ["01:00.0"])]
    assert given(pod({"rdma": 3}, hint=hint), on) == "insufficient-devices:rdma"


def test_virtual_functions_are_given_in_the_order_of_bus_ids_as_text():
    groups = [{"labels": {}, "vfs": [{"minor": 0, "busID": "0.2"}, {"minor": 1, "busID": "0.10"}]}]
    found = decide(pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}), machine(nic(0, vfGroups=groups)))
    assert not isinstance(found, Failure)
    assert found["rdma"][0].vfs[0].bus_id == "0.10"


def test_a_nic_without_a_matching_function_is_passed_over():
    groups = [{"labels": {"for": "us"}, "vfs": [{"minor": 0, "busID": "1.0"}]}]
    on = machine(nic(0, vfs=1), nic(1, vfGroups=groups))
    hint = {"rdma": {"vfSelector": {"matchLabels": {"for": "us"}}}}
    assert given(pod({"rdma": 1}, hint=hint), on) == {"rdma": [1]}
    held = Holdings()
    taken = decide(pod({"rdma": 1}, hint=hint), on, held)
    assert not isinstance(taken, Failure)
    held.hold(ObjectKey("default", "p"), taken, {})
    assert given(pod({"rdma": 1}, hint=hint), on, held) == "insufficient-devices:rdma"


def test_without_any_virtual_function_the_node_will_not_do():
    found = given(pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}), machine(nic(0)))
    assert found == "no-virtual-functions:rdma"


def test_the_physical_function_is_given_beside_its_virtual_ones():
    on = machine(nic(0, vfs=2))
    assert given(pod({"rdma": 50}), on, holding(nics=[0], share=50)) == {"rdma": [0]}
    assert given(pod({"rdma": 100}), on, holding(nics=[0], share=1)) == "insufficient-devices:rdma"


def test_what_a_device_does_not_report_is_not_checked():
    bare = gpu(0) | {"resources": {"koordinator.sh/gpu-memory": "80Gi"}}
    assert given(pod({"nvidia.com/gpu": 1}), machine(bare)) == {"gpu": [0]}


def test_a_used_up_device_gives_no_share_however_small():
    on = machine(nic(0))
    held = Holdings()
    held.hold(ObjectKey("default", "h"), {"rdma": (Grant(0, {KOORD_RDMA: 100}),)}, {})
    assert given(pod({"rdma": 1}), on, held) == "insufficient-devices:rdma"
