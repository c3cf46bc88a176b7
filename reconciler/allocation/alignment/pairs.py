"""Splits a request for several devices into requests for one device each, and merges the results.

So a constraint can name the third GPU and the third NIC, which the API cannot express.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec import Struct

from reconciler.allocation.alignment.preferences import Alignment, exact
from reconciler.api.objects.claims import (
    AllocatedConfig,
    DeviceAllocation,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from reconciler.api.objects.plan import Plan

T = TypeVar("T", DeviceConstraint, DeviceConfig)
MARK = "~"
"""Between the name of a request and the number of its device; the API does not allow it in names"""


class SplitClaim(Struct, frozen=True):
    """A claim as the allocator gets it, with requests split."""

    claim: ResourceClaim
    parts: Mapping[str, tuple[str, ...]]
    """Request -> its parts, for requests that are split"""
    alignments: tuple[Alignment, ...]
    """Without `pairs`, over requests of `claim`"""

    def parts_of(self, request: str) -> tuple[str, ...]:
        """The requests of `claim` that stand for an original request."""
        return self.parts.get(request, (request,))

    def restored(self, plan: Plan) -> Plan:
        """A plan with the original names of requests."""
        if not self.parts:
            return plan
        devices = plan.allocation.devices
        results = tuple(
            part.model_copy(update={"request": original_request(part.request)}) for part in devices.results
        )
        config = tuple(_once(_restored(part) for part in devices.config))
        given = DeviceAllocation(results=results, config=config)
        return replace(plan, allocation=plan.allocation.model_copy(update={"devices": given}))


def split_claim(claim: ResourceClaim, alignments: Sequence[Alignment]) -> SplitClaim:
    """A claim with its requests split as alignments in pairs need it."""
    devices = claim.spec.devices
    names = [request.name for request in devices.requests]
    paired = {name for alignment in alignments if alignment.pairs for name in alignment.requests or names}
    parts = {
        request.name: tuple(f"{request.name}{MARK}{number}" for number in range(asked.wanted))
        for request in devices.requests
        if request.name in paired and (asked := exact(request)) is not None and asked.wanted > 1
    }
    aligned = tuple(_aligned(alignments, names, parts))
    if not parts:
        return SplitClaim(claim, {}, aligned)
    split = devices.model_copy(
        update={
            "requests": tuple(_split(devices.requests, parts)),
            "constraints": tuple(_widened(part, parts) for part in devices.constraints),
            "config": tuple(_widened(part, parts) for part in devices.config),
        }
    )
    spec = claim.spec.model_copy(update={"devices": split})
    return SplitClaim(claim.model_copy(update={"spec": spec}), parts, aligned)


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
        part = request.exactly.model_copy(update={"count": 1})
        for name in parts[request.name]:
            yield request.model_copy(update={"name": name, "exactly": part})


def _widened(limited: T, parts: Mapping[str, tuple[str, ...]]) -> T:
    """A constraint or configuration of requests, over their parts. No names mean all requests, as before."""
    if not limited.requests:
        return limited
    requests = tuple(part for name in limited.requests for part in parts.get(name, (name,)))
    return limited.model_copy(update={"requests": requests})


def original_request(request: str) -> str:
    """The request of the claim that a part belongs to."""
    return request.partition(MARK)[0]


def _restored(config: AllocatedConfig) -> AllocatedConfig:
    if not config.requests:  # unset fields must stay unset: they are not written
        return config
    return config.model_copy(
        update={"requests": tuple(dict.fromkeys(map(original_request, config.requests)))}
    )


def _once(found: Iterable[AllocatedConfig]) -> Iterator[AllocatedConfig]:
    seen: list[AllocatedConfig] = []
    for config in found:
        if config not in seen:
            seen.append(config)
            yield config
