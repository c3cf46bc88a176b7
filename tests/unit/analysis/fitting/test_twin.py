"""Sets of pods, compared with placing their pods one by one; and their plans, checked against the fleet."""

import pytest

from reconciler.analysis.fitting.fitting import fit
from tests.tools.examples import FACTOR
from tests.tools.fitting_worlds import domains, fit_world, hold_seats, one_by_one, wrong


@pytest.mark.parametrize("block", range(6))
def test_as_many_pods_fit_as_one_by_one_and_the_plan_is_possible(block: int):
    for seed in range(block * 25 * FACTOR, (block + 1) * 25 * FACTOR):
        world = fit_world(seed)
        with world.trial() as trial:
            found = fit(world.question, trial)
        assert wrong(world, found.sets) == [], seed
        with world.trial() as trial:
            for asked, one in zip(world.question.sets, found.sets, strict=True):
                alone = max((one_by_one(asked, trial, labels) for labels in domains(asked, world)), default=0)
                assert one.fits >= (alone if alone >= asked.least else 0), (seed, asked.name)
                hold_seats(asked, one, trial)
            assert trial.snapshot.occupancy.left.min(initial=0) >= 0
