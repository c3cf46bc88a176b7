"""Every workload at a tiny size: it runs, checks its own answers, and gives figures. Nothing is timed."""

import math
from collections import Counter

import pytest

from perf.catalogue import WORKLOADS
from perf.fleets import gpus, mig, torus
from perf.live import Pace
from perf.phases import PHASES, PREFIX, figures, lengths, shares
from perf.printing import phases_table
from perf.results import Calibration, Run, summed_up
from perf.workload import Outcome
from reconciler.embedded import ApiServer
from tests.tools.examples import in_soak

STARTING = {"e2e", "failover", "rest"}
"""They start the program, for seconds"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=in_soak) if name in STARTING else name for name in WORKLOADS]
)
def test_a_workload_comes_to_the_answers_that_it_must(name):
    told = []
    outcome = WORKLOADS[name].run(WORKLOADS[name].tiny, lambda done, of: told.append((done, of)))
    assert outcome.figures
    assert all(math.isfinite(figure.value) for figure in outcome.figures)
    assert told
    assert all(0 < done <= of for done, of in told)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_tiny_size_names_everything_that_every_case_names(name):
    assert all(set(size) == set(WORKLOADS[name].tiny) for size in WORKLOADS[name].cases.values())


POD = {
    "sent": 0.0, "shown": 1.0, "named": 3.0, "marked": 6.0, "allocated": 9.0, "ungated": 13.0,
    "reserved": 18.0, "bound": 20.0,
}  # fmt: skip


def test_each_phase_begins_where_the_one_before_ended_and_one_that_was_not_seen_takes_no_time():
    assert lengths(POD) == [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 2.0]
    assert shares([POD]) == [10.0 / 20.0]
    seen = {name: at for name, at in POD.items() if name not in ("marked", "reserved")}
    assert lengths(seen) == [1.0, 2.0, 0.0, 6.0, 4.0, 0.0, 7.0]


def test_what_is_done_while_the_pod_waits_for_its_names_is_not_our_time():
    """A claim is decided before its pod names it: our second write ends here when the pod names the claim."""
    early = POD | {"marked": 2.5, "named": 9.0}
    assert lengths(early) == [1.0, 8.0, 0.0, 0.0, 4.0, 5.0, 2.0]


def test_the_table_has_a_row_for_each_phase_and_the_figures_have_none():
    run = Run(
        workload="e2e", case="", size={}, calibration=Calibration(0.1, 20.0), peak_mib=(1.0,), curves=(),
        figures=summed_up([Outcome(figures([POD, POD]))]),
    )  # fmt: skip
    table = phases_table(run)
    assert table is not None
    assert table.row_count == len(PHASES)
    assert all(figure.name.startswith(PREFIX) for figure in run.figures)
    assert phases_table(run.model_copy(update={"figures": ()})) is None


@pytest.mark.parametrize(("claims", "counted"), [(2, 1), (9, 8), (100, 89)])
def test_the_first_tenth_of_a_burst_does_not_count(claims: int, counted: int):
    slow = claims - 1 - counted
    done = [(float(at), at / 100) for at in range(-10 * slow, 0, 10)] if slow else []
    done += [(at / 2, at / 200) for at in range(counted + 1)]
    assert Pace.of(done) == pytest.approx((2.0, 0.005))


# -- Fleets keep the limits of the API and have the sizes that their workloads speak of.


FLEETS = {
    "mig": lambda: mig.fleet(1),
    "gpus": lambda: gpus.fleet(3),
    "torus": lambda: torus.fleet(1),
}


@pytest.mark.parametrize("name", FLEETS)
def test_fleets_keep_the_limits_of_the_api_and_are_the_same_every_time(name):
    made = list(FLEETS[name]())
    assert made == list(FLEETS[name]())
    ApiServer().load(made)
    pools = [thing["spec"]["pool"] for thing in made if thing["kind"] == "ResourceSlice"]
    count = Counter(pool["name"] for pool in pools)
    assert all(pool["resourceSliceCount"] == count[pool["name"]] for pool in pools)
