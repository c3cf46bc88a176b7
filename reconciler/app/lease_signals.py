"""Signals about the Lease: who holds it, and whether other shards overlap with ours."""

from collections.abc import Callable

from reconciler.app.leadership import Candidate
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import by, single
from reconciler.operations.page.sources import Fact
from reconciler.operations.serving.statusz import Row
from reconciler.operations.telemetry.signals import Signals


def lease_signals(candidate: Candidate, clock: Callable[[], float]) -> Signals:
    """Replaces the signals of a candidate from before its campaign. `clock` counts seconds."""
    elector, campaign = candidate.elector, candidate.campaign
    lease = elector.shard.lease

    def overlap() -> str:
        rivals = (f"{rival.name} of {rival.holder or 'nobody any more'}" for rival in campaign.rivals)
        others = ", ".join(rivals)
        shard = str(elector.shard) or "of the whole fleet"
        return f"shard {shard} overlaps with Lease {others}" if others else ""

    def rows() -> list[Row]:
        shard = str(elector.shard) or "the whole fleet"
        left = elector.clear_at - clock()
        ours = elector.holder == elector.identity
        wait = f"{left:.0f} s: {elector.clear_of}" if left > 0 and ours else "no"
        return [("name", lease), ("holder", elector.holder), ("shard", shard), ("waits", wait)]

    return Signals(
        ready={"shard": overlap},
        sections={
            "Leader": lambda: [("leading", "yes" if candidate.leads() else "no")],
            "Lease": rows,
        },
        readings=[
            by(of.LEADER, lambda: {lease: float(candidate.leads())}),
            single(of.RIVALS, lambda: len(campaign.rivals)),
        ],
        facts=[lambda: Fact("Lease", f"{lease}, held by {elector.holder or 'nobody'}")],
    )
