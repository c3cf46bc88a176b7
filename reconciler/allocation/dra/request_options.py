"""The requests of claims, checked and flattened: claims -> requests -> alternatives.

Independent of devices. Source: docs/reference/rules/requests.md, in the order of PREP-11.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from reconciler.allocation.dra.budget import Fatal
from reconciler.api.objects import semantics
from reconciler.api.objects.claims import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    opaque_for,
)
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.quantity import Quantity

MAX_RESULTS = 32
"""The most devices of one claim (ST-4)."""


class SelectorUse(Struct, frozen=True):
    """A CEL expression and its place, for messages."""

    expression: str
    where: str
    """`class NAME` or `request NAME`, and the selector. Without the claim: claims of equal specs share it"""
    own: bool
    """Whether the request has it, not the class"""


class RequestKey(NamedTuple):
    """The parts of a request option that decide which single devices suit it."""

    expressions: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity: tuple[tuple[str, Quantity], ...]
    admin: bool
    derived: tuple[tuple[str, str], ...]
    """Attribute and expression"""
    config: tuple[tuple[str, str], ...] = ()
    """Driver and JSON of opaque parameters, where a driver may read them (AFF-2)"""


class RequestOption(Struct, frozen=True):
    """One way to meet a request: a number of devices of a class, or all of them."""

    claim: int
    """Position among the claims of this decision"""
    request: str
    alternative: str
    """Name in the `firstAvailable` list, else empty"""
    source: DeviceSubRequest
    device_class: DeviceClass
    selectors: tuple[SelectorUse, ...]
    """Those of the class first, then those of the request (SEL-2)"""
    all: bool
    admin: bool
    capacity: Mapping[str, Quantity]
    constraints: tuple[int, ...]
    """Positions of the claim's constraints that apply (CON-1)"""
    derived: Mapping[str, str]
    """Attribute of such a constraint -> the expression that gives its values (CON-12)"""
    key: RequestKey
    """Options with equal keys match the same devices"""

    @property
    def name(self) -> str:
        """The request name in results (RES-3)."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request


class Slot(Struct, frozen=True):
    """One request of one claim, with its alternatives in order of preference, or its only option."""

    claim: int
    options: tuple[RequestOption, ...]


class ParsedClaims(Struct, frozen=True):
    """The claims of one decision, and their requests in order."""

    claims: tuple[ResourceClaim, ...]
    slots: tuple[Slot, ...]


def read_claims(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass], rules: semantics.Semantics
) -> ParsedClaims:
    """Flatten the requests of claims. Raises Fatal for a claim that no node can meet."""
    slots: list[Slot] = []
    for at, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            options = tuple(_options(at, claim, request, classes, rules))
            slots.append(Slot(at, options))
        for constraint in claim.spec.devices.constraints:
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                raise Fatal(
                    Reason.UNSUPPORTED_CONSTRAINT,
                    f"claim {claim.key}: a constraint has neither matchAttribute nor distinctAttribute",
                )
    return ParsedClaims(tuple(claims), tuple(slots))


def _options(
    at: int,
    claim: ResourceClaim,
    request: DeviceRequest,
    classes: Mapping[str, DeviceClass],
    rules: semantics.Semantics,
) -> Iterator[RequestOption]:
    where = f"claim {claim.key}, request {request.name}"
    if request.exactly is not None:
        yield _option(at, claim, request.name, request.exactly, "", classes, rules)
        return
    if not request.first_available:
        raise Fatal(Reason.UNSUPPORTED_MODE, f"{where}: neither exactly nor firstAvailable is set")
    _require(semantics.PRIORITIZED_LIST, rules, f"{where}: firstAvailable needs")
    for alternative in request.first_available:
        yield _option(at, claim, request.name, alternative, alternative.name, classes, rules)


def _option(
    at: int,
    claim: ResourceClaim,
    request: str,
    source: DeviceSubRequest,
    alternative: str,
    classes: Mapping[str, DeviceClass],
    rules: semantics.Semantics,
) -> RequestOption:
    where = f"claim {claim.key}, request {request}{'/' + alternative if alternative else ''}"
    if source.capacity is not None:
        _require(semantics.CONSUMABLE_CAPACITY, rules, f"{where}: capacity requests need")
    name = f"{request}/{alternative}" if alternative else request
    own = tuple(_selectors(f"request {name}", source, where))
    admin = source.admin_access if isinstance(source, ExactDeviceRequest) else None
    if admin is not None:
        _require(semantics.ADMIN_ACCESS, rules, f"{where}: adminAccess needs")
    if source.derived_attributes:
        _require(semantics.DERIVED_ATTRIBUTES, rules, f"{where}: derivedAttributes needs")
    if not source.device_class_name:
        raise Fatal(Reason.MISSING_CLASS, f"{where}: deviceClassName is not set")
    device_class = classes.get(source.device_class_name)
    if device_class is None:
        raise Fatal(Reason.CLASS_NOT_FOUND, f"{where}: there is no DeviceClass {source.device_class_name}")
    if source.allocation_mode not in (EXACT_COUNT, ALL):
        raise Fatal(Reason.UNSUPPORTED_MODE, f"{where}: allocationMode {source.allocation_mode} is not known")
    constraints = claim.spec.devices.constraints
    applied = tuple([n for n, c in enumerate(constraints) if c.applies_to(request, alternative)])
    derived = {}
    if source.derived_attributes:
        used = {constraints[n].match_attribute or constraints[n].distinct_attribute for n in applied}
        derived = {one.name: one.expression for one in source.derived_attributes if one.name in used}
    of_class = f"class {device_class.key.name}"
    selectors = (*_selectors(of_class, device_class.spec, of_class, own=False), *own)
    capacity = source.capacity.requests if source.capacity is not None else {}
    return RequestOption(
        claim=at,
        request=request,
        alternative=alternative,
        source=source,
        device_class=device_class,
        selectors=selectors,
        all=source.allocation_mode == ALL,
        admin=admin is True,
        capacity=capacity,
        constraints=applied,
        derived=derived,
        key=RequestKey(
            expressions=tuple(use.expression for use in selectors),
            tolerations=source.tolerations,
            capacity=tuple(sorted(capacity.items())),
            admin=admin is True,
            derived=tuple(derived.items()),
            config=opaque_for(claim.spec.devices.config, request, alternative)
            if rules.has(semantics.SHARING_AFFINITY)
            else (),
        ),
    )


def _require(gate: str, rules: semantics.Semantics, what: str) -> None:
    """Raise Fatal where a feature gate is off. `what` needs it."""
    if not rules.has(gate):
        raise Fatal(Reason.FEATURE_DISABLED, f"{what} the feature gate {gate}; it is off")


def _selectors(where: str, source: object, in_full: str, *, own: bool = True) -> Iterator[SelectorUse]:
    for number, selector in enumerate(source.selectors):  # type: ignore[attr-defined]
        if selector.cel is None:
            raise Fatal(
                Reason.UNSUPPORTED_SELECTOR, f"{in_full}: selector #{number} is of a kind that is not known"
            )
        yield SelectorUse(selector.cel.expression, f"{where}: selector #{number}", own)
