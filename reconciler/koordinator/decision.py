"""The decision: which devices of one machine a pod is given, or why it is given none."""

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
    """What the pod is given, complete as it is to be recorded.

    A trial leaves out types that the machine has planned elsewhere. Nothing is changed.
    """
    if refused := _unsuited(demand, machine, rules):
        return refused
    needed = instances(demand, machine, upstream=rules.upstream, trial=trial)
    if isinstance(needed, Failure):
        return needed
    at = attempt(demand, machine, holdings, rules, takeover)
    chosen: released.Chosen = {}
    if demand.joint and all(kind in needed for kind in demand.joint):
        jointly = released.jointly if rules.upstream else nearest.jointly
        found = jointly(at, needed)
        if isinstance(found, Failure):
            return found
        chosen = found
    for kind in [kind for kind in needed if kind not in chosen]:
        grants = released.alone(at, kind, needed[kind])
        if isinstance(grants, Failure):
            return grants
        chosen[kind] = grants
    return completed(chosen, machine)


def _unsuited(demand: Demand, machine: Machine, rules: Rules) -> Failure | None:
    """Whether the machine cannot share GPUs in the way the pod asks for (KOO-8)."""
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
