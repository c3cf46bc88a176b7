"""What the auditor calls undone, where somebody took our allocation from a claim."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import CLAIM
from tests.tools.simulation import demand, fleet
from tests.tools.simulation.audit.auditor import Auditor
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.audit.waiting import Undone
from tests.tools.simulation.world import World

GPU = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": fleet.GPU, "pool": "n1", "device": "d0"}


@pytest.fixture
def auditor() -> Auditor:
    """Over a cluster with one device, and a claim from which an allocation was taken."""
    auditor = Auditor(fleet.NODES, fleet.CLASSES, fleet.OURS, lambda: 1000.0)
    slice_: Any = {
        "spec": {
            "driver": fleet.GPU,
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        }
    }
    auditor.slice_changed("s", slice_)
    auditor.claim_changed("default/c", _claim("c1"))
    auditor.cleared["c1"] = frozenset(["p1"])
    return auditor


def _claim(uid: str, *, allocated: bool = False) -> Any:
    claim = demand.claim("c", GPU)
    claim["metadata"] |= {"uid": uid, "finalizers": ["resource.kubernetes.io/delete-protection"]}
    if allocated:
        allocation = {"devices": {"results": [RESULT]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
        claim["status"] = {"allocation": allocation}
    return claim


def _pod(uid: str, *, gated: bool) -> Any:
    pod = demand.pod(uid, ["c"], [], zone=None, priority=0)
    pod["metadata"]["uid"] = uid
    if not gated:
        del pod["spec"]["schedulingGates"]
    return pod


def _undone(auditor: Auditor, *pods: Any) -> list[str]:
    nodes = [fleet.node(name) for name in fleet.NODES]
    gangs = World(Random(1), lambda: 0.0, Counter()).gangs
    return list(Undone(auditor, list(pods), nodes, frozenset(fleet.CLASSES), fleet.OURS, gangs).all())


def test_what_was_taken_from_a_pod_out_of_our_hands_is_left(auditor: Auditor):
    assert _undone(auditor, _pod("p1", gated=False)) == []


def test_so_it_is_for_other_pods_that_share_the_claim(auditor: Auditor):
    assert _undone(auditor, _pod("p1", gated=False), _pod("p2", gated=True)) == []


def test_what_was_taken_from_a_gated_pod_is_ours_to_give_again(auditor: Auditor):
    assert _undone(auditor, _pod("p1", gated=True))


def test_once_the_pod_is_gone_the_claim_is_ours_again(auditor: Auditor):
    assert _undone(auditor)
    assert _undone(auditor, _pod("p2", gated=True))


def test_a_claim_made_anew_under_the_same_name_is_another(auditor: Auditor):
    auditor.claim_changed("default/c", None)
    auditor.claim_changed("default/c", _claim("c2"))
    assert _undone(auditor, _pod("p1", gated=False))


def test_a_claim_that_was_allocated_again_is_left_no_more(auditor: Auditor):
    auditor.claim_changed("default/c", _claim("c1", allocated=True))
    auditor.claim_changed("default/c", _claim("c1"))
    assert _undone(auditor, _pod("p1", gated=False))


@pytest.mark.parametrize(("later", "excused"), [(1.0, True), (STALE, False)])
def test_a_pod_may_lose_its_gate_before_the_removal_is_known(later: float, *, excused: bool):
    """Once its gate is gone the claim is kube-scheduler's, whoever removed the allocation before."""
    now = [0.0]
    world = World(Random(1), lambda: now[0], Counter())
    world.api.load([demand.claim("c", GPU)])
    allocated = {"allocation": {"devices": {"results": [RESULT]}}}
    world.api.update(
        CLAIM, "default", "c", lambda shown: {**shown, "status": allocated}, subresource="status"
    )
    (claim,) = world.ground.all(CLAIM)
    world.claims.clear(claim)
    world.api.load([_pod("p", gated=False)])
    now[0] = later
    world.claims.ungated("/api/v1/namespaces/default/pods/p")
    assert bool(world.claims.cleared[claim["metadata"]["uid"]]) is excused
