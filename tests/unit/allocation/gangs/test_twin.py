"""The search for gangs, compared with trying everything."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.allocation.gangs.places import gang_still_fits
from reconciler.allocation.policies.names import POLICIES, Weighing
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Granted, Reason
from tests.tools.builders import claim, request, selectors
from tests.tools.examples import examples
from tests.tools.gang_twin import TooMany, best, seats_of, verdict
from tests.tools.gang_world import (
    GangWorld,
    crowded_worlds,
    gang_worlds,
    taking_worlds,
    tree_worlds,
    varied_worlds,
)
from tests.tools.scenario import asking

STEPS = 5_000


@examples(50)
@given(gang_worlds())
def test_the_answer_is_as_good_as_that_of_trying_everything(world: GangWorld):
    compare(world)


@examples(60)
@given(crowded_worlds())
def test_devices_and_counters_of_a_node_are_shared_out_as_by_trying_everything(world: GangWorld):
    compare(world)


@examples(40)
@given(varied_worlds())
def test_spread_alternatives_shares_and_exclusion_are_met_as_by_trying_everything(world: GangWorld):
    compare(world)


@examples(40)
@given(varied_worlds("volumes"))
def test_volumes_are_shared_out_as_by_trying_everything(world: GangWorld):
    compare(world)


@examples(60)
@given(taking_worlds())
def test_cpus_that_devices_stand_for_are_shared_out_as_by_trying_everything(world: GangWorld):
    compare(world)


@pytest.mark.parametrize("policy", POLICIES)
@examples(12)
@given(world=st.one_of(gang_worlds(), crowded_worlds(), varied_worlds()))
def test_policies_and_preferences_cost_no_member_its_place_and_no_tier(policy: str, world: GangWorld):
    """They order nodes and devices: the search tries all of them in any order."""
    compare(world, Policies((("*", policy),), preferences=Weighing.LAST))


@examples(120)
@given(tree_worlds(st.one_of(gang_worlds(), crowded_worlds(), varied_worlds(), taking_worlds())))
def test_a_tree_is_placed_as_well_as_by_trying_everything(world: GangWorld):
    compare(world)


def compare(world: GangWorld, policies: Policies = PLAIN) -> None:
    try:
        expected = best(world)
    except TooMany:
        assume(False)
    with world.trial() as trial:
        outcome = decide_gang(
            replace(world.question(), policies=policies), trial, steps=STEPS, budget=UNLIMITED
        )
        note(str(outcome))
        if isinstance(outcome, GangUnsatisfied):
            assert outcome.reason != Reason.GAVE_UP
            assert expected is None
            assert world.tree is not None or outcome.fits < world.least
            return
        seats = seats_of(world, outcome)
        assert verdict(world, seats) == expected
        assert {key.name for key in outcome.left_out} == {pod.name for pod in world.pods} - seats.nodes.keys()
        assert expected is not None
        met = [tier for tier, one in zip(world.tiers, expected[1], strict=True) if one]
        assert [tier for tier, _ in outcome.domain] == (met if world.tree is None else list(world.tree.tiers))
        held = {plan.uid for plan in trial.store.assumptions}
        assert held == {plan.uid for seat in outcome.seats for plan in seat.plans}
    assert not list(trial.store.assumptions)


# -- Whether places found earlier are possible now, compared with judging them again.


@examples(60)
@given(gang_worlds() | varied_worlds("volumes"), st.integers(0, 3), st.integers(0, 4))
def test_places_are_possible_unless_their_nodes_lost_the_room(world: GangWorld, at: int, cpu: int):
    trial = world.trial()
    question, before = world.question(), trial.snapshot
    with trial:
        granted = decide_gang(question, trial, steps=5_000, budget=UNLIMITED)
    if not isinstance(granted, GangGranted):
        return
    seats = seats_of(world, granted)
    assert gang_still_fits(question, granted, before, trial)
    machine = world.machines[at % len(world.machines)]
    newcomer = Pod.model_validate(asking("newcomer", cpu=str(cpu)))
    trial.host(newcomer, machine.name)
    now = replace(
        world,
        machines=tuple(replace(one, cpu=one.cpu - cpu) if one is machine else one for one in world.machines),
    )
    possible = verdict(now, seats) is not None or (
        # Overcommitted, but not by the gang: the twin counts room on every node.
        machine.name not in seats.nodes.values()
    )
    assert gang_still_fits(question, granted, before, trial) == possible


@examples(60)
@given(gang_worlds(), st.integers(0, 3), st.sampled_from("ab"))
def test_places_are_not_possible_without_their_devices(world: GangWorld, at: int, kind: str):
    trial = world.trial()
    question, before = world.question(), trial.snapshot
    with trial:
        granted = decide_gang(question, trial, steps=5_000, budget=UNLIMITED)
    if not isinstance(granted, GangGranted):
        return
    machine = world.machines[at % len(world.machines)]
    chosen = selectors(f"device.attributes['d'].kind == '{kind}'")
    other = ResourceClaim.model_validate(claim("other", request("r", selectors=chosen)))
    taken = decide([other], trial.snapshot, nodes=[machine.name])
    if not isinstance(taken, Granted):
        return
    trial.place(taken.plans)
    (result,) = taken.plans[0].allocation.devices.results
    seats = seats_of(world, granted)
    used = {(one.node, one.name) for devices in seats.given.values() for one in devices}
    if (result.pool, result.device) in used:
        assert not gang_still_fits(question, granted, before, trial)
    elif not machine.counter:
        assert gang_still_fits(question, granted, before, trial)
    assert {plan.uid for plan in trial.store.assumptions} == {other.metadata.uid}
