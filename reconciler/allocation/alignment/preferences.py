"""Joint allocation and partitions in claims and classes: the models, and reading them."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from reconciler.allocation.dra.constraints import ANY_DOMAIN
from reconciler.api.objects import claims as api
from reconciler.api.objects.model import ON_USE, Bool, Str, Tuple
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.validating import Own, place_of, read_as, said_plainly
from reconciler.errors import Malformed
from reconciler.state.caches import OfObjects

VERSION = "dra-reconciler.io/v1alpha1"
JOINT = "dra-reconciler.io/joint-allocation"
PARTITION = "dra-reconciler.io/partition"
NODE = "node"
"""The last tier: the same node. Every allocation of devices that belong to nodes reaches it"""
DEFAULT_TIERS = ("resource.kubernetes.io/pcieRoot", "numaNode")
MAX_PREFERENCES = 8
"""Alignments of one claim. Each may take one search per tier."""
MAX_TIERS = 8
MAX_PARTITIONS = 1024
MAX_MEMBERS = 256
"""More than any machine has. Every choice compares each partition with each other."""


class Alignment(Own):
    """Devices of some requests should share the value of an attribute, best of the first tier."""

    requests: Tuple[Str] = ()
    """Names of requests; none means all of the claim"""
    tiers: Tuple[Str] = Field(default=DEFAULT_TIERS, max_length=MAX_TIERS)
    """Attributes, the nearest first; a name without a domain stands for any domain"""
    required: Str = NODE
    """The last acceptable tier"""
    pairs: Bool = False
    """The first device of each request is aligned with the first of the others, the second with the second"""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The acceptable tiers, the nearest first; `node` is one unless a nearer tier is required."""
        tiers = tuple(tier for tier in self.tiers if tier != NODE)
        return (*tiers, NODE) if self.required == NODE else tiers[: tiers.index(self.required) + 1]


class ClassAlignment(Alignment):
    """An alignment for every claim with devices of a class."""

    api_version: Literal["dra-reconciler.io/v1alpha1"]
    kind: Literal["JointAllocation"]
    classes: Tuple[Str] = ()
    """Other classes whose requests are aligned too"""


class Partition(Own):
    """Devices of one pool that may be allocated together."""

    devices: Tuple[Str] = Field(min_length=1)
    score: int = Field(default=0, ge=-(2**31), lt=2**31)
    bandwidth: Quantity | None = None


class Table(Own):
    """The partitions of each pool of a class."""

    api_version: Literal["dra-reconciler.io/v1alpha1"]
    kind: Literal["PartitionTable"]
    policy: Literal["Honor", "Prefer"] = "Prefer"
    partitions: Tuple[Partition] = Field(min_length=1, max_length=MAX_PARTITIONS)


class PartitionPreference(Own):
    """Which partitions a claim accepts. It implies the policy Honor."""

    requests: Tuple[Str] = ()
    allocate_policy: Literal["Restricted", "BestEffort"] = "BestEffort"
    bandwidth: Quantity | None = None


def _one_is_a_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


_ALIGNMENTS: TypeAdapter[Any] = TypeAdapter(
    Annotated[tuple[Alignment, ...], BeforeValidator(_one_is_a_list), Field(max_length=MAX_PREFERENCES)],
    config=ON_USE,
)
_PARTITION: TypeAdapter[Any] = TypeAdapter(PartitionPreference)
_CONFIG: TypeAdapter[Any] = TypeAdapter(ClassAlignment | Table, config=ON_USE)


def has_preferences(claims: Sequence[api.ResourceClaim], classes: Mapping[str, api.DeviceClass]) -> bool:
    """Whether claims or their classes have preferences. Cheap, since most have none."""
    for claim in claims:
        annotations = claim.metadata.annotations
        if annotations and (JOINT in annotations or PARTITION in annotations):
            return True
        for request in claim.spec.devices.requests:
            for name in _classes_of(request):
                if (known := classes.get(name)) is not None and known.spec.config and _addressed(known):
                    return True
    return False


def preferences_of(claim: api.ResourceClaim) -> tuple[str, ...]:
    """The preferences in the annotations of a claim, as text."""
    annotations = claim.metadata.annotations
    if not annotations:  # most claims
        return "", ""
    return annotations.get(JOINT, ""), annotations.get(PARTITION, "")


def alignments(claim: api.ResourceClaim, classes: Mapping[str, api.DeviceClass]) -> tuple[Alignment, ...]:
    """The alignments of a claim: those of its annotation, otherwise those of its classes.

    Raises Malformed for an invalid annotation, and for names of requests that do not exist.
    """
    subject, text = f"claim {claim.key}", claim.metadata.annotations.get(JOINT)
    found: tuple[Alignment, ...] = (
        tuple(_of_classes(claim, classes)) if text is None else read_as(_ALIGNMENTS, subject, JOINT, text)
    )
    for one in found:
        _check(subject, claim, one)
    return found


def partition_preference(claim: api.ResourceClaim) -> PartitionPreference | None:
    """The partition preference of a claim. Raises Malformed."""
    text = claim.metadata.annotations.get(PARTITION)
    if text is None:
        return None
    preference: PartitionPreference = read_as(_PARTITION, f"claim {claim.key}", PARTITION, text)
    _known(f"claim {claim.key}", PARTITION, claim, preference.requests)
    return preference


def limit(tier: str, requests: tuple[str, ...]) -> api.DeviceConstraint:
    """The constraint of requests that share a tier. No requests means all."""
    attribute = tier if "/" in tier else f"{ANY_DOMAIN}/{tier}"
    return api.DeviceConstraint(requests=requests, match_attribute=attribute)


def table_of(known: api.DeviceClass) -> Table | None:
    """The partitions of a class. Raises Malformed."""
    tables = [config for config in _configs(known) if isinstance(config, Table)]
    if len(tables) > 1:
        raise Malformed(f"class {known.key.name}", "spec.config", "holds more than one PartitionTable")
    return tables[0] if tables else None


def exact(request: api.DeviceRequest) -> api.ExactDeviceRequest | None:
    """The request, if it is for a number of devices of one class, without adminAccess."""
    asked = request.exactly
    plain = asked is not None and asked.allocation_mode == api.EXACT_COUNT and not asked.admin_access
    return asked if plain else None


def _of_classes(claim: api.ResourceClaim, classes: Mapping[str, api.DeviceClass]) -> Iterator[Alignment]:
    wanted = {request.name: _classes_of(request) for request in claim.spec.devices.requests}
    seen: set[str] = set()
    for of_request in wanted.values():
        for name in of_request:
            if name in seen or (known := classes.get(name)) is None:
                continue
            seen.add(name)
            for config in _configs(known):
                if isinstance(config, ClassAlignment):
                    meant = {name, *config.classes}
                    requests = tuple(request for request, of in wanted.items() if meant.intersection(of))
                    yield config.model_copy(update={"requests": requests})


def _classes_of(request: api.DeviceRequest) -> tuple[str, ...]:
    if request.exactly is not None:
        return (request.exactly.device_class_name,)
    return tuple(alternative.device_class_name for alternative in request.first_available)


def _addressed(known: api.DeviceClass) -> bool:
    return any(one.opaque is not None and one.opaque.driver == api.OWN_DRIVER for one in known.spec.config)


_READ: OfObjects[api.DeviceClass, tuple[ClassAlignment | Table, ...]] = OfObjects(256)
"""Configurations of classes. They depend on the frozen object alone: all snapshots and threads share them."""


def _configs(known: api.DeviceClass) -> tuple[ClassAlignment | Table, ...]:
    """Our configurations of a class. Read once for each object."""
    return _READ.of(known, lambda: _read_class(known)) if _addressed(known) else ()


def _read_class(known: api.DeviceClass) -> tuple[ClassAlignment | Table, ...]:
    found: list[ClassAlignment | Table] = []
    for number, config in enumerate(known.spec.config):
        if config.opaque is None or config.opaque.driver != api.OWN_DRIVER:
            continue
        field = f"spec.config[{number}].opaque.parameters"
        try:
            found.append(_CONFIG.validate_python(config.opaque.parameters))
        except ValidationError as exc:
            raise Malformed(f"class {known.key.name}", field, _first(exc, config.opaque.parameters)) from exc
    return tuple(found)


def _first(exc: ValidationError, parameters: Any) -> str:
    """The first problem, by the model that `kind` names."""
    kind = parameters.get("kind") if isinstance(parameters, dict) else None
    shape = {"JointAllocation": "ClassAlignment", "PartitionTable": "Table"}.get(str(kind))
    if shape is None:
        return f"must be a JointAllocation or PartitionTable of {VERSION}"
    problem = next(one for one in exc.errors() if one["loc"][0] == shape)
    return ".".join(map(str, place_of(problem)[1:])) + f": {said_plainly(problem)}"


def _check(subject: str, claim: api.ResourceClaim, alignment: Alignment) -> None:
    _known(subject, JOINT, claim, alignment.requests)
    if alignment.required != NODE and alignment.required not in alignment.tiers:
        raise Malformed(subject, JOINT, f"required is {alignment.required}, which is not among the tiers")
    if not alignment.pairs:
        return
    asked = [
        exact(one)
        for one in claim.spec.devices.requests
        if not alignment.requests or one.name in alignment.requests
    ]
    if len({one.wanted if one is not None else None for one in asked}) != 1 or asked[0] is None:
        raise Malformed(subject, JOINT, "pairs needs exact requests with the same count")


def _known(subject: str, annotation: str, claim: api.ResourceClaim, names: Sequence[str]) -> None:
    known = {request.name for request in claim.spec.devices.requests}
    for name in names:
        if name not in known:
            raise Malformed(subject, annotation, f"there is no request {name}; the claim has {sorted(known)}")


def narrowed(claim: api.ResourceClaim, kept: Collection[str]) -> api.ResourceClaim:
    """The claim with only those preferences of its annotations that concern requests in `kept`.

    The annotations must be valid. Preferences of classes need no change: they follow the requests.
    """
    annotations = dict(claim.metadata.annotations)
    if JOINT in annotations:
        written = json.loads(annotations[JOINT])
        found = [_narrow(one, kept) for one in (written if isinstance(written, list) else [written])]
        annotations[JOINT] = json.dumps([one for one in found if one is not None] if kept else [])
    if PARTITION in annotations:
        one = _narrow(json.loads(annotations[PARTITION]), kept)
        if one is not None:
            annotations[PARTITION] = json.dumps(one)
        else:
            del annotations[PARTITION]
    return claim.replacing("metadata", annotations=annotations)


def _narrow(preference: dict[str, Any], kept: Collection[str]) -> dict[str, Any] | None:
    named = preference.get("requests") or []
    still = [name for name in named if name in kept]
    if named and not still:
        return None
    return {**preference, "requests": still}
