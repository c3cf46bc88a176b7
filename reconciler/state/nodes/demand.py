"""What a pod requests from its node, computed as in kube-scheduler: sidecars, init containers, overhead.

Amounts are whole numbers: thousandths of a CPU, otherwise the unit of the resource. As upstream, the total is
rounded up, not its parts.
"""

from collections.abc import Iterable, Mapping

from reconciler.api.objects.core import Container, ContainerStatus, Pod
from reconciler.api.objects.quantity import NANO, Quantity

CPU = "cpu"
PODS = "pods"
"""Every pod takes one of this resource."""

MOST = 2**62 - 1
"""The largest amount. The difference of two amounts then fits in 64 bits."""

_MILLI = NANO // 1000
_ALWAYS = "Always"
_HUGE_PAGES = "hugepages-"

Nanos = dict[str, int]


def demand(pod: Pod) -> dict[str, int]:
    """Resource -> amount that the pod takes. Zero amounts are left out."""
    spec, status = pod.spec, pod.status
    running = _sum(_each(spec.containers, status.container_statuses))
    if not (spec.init_containers or spec.overhead or spec.resources):  # most pods
        return {name: amount(name, nanos) for name, nanos in running.items() if nanos > 0} | {PODS: 1}
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container, asked in zip(
        spec.init_containers, _each(spec.init_containers, status.init_container_statuses), strict=True
    ):
        # Init containers run one after another; sidecars that started earlier keep running.
        starting = _sum([sidecars, asked])
        if container.restart_policy == _ALWAYS:
            sidecars = starting
        peak = _most(peak, starting)
    total = _most(_sum([running, sidecars]), peak)
    if spec.resources is not None:
        whole = _nanos(spec.resources.requests)
        total |= {name: amount for name, amount in whole.items() if _for_whole_pods(name)}
    total = _sum([total, _nanos(spec.overhead)])
    return {name: amount(name, nanos) for name, nanos in total.items() if nanos > 0} | {PODS: 1}


def amount(resource: str, nanos: int) -> int:
    """Billionths as a whole number of the resource's unit, rounded up."""
    return max(min(-(-nanos // (_MILLI if resource == CPU else NANO)), MOST), 0)


def amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Resource -> amount that a node offers."""
    return {name: amount(name, quantity.nanos) for name, quantity in resources.items()}


def _each(containers: Iterable[Container], statuses: Iterable[ContainerStatus]) -> list[Nanos]:
    now = {status.name: status for status in statuses}
    return [_asked(container, now.get(container.name)) for container in containers]


def _asked(container: Container, now: ContainerStatus | None) -> Nanos:
    """The largest of requested, actual and allocated resources: they differ during a resize."""
    asked = _nanos({**container.resources.limits, **container.resources.requests})
    if now is None:
        return asked
    has = _nanos(now.resources.requests) if now.resources is not None else {}
    return _most(_most(asked, has), _nanos(now.allocated_resources))


def _for_whole_pods(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)


def _nanos(resources: Mapping[str, Quantity]) -> Nanos:
    return {name: quantity.nanos for name, quantity in resources.items()}


def _sum(parts: Iterable[Nanos]) -> Nanos:
    total: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            total[name] = total.get(name, 0) + nanos
    return total


def _most(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}
