"""The score of a node for a pod (KOO-19)."""

from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.failure import Failure
from reconciler.allocation.koordinator.instances import instances
from reconciler.allocation.koordinator.scoring import device_score, summed
from reconciler.allocation.koordinator.view import Takeover, attempt
from reconciler.state.koordinator.holdings import Holdings
from reconciler.state.koordinator.machine import Machine
from reconciler.state.koordinator.rules import Rules


def node_score(
    demand: Demand, machine: Machine, holdings: Holdings, rules: Rules, takeover: Takeover
) -> int | Failure:
    """The sum over the requested types: the score of all their devices as one, with one more instance."""
    needed = instances(demand, machine, upstream=rules.upstream, trial=True)
    if isinstance(needed, Failure):
        return needed
    at = attempt(demand, machine, holdings, rules, takeover)
    return sum(
        device_score(
            rules.scoring, need.each, summed(at.total[kind].values()), summed(at.free[kind].values())
        )
        for kind, need in needed.items()
    )
