"""The score of a node for a pod (KOO-19)."""

from reconciler.koordinator.demand import Demand
from reconciler.koordinator.failure import Failure
from reconciler.koordinator.holdings import Holdings
from reconciler.koordinator.instances import instances
from reconciler.koordinator.machine import Machine
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.scoring import device_score, summed
from reconciler.koordinator.view import Takeover, attempt


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
