"""From when on a Lease counts as what it is."""

from dataclasses import replace

from reconciler.ha.elector import Elector
from reconciler.ha.record import Record, Terms
from reconciler.ha.shards.shard import WHOLE

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
