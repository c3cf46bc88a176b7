"""The decision: which devices of one machine are allocated to a pod, or why none."""

from reconciler.koordinator import nearest, released
from reconciler.koordinator.demand import Demand
from reconciler.koordinator.failure import Failure, Status
from reconciler.koordinator.holdings import Allocation, Holdings
from reconciler.koordinator.instances import instances
from reconciler.koordinator.machine import Machine
from reconciler.koordinator.names import GPU, ISOLATION_PROVIDER
from reconciler.koordinator.result import completed
from reconciler.koordinator.rules import Rules
from reconciler.koordinator.view import Takeover, attempt

NOTHING_TO_TAKE_OVER = Takeover()


def allocate(
    demand: Demand,
    machine: Machine,
    holdings: Holdings,
    rules: Rules,
    *,
    takeover: Takeover = NOTHING_TO_TAKE_OVER,
    trial: bool = False,
) -> Allocation | Failure:
    """The allocation of a pod on one machine, complete for the annotation. Changes nothing.

    A trial omits the secondary types of a well-planned machine.
    """
    if refused := _unsuitable(demand, machine, rules):
        return refused
    needed = instances(demand, machine, upstream=rules.upstream, trial=trial)
    if isinstance(needed, Failure):
        return needed
    at = attempt(demand, machine, holdings, rules, takeover)
    chosen: released.GrantsByType = {}
    if demand.joint and all(kind in needed for kind in demand.joint):
        allocate_jointly = released.allocate_jointly if rules.upstream else nearest.allocate_jointly
        found = allocate_jointly(at, needed)
        if isinstance(found, Failure):
            return found
        chosen = found
    for kind in [kind for kind in needed if kind not in chosen]:
        grants = released.allocate_type(at, kind, needed[kind])
        if isinstance(grants, Failure):
            return grants
        chosen[kind] = grants
    return completed(chosen, machine)


def _unsuitable(demand: Demand, machine: Machine, rules: Rules) -> Failure | None:
    """The failure if the machine cannot share GPUs as the pod requests (KOO-8)."""
    if demand.gpu is None or not demand.gpu.shared:
        return None
    provider = demand.isolation
    if provider and machine.node_labels.get(ISOLATION_PROVIDER) != provider:
        name = "HAMICore" if provider == "HAMi-core" else provider
        message = f"GPUIsolationProvider{name} not found on the node"
        return Failure("isolation-provider-missing", Status.ERROR, message)
    if (machine.vendor, machine.model) in rules.unshared_models:
        message = f'model "{machine.model}" of vendor "{machine.vendor}" does not support {GPU.upper()} Share'
        return Failure("gpu-share-unsupported-model", Status.NEVER, message)
    return None
