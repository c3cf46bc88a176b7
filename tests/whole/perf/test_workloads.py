"""Every workload at a tiny size: it runs, checks its own answers, and gives figures. Nothing is timed."""

import math

import pytest

from perf.catalogue import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
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
