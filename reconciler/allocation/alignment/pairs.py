"""Requests for several devices written as so many requests for one, and results written back.

So that a constraint can be put on the third GPU and the third NIC, which the API has no way to say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.allocation.alignment.preferences import Alignment, exact
from reconciler.api.objects.claims import AllocatedConfig, DeviceAllocation, ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.requests import DeviceConfig, DeviceConstraint, DeviceRequest

T = TypeVar("T", DeviceConstraint, DeviceConfig)
MARK = "~"
"""Between a request's name and the number of its device; names of the API cannot have it"""


@dataclass(frozen=True, slots=True)
class Spread:
    """A claim as the allocator is asked for it."""

    claim: ResourceClaim
    parts: Mapping[str, tuple[str, ...]]
    """Request -> the requests that stand for it, only where that is not itself"""
    alignments: tuple[Alignment, ...]
    """Without `pairs`, over requests of `claim`"""

    def named(self, request: str) -> tuple[str, ...]:
        """The requests that stand for a request."""
        return self.parts.get(request, (request,))

    def restored(self, plan: Plan) -> Plan:
        """A plan in the names of the claim as it was written."""
        if not self.parts:
            return plan
        devices = plan.allocation.devices
        results = tuple(one.model_copy(update={"request": whole(one.request)}) for one in devices.results)
        config = tuple(_once(_restored(one) for one in devices.config))
        given = DeviceAllocation(results=results, config=config)
        return replace(plan, allocation=plan.allocation.model_copy(update={"devices": given}))


def spread(claim: ResourceClaim, alignments: Sequence[Alignment]) -> Spread:
    """A claim whose requests are split as its wishes for pairs need it."""
    devices = claim.spec.devices
    names = [request.name for request in devices.requests]
    paired = {name for alignment in alignments if alignment.pairs for name in alignment.requests or names}
    parts = {
        request.name: tuple(f"{request.name}{MARK}{number}" for number in range(asked.wanted))
        for request in devices.requests
        if request.name in paired and (asked := exact(request)) is not None and asked.wanted > 1
    }
    alike = tuple(_aligned(alignments, names, parts))
    if not parts:
        return Spread(claim, {}, alike)
    split = devices.model_copy(
        update={
            "requests": tuple(_split(devices.requests, parts)),
            "constraints": tuple(_widened(one, parts) for one in devices.constraints),
            "config": tuple(_widened(one, parts) for one in devices.config),
        }
    )
    spec = claim.spec.model_copy(update={"devices": split})
    return Spread(claim.model_copy(update={"spec": spec}), parts, alike)


def _aligned(
    alignments: Iterable[Alignment], names: Sequence[str], parts: Mapping[str, tuple[str, ...]]
) -> Iterator[Alignment]:
    for alignment in alignments:
        requests = alignment.requests or tuple(names)
        pieces = [parts.get(name, (name,)) for name in requests]
        alone = (
            zip(*pieces, strict=True) if alignment.pairs else [[part for piece in pieces for part in piece]]
        )
        for together in alone:
            yield alignment.model_copy(update={"requests": tuple(together), "pairs": False})


def _split(
    requests: Iterable[DeviceRequest], parts: Mapping[str, tuple[str, ...]]
) -> Iterator[DeviceRequest]:
    for request in requests:
        if request.name not in parts or request.exactly is None:
            yield request
            continue
        one = request.exactly.model_copy(update={"count": 1})
        for name in parts[request.name]:
            yield request.model_copy(update={"name": name, "exactly": one})


def _widened(limited: T, parts: Mapping[str, tuple[str, ...]]) -> T:
    """A limit on some requests, over what stands for them. None named are all, which stays so."""
    if not limited.requests:
        return limited
    requests = tuple(part for name in limited.requests for part in parts.get(name, (name,)))
    return limited.model_copy(update={"requests": requests})


def whole(request: str) -> str:
    """The request of the claim that a request stands for."""
    return request.partition(MARK)[0]


def _restored(config: AllocatedConfig) -> AllocatedConfig:
    if not config.requests:  # unset, and so to be left out when it is written
        return config
    return config.model_copy(update={"requests": tuple(dict.fromkeys(map(whole, config.requests)))})


def _once(found: Iterable[AllocatedConfig]) -> Iterator[AllocatedConfig]:
    seen: list[AllocatedConfig] = []
    for one in found:
        if one not in seen:
            seen.append(one)
            yield one
