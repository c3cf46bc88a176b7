"""The requests of a pod for Koordinator's resources: the sum over its containers."""

from collections.abc import Mapping

from reconciler.api.koordinator.amounts import plus, shares_of
from reconciler.api.koordinator.names import TYPE_OF
from reconciler.api.objects.core import Pod, ResourceRequirements
from reconciler.api.objects.quantity import Quantity


def requested(pod: Pod) -> dict[str, int]:
    """The requests of the whole pod for resources in TYPE_OF, without zeros (KOO-3).

    The maximum of the running phase and of each init container. Earlier restartable init containers run
    during later ones, and in the running phase. Raises Malformed.
    """
    subject = f"Pod {pod.key}"

    def of(quantities: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: n for name, n in shares_of(subject, quantities).items() if name in TYPE_OF}

    running: dict[str, int] = {}
    for container in pod.spec.containers:
        running = plus(running, of(_wanted(container.resources)))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = plus(sidecars, of(_wanted(container.resources)))
        if container.restart_policy == "Always":
            sidecars = now
        peak = {name: max(peak.get(name, 0), now.get(name, 0)) for name in {**peak, **now}}
    running = plus(running, sidecars)
    total = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
    total = plus(total, of(pod.spec.overhead))
    return {name: amount for name, amount in total.items() if amount}


def _wanted(resources: ResourceRequirements) -> Mapping[str, Quantity]:
    """Requests; a limit without a request counts as a request."""
    return {**resources.limits, **resources.requests}
