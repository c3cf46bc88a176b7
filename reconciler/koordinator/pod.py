"""A pod as far as its devices depend on it, and the sum of what its containers request."""

from collections.abc import Mapping

from pydantic import Field

from reconciler.koordinator.names import TYPE_OF
from reconciler.koordinator.shares import plus, shares_of
from reconciler.objects import core
from reconciler.objects.model import Map, Model, Str, Tuple
from reconciler.objects.quantity import Quantity


class Resources(Model):
    """What a container requests; a limit without a request is one."""

    requests: Map[Quantity] = Field(default_factory=dict)
    limits: Map[Quantity] = Field(default_factory=dict)

    @property
    def wanted(self) -> Mapping[str, Quantity]:
        return {**self.limits, **self.requests}


class Container(Model):
    """A container, or an init container."""

    resources: Resources = Resources()
    restart_policy: Str = ""


class PodSpec(core.PodSpec):
    """The containers, and where they may run."""

    containers: Tuple[Container] = ()
    init_containers: Tuple[Container] = ()
    overhead: Map[Quantity] = Field(default_factory=dict)


class Pod(core.Pod):
    """A consumer of devices."""

    spec: PodSpec = PodSpec()


def requested(pod: Pod) -> dict[str, int]:
    """What the whole pod requests of resources that are ours, without zeros (section 4.1).

    The sum over containers; an init container runs before them, beside the restartable ones that came
    earlier, and those run on beside everything. Raises Malformed.
    """
    subject = f"Pod {pod.key}"

    def of(quantities: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: n for name, n in shares_of(subject, quantities).items() if name in TYPE_OF}

    running: dict[str, int] = {}
    for container in pod.spec.containers:
        running = plus(running, of(container.resources.wanted))
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = plus(beside, of(container.resources.wanted))
        if container.restart_policy == "Always":
            beside = now
        peak = {name: max(peak.get(name, 0), now.get(name, 0)) for name in {**peak, **now}}
    running = plus(running, beside)
    total = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
    total = plus(total, of(pod.spec.overhead))
    return {name: amount for name, amount in total.items() if amount}
