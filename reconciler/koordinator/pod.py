"""What a pod requests of Koordinator's resources: the sum of what its containers do."""

from collections.abc import Mapping

from reconciler.koordinator.names import TYPE_OF
from reconciler.koordinator.shares import plus, shares_of
from reconciler.objects.core import Pod, ResourceRequirements
from reconciler.objects.quantity import Quantity


def requested(pod: Pod) -> dict[str, int]:
    """What the whole pod requests of resources that are ours, without zeros (KOO-3).

    The sum over containers; an init container runs before them, beside the restartable ones that came
    earlier, and those run on beside everything. Raises Malformed.
    """
    subject = f"Pod {pod.key}"

    def of(quantities: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: n for name, n in shares_of(subject, quantities).items() if name in TYPE_OF}

    running: dict[str, int] = {}
    for container in pod.spec.containers:
        running = plus(running, of(_wanted(container.resources)))
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = plus(beside, of(_wanted(container.resources)))
        if container.restart_policy == "Always":
            beside = now
        peak = {name: max(peak.get(name, 0), now.get(name, 0)) for name in {**peak, **now}}
    running = plus(running, beside)
    total = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
    total = plus(total, of(pod.spec.overhead))
    return {name: amount for name, amount in total.items() if amount}


def _wanted(resources: ResourceRequirements) -> Mapping[str, Quantity]:
    """Requests; a limit without a request is one."""
    return {**resources.limits, **resources.requests}
