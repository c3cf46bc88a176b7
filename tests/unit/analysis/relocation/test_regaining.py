"""Which claims can have the same devices again."""

import pytest

from reconciler.allocation.alignment.preferences import PARTITION
from reconciler.analysis.relocation.wanted import regains
from reconciler.analysis.relocation.world import world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import device, resource_slice
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, held, node

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def regained(
    *names: str, requested: Object | None = None, on: str | None = "n", annotations: Object | None = None
) -> bool:
    """Whether a claim with these devices of node `n` can have them again. `gpu-2` has a taint."""
    there = [device("gpu-0"), device("gpu-1"), device("gpu-2", taints=[TAINT]), device("gpu-3")]
    fleet = [device_class(), node("n"), resource_slice("n", there, pool="n", driver=DRIVER, nodeName="n")]
    one, other = claim("c", len(names)), claim("other")
    for made, devices in ((one, names), (other, ["gpu-3"])):
        made["metadata"]["uid"] = made["metadata"]["name"]
        made["status"] = held(DRIVER, "n", *devices, on=on)
    one["metadata"]["annotations"] = annotations or {}
    one["spec"]["devices"]["requests"][0]["exactly"] |= requested or {}
    state = world_of(map(read, [*fleet, one, other]), Semantics())
    (found,) = (found for key, found in state.store.claims.items() if key.name == "c")
    assert found.allocation is not None
    before = state.store.snapshot().occupancy.held.tolist()
    with state.trial() as trial:
        answer = regains(found, found.allocation, trial)
    assert state.store.snapshot().occupancy.held.tolist() == before
    return answer


def test_a_claim_gets_what_it_has_again():
    assert regained("gpu-1")
    assert regained("gpu-0", "gpu-1")


@pytest.mark.parametrize(
    "requested",
    [
        {"count": 2},
        {"selectors": [{"cel": {"expression": "false"}}]},
        {"deviceClassName": "unknown"},
    ],
)
def test_a_claim_does_not_get_what_it_would_not_get_now(requested: Object):
    assert not regained("gpu-1", requested=requested)


@pytest.mark.parametrize("name", ["gpu-2", "gpu-3", "gone"])
def test_a_claim_does_not_get_a_device_that_is_tainted_in_use_or_gone(name: str):
    assert not regained(name)
    assert not regained("gpu-0", name)


def test_claims_that_are_not_looked_into():
    assert not regained("gpu-1", requested={"allocationMode": "All", "count": None})
    assert not regained("gpu-1", annotations={PARTITION: "[]"})


def test_a_claim_that_may_be_used_on_more_nodes_would_not_be_any_more():
    assert not regained("gpu-1", on=None)
