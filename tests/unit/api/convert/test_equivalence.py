"""What is converted gives every claim the same devices as what it was converted from."""

import random

import pytest

from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Release, Semantics
from reconciler.cli.convert import objections
from tests.tools.allocation_world import World, decide
from tests.tools.builders import claim, device, devices, held, hold, node, request, resource_slice
from tests.tools.conversion_worlds import (
    conversion,
    device_map,
    devices_given,
    pool_of,
    readable,
    slices_of,
    some_claim,
)


@pytest.mark.parametrize("seed", range(80))
def test_claims_get_the_same_devices_before_and_after(seed: int):
    before = pool_of(seed)
    result = conversion(*before)
    assert result.problems == ()
    after = readable(slices_of(result))
    new_name = device_map(result)
    original = readable(before)
    rng = random.Random(-seed)
    taken: list[str] = []
    for _ in range(6):
        wanted = some_claim(rng)
        expected = devices_given(original, wanted, taken)
        found = devices_given(after, wanted, [new_name.get(name, name) for name in taken])
        if isinstance(expected, list):
            assert found == [new_name.get(name, name) for name in expected]
            taken += expected
        else:
            assert found == expected


@pytest.mark.parametrize("seed", range(30))
def test_a_server_takes_what_is_written(seed: int):
    for made in slices_of(conversion(*pool_of(seed))):
        assert objections(made) == []


@pytest.mark.parametrize("release", ["1.37", "1.36"])
@pytest.mark.parametrize("seed", range(12))
def test_nodes_reach_the_same_devices_before_and_after(release: Release, seed: int):
    """Counters beside devices that name their nodes themselves, or in slices of several nodes."""
    rng = random.Random(seed)
    shared = [{"name": "g.0", "counters": {"memory": {"value": "3"}}}]
    content = [
        device(
            f"d{at}",
            {"id": f"d{at}"},
            draws={"g.0": {"memory": rng.randint(1, 2)}},
            nodeName=rng.choice("ab"),
        )
        for at in range(4)
    ]
    raws = [resource_slice("s", content, slices=2, perDeviceNodeSelection=True, sharedCounters=shared)]
    raws.append(resource_slice("t", devices("e0", "e1"), slices=2, nodeName="a"))
    after = slices_of(conversion(*raws))
    nodes = [node("a"), node("b")]
    taken: list[str] = []
    for _ in range(4):
        wanted = claim("c", request(count=rng.randint(1, 2)))
        holders = [held(f"by-{one}", hold(one)) for one in taken]
        outcomes = [
            decide(World(slices, [wanted], holders, nodes=nodes, rules=Semantics(release)))
            for slices in (raws, after)
        ]
        given = [
            [(plan.node, [r.device for r in plan.allocation.devices.results]) for plan in outcome.plans]
            if isinstance(outcome, Granted)
            else outcome.reason
            for outcome in outcomes
        ]
        assert given[0] == given[1]
        if isinstance(outcomes[0], Granted):
            taken += [r.device for plan in outcomes[0].plans for r in plan.allocation.devices.results]
