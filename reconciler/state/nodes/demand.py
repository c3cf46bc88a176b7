"""What a pod sets aside on its node, by the rule of kube-scheduler: sidecars, init containers, overhead.

Amounts are whole numbers: thousandths of a CPU, otherwise the resource's own unit, rounded up as upstream
does once all is added up.
"""

from collections.abc import Iterable, Mapping

from reconciler.api.objects.core import Container, ContainerStatus, Pod
from reconciler.api.objects.quantity import NANO, Quantity

PODS = "pods"
"""The resource of which every pod takes one."""

MOST = 2**62 - 1
"""Nothing counts for more, so that no difference of two amounts leaves 64 bits."""

_MILLI = NANO // 1000
_ALWAYS = "Always"
_HUGE_PAGES = "hugepages-"

Nanos = dict[str, int]


def demand(pod: Pod) -> dict[str, int]:
    """Resource -> amount that the pod takes. What is zero is left out."""
    spec, status = pod.spec, pod.status
    running = _sum(_each(spec.containers, status.container_statuses))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container, asked in zip(
        spec.init_containers, _each(spec.init_containers, status.init_container_statuses), strict=True
    ):
        # Each starts once those before it are done; sidecars among those go on beside it.
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
    """Billionths as the whole number in which a resource is counted here."""
    return max(min(-(-nanos // (_MILLI if resource == "cpu" else NANO)), MOST), 0)


def amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Resource -> amount, of what a node offers."""
    return {name: amount(name, quantity.nanos) for name, quantity in resources.items()}


def _each(containers: Iterable[Container], statuses: Iterable[ContainerStatus]) -> list[Nanos]:
    now = {status.name: status for status in statuses}
    return [_asked(container, now.get(container.name)) for container in containers]


def _asked(container: Container, now: ContainerStatus | None) -> Nanos:
    """The most of what is asked for, what was promised and what is set aside, while a resize is under way."""
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
