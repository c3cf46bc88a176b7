"""What each policy would have done, and what that would have cost the demand; the standing comparison:
sampled, in a thread, shown in metrics and on the page.
"""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.policies.demand import NO_DEMAND, Demand, Shape
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Refusal
from reconciler.control.demand import PoliciesInUse
from reconciler.control.handler import Decide
from reconciler.operations.policy_comparison import (
    Choice,
    PolicyComparison,
    Sample,
    compare,
    in_words,
    places,
    shares,
)
from reconciler.state.store import Store
from reconciler.state.trial import Forked
from tests.tools.allocation_strategies import worlds
from tests.tools.allocation_world import World, decide
from tests.tools.builders import claim, device, device_class, node, request, resource_slice, store, typed
from tests.tools.examples import examples
from tests.tools.naive_policies import GPUS
from tests.tools.patience import PATIENCE
from tests.tools.small_fleet import claim as gated_claim
from tests.tools.small_fleet import claim_spec
from tests.tools.unit_pictures import typed as typed_claim


@pytest.mark.loopback
async def test_a_sample_is_compared_with_every_policy_once_in_the_interval():
    known = store(*GPUS)
    asked = [typed_claim(gated_claim("c")), typed_claim(gated_claim("d"))]
    demand = Demand((Shape(asked[0].spec, 0, 1),))
    policies = PoliciesInUse(Policies(parse_policies(["best-fit"]), demand))
    comparison = PolicyComparison(known, policies, seconds=600.0, clock=asyncio.get_running_loop().time)
    snapshot = known.snapshot()
    for one in asked:
        granted = allocate([one], snapshot)
        assert isinstance(granted, Granted)
        comparison.offer(Decide((one,), None, policies=policies()), granted)
    async with asyncio.timeout(PATIENCE):
        await comparison.compare_one()
    assert comparison.samples == 1
    assert comparison.choices["first-fit", "same"] == 1
    assert comparison.choices["best-fit", "other node"] == 1
    view = comparison.view()
    assert [row.name for row in view.policies] == [*POLICIES]
    assert [row.name for row in view.policies if row.used] == ["best-fit"]
    assert view.demand == (("1 of class gpu", 1.0),)
    (fact,) = (fact() for fact in comparison.signals().facts)
    assert fact.value == "best-fit; demand of 1 shape; 1 compared"


@pytest.mark.loopback
async def test_refusals_are_no_samples():
    known = store(*GPUS)
    policies = PoliciesInUse(Policies(parse_policies(["best-fit"])))
    comparison = PolicyComparison(known, policies, seconds=0.0, clock=asyncio.get_running_loop().time)
    one = typed_claim(gated_claim("c"))
    comparison.offer(Decide((one,), None), Refusal("DevicesInUse", "", room=True))
    assert comparison._sample is None


def claim_for(count: int) -> ResourceClaim:
    made = typed(claim(f"c{count}", request("r", count)))
    assert isinstance(made, ResourceClaim)
    return made


def fleet(**nodes: int) -> Store:
    """Nodes with so many devices."""
    objects = [device_class()]
    for name, count in nodes.items():
        devices = [device(f"d{at}") for at in range(count)]
        objects += [node(name), resource_slice(f"s-{name}", devices, pool=name, nodeName=name)]
    return store(*objects, claim("c1", request("r", 1)))


def sampled(known: Store, wanted: ResourceClaim) -> Sample:
    """A decision of first fit."""
    granted = allocate([wanted], known.snapshot())
    assert isinstance(granted, Granted)
    return Sample((wanted,), None, None, granted, Forked.fork_of(known))


def test_a_policy_that_keeps_a_machine_whole_loses_less():
    """Node a has eight devices, node b one: only first fit takes a part of the machine that eight need."""
    known = fleet(a=8, b=1)
    demand = Demand((Shape(claim_for(8).spec, 0, 3), Shape(claim_for(1).spec, 0, 1)))
    found = compare(sampled(known, claim_for(1)), Policies(demand=demand), UNLIMITED)
    assert found.keys() == {*POLICIES}
    assert (found["first-fit"].choice, found["first-fit"].lost) == (Choice.SAME, 1.0)
    assert (found["best-fit"].choice, found["best-fit"].lost) == (Choice.OTHER_NODE, 0.25)


def test_nothing_changes_in_the_store_that_was_forked():
    known = fleet(a=2, b=1)
    before = known.snapshot()
    compare(sampled(known, claim_for(1)), Policies(), UNLIMITED)
    assert known.snapshot() is before
    assert not list(known.assumptions)


def test_without_demand_nothing_is_lost():
    found = compare(sampled(fleet(a=2), claim_for(1)), Policies(demand=NO_DEMAND), UNLIMITED)
    assert {one.lost for one in found.values()} == {0.0}


@examples(20)
@given(world=worlds())
def test_a_place_is_a_claim_that_fits_by_itself_if_devices_are_counted(world: World):
    """Never fewer places than claims that fit one after the other."""
    (wanted, *_) = world.wanted()
    demand = Demand((Shape(wanted.spec, 0, 1),))
    fits = isinstance(decide(replace(world, claims=world.claims[:1])), Granted)
    assert places(demand, world.snapshot()) >= 1.0 or not fits or not wanted.spec.devices.requests


def test_shapes_in_words():
    one = Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 3)
    other = Shape(None, 0, 1)
    assert in_words(one) == "2 of class gpu; CPU 500m"
    assert shares(Demand((other, one))) == [("2 of class gpu; CPU 500m", 0.75), ("no devices", 0.25)]
    assert shares(NO_DEMAND) == []
