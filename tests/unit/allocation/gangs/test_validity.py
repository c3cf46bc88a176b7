"""Whether places found earlier are possible now, compared with judging them again."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted
from reconciler.allocation.gangs.places import gang_still_fits
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Granted
from tests.tools.builders import claim, request, selectors
from tests.tools.examples import examples
from tests.tools.gang_twin import seats_of, verdict
from tests.tools.gang_world import GangWorld, gang_worlds, varied_worlds
from tests.tools.scenario import asking


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
