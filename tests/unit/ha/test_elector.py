"""From when on a Lease counts as what it is."""

import pytest
from msgspec.structs import replace

from reconciler.ha.elector import Elector
from reconciler.ha.lease_record import Record, Terms
from reconciler.ha.shard import WHOLE

TERMS = Terms()
THEIRS = Record(WHOLE.lease, "5", "them", WHOLE, TERMS.lease, TERMS.write, uid="one")
OLD = 100.0
"""Seconds after which nothing of its holder can arrive any more"""


def test_a_lease_that_has_not_changed_for_long_may_be_taken():
    elector = Elector("us", WHOLE, TERMS)
    for now in (0.0, OLD):
        elector.observe([THEIRS], now)
    assert elector.bid(OLD) is not None


def test_one_that_was_made_anew_may_not_although_it_reads_the_same():
    """The server was set back: who led meanwhile, in versions that we never saw, may go on for a while."""
    elector = Elector("us", WHOLE, TERMS)
    elector.observe([THEIRS], 0.0)
    elector.observe([replace(THEIRS, uid="another")], OLD)
    assert elector.bid(OLD) is None
    assert elector.bid(OLD + TERMS.lease * TERMS.skew) is not None
    assert elector.clear_at >= OLD + TERMS.lease + TERMS.write


def created(elector: Elector, now: float) -> None:
    """The elector creates the Lease, and sees that it is alone."""
    bid = elector.bid(now)
    assert bid is not None
    elector.won(bid, "6", now, now)
    elector.observe([replace(THEIRS, version="6", holder="us")], now)


@pytest.mark.parametrize("assured", [False, True])
def test_a_lease_that_is_missing_is_waited_out_unless_nobody_can_have_led(assured: bool):
    elector = Elector("us", WHOLE, TERMS, no_earlier_leader=assured)
    elector.observe([], 0.0)
    created(elector, 0.0)
    assert elector.leads(0.1) is assured
    assert elector.holds(0.1)
    assert elector.clear_of.startswith("" if assured else "the Lease did not exist")


def test_a_lease_that_vanishes_later_is_waited_out_in_any_case():
    """It was deleted under a holder, who may live on."""
    elector = Elector("us", WHOLE, TERMS, no_earlier_leader=True)
    elector.observe([THEIRS], 0.0)
    elector.observe([], 1.0)
    created(elector, 1.0)
    assert not elector.leads(1.1)
    assert elector.clear_at >= 1.0 + TERMS.lease + TERMS.write


def test_a_second_attempt_waits_in_any_case():
    """Between two readings another process may have led, and its Lease may have been deleted."""
    elector = Elector("us", WHOLE, TERMS, no_earlier_leader=True)
    elector.observe([], 0.0)
    assert elector.bid(0.0) is not None
    elector.observe([], 2.0)
    created(elector, 2.0)
    assert not elector.leads(2.1)
