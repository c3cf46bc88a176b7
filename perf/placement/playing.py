"""One run of partitions, or of claims on mixed models, under a policy named as in commands."""

from typing import Any, NamedTuple

from perf.placement import churn, loss_system, mig, repacking
from perf.placement.cluster import Cluster, Times
from perf.placement.printing import policy_of
from perf.placement.profiles import SLICES
from perf.workload import Progress
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.selection import policy_named

LEARNED = "learned"
"""`least-loss` with a learnt value for every place"""
REPACKING = "repacking"
"""The limit: all partitions may move at each arrival"""


class Done(NamedTuple):
    """What came of a run."""

    figures: dict[str, Any]
    """The same whenever the run is repeated"""
    times: Times


def partitions(
    policy: str,
    *,
    mix: str,
    load: float,
    arrivals: int,
    seed: int,
    nodes: int = mig.NODES,
    queue: bool = False,
    learned: Demand | None = None,
    progress: Progress,
) -> Done:
    """MIG partitions that come and go; with `queue` they wait instead of being refused.

    Of the arrivals a fifth is the warm-up. `policy` may be `RANDOM_NODE`, `REPACKING`, and `LEARNED` with
    its demand.
    """
    arriving = mig.arrivals(mix, load, arrivals, seed, nodes)
    if queue:
        arriving = mig.log_normal(arriving, seed)
    gpus, warm_up = mig.gpus(nodes), arrivals // 5
    if policy == REPACKING:
        return Done(
            repacking.play(arriving, gpus, warm_up, progress).to_json(SLICES * gpus),
            Times(),
        )
    if policy == LEARNED and learned is not None:
        chosen = policy_named("least-loss", learned)
    else:
        chosen = policy_of(policy, mig.demand_of(mix), seed)
    cluster = Cluster(mig.objects(nodes), chosen)
    if queue:
        figures = loss_system.play_queue(cluster, mig.kinds(), arriving, progress).to_json()
    else:
        played = loss_system.play(cluster, mig.kinds(), arriving, warm_up, progress)
        figures = played.to_json(SLICES * gpus)
    return Done(figures, cluster.times)


def mixed_models(
    policy: str, *, load: float, arrivals: int, seed: int, nodes: int, progress: Progress
) -> Done:
    """Claims that come and go on mixed models. The first half of the arrivals is the warm-up."""
    kinds = [kind for kind, _ in churn.asked()]
    arriving = churn.arrivals(nodes, load, arrivals, seed)
    cluster = Cluster(churn.objects(nodes), policy_of(policy, churn.demand(), seed), churn.cores(nodes))
    played = loss_system.play(cluster, kinds, arriving, arrivals // 2, progress)
    return Done(played.to_json(churn.gpus(nodes)), cluster.times)
