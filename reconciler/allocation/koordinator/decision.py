"""The decision: which devices of one machine are allocated to a pod, or why none."""

from reconciler.allocation.koordinator import joint_proposal, joint_release
from reconciler.allocation.koordinator.demand import Demand
from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.instances import instances
from reconciler.allocation.koordinator.result import completed
from reconciler.allocation.koordinator.view import Takeover, attempt
from reconciler.api.koordinator.names import GPU
from reconciler.state.koordinator.holdings import Allocation, Holdings
from reconciler.state.koordinator.machine import Machine
from reconciler.state.koordinator.rules import Rules

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
    chosen: joint_release.GrantsByType = {}
    if demand.joint and all(kind in needed for kind in demand.joint):
        allocate_jointly = (
            joint_release.allocate_jointly if rules.upstream else joint_proposal.allocate_jointly
        )
        found = allocate_jointly(at, needed)
        if isinstance(found, Failure):
            return found
        chosen = found
    for kind in [kind for kind in needed if kind not in chosen]:
        grants = joint_release.allocate_type(at, kind, needed[kind])
        if isinstance(grants, Failure):
            return grants
        chosen[kind] = grants
    return completed(chosen, machine)


def _unsuitable(demand: Demand, machine: Machine, rules: Rules) -> Failure | None:
    """The failure if the machine cannot share GPUs as the pod requests (KOO-8)."""
    if demand.gpu is None or not demand.gpu.shared:
        return None
    provider = demand.isolation
    if provider and machine.isolation != provider:
        name = "HAMICore" if provider == "HAMi-core" else provider
        message = f"GPUIsolationProvider{name} not found on the node"
        return Failure("isolation-provider-missing", Status.ERROR, message)
    if (machine.vendor, machine.model) in rules.unshared_models:
        message = f'model "{machine.model}" of vendor "{machine.vendor}" does not support {GPU.upper()} Share'
        return Failure("gpu-share-unsupported-model", Status.NEVER, message)
    return None
