"""The audit finds what it is for; otherwise no figure could be believed."""

import pytest

from perf.deciding import Decider, Wrong, audit, read_claim
from perf.fleets import gpus, mig
from perf.fleets.objects import claim, exactly


def test_a_device_that_is_given_out_twice_fails_the_run():
    decider = Decider.over(gpus.fleet(2))
    granted = decider.grant(read_claim(claim("a", [exactly("r", gpus.CLASS)])))
    audit(decider.store, [granted])
    with pytest.raises(Wrong, match="given out twice"):
        audit(decider.store, [granted, granted])


def test_counters_that_are_overdrawn_fail_the_run():
    """Two pictures that know nothing of each other grant the whole GPU and a part of it."""
    granted = [
        Decider.over(mig.fleet(2)).grant(read_claim(claim("a", [mig.partition("r", profile)])))
        for profile in ("7g.40gb", "1g.5gb")
    ]
    with pytest.raises(Wrong, match="overdraws counter"):
        audit(Decider.over(mig.fleet(2)).store, granted)


def test_an_answer_that_must_not_be_fails_the_run():
    decider = Decider.over(gpus.fleet(2))
    with pytest.raises(Wrong, match="must not fit"):
        decider.refuse(read_claim(claim("a", [exactly("r", gpus.CLASS)])))
    with pytest.raises(Wrong, match="must fit"):
        decider.grant(read_claim(claim("b", [exactly("r", gpus.CLASS, count=9)])))
