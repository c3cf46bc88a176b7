"""Decisions of every kind, with all their fields and with those alone that they must have."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Gate, RequestCount
from reconciler.control.decisions.allocating import ExclusionViolated, Outcome
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import DECISIONS
from reconciler.state.nominations import Nominee, of_pod

CLAIM, DEVICE = ObjectKey("ns", "c"), DeviceID("d", "p", "x")
COUNTS = (
    RequestCount(CLAIM, "r", 2, (Gate("class", 3), Gate("free", 1))),
    RequestCount(CLAIM, "q/big", None, ()),
)
VALUES: dict[Any, Any] = {
    bool: False,
    int: 3,
    float: 0.25678,
    str: "words",
    ObjectKey: CLAIM,
    DeviceID: DEVICE,
    PoolID: PoolID("d", "p"),
    GangKey: GangKey("ns", GangSource.ANNOTATION, "g"),
    Nominee: of_pod(ObjectKey("ns", "p")),
    tuple[RequestCount, ...]: COUNTS,
}
"""Type of a field -> a value of it"""


def _value(of: Any, *, whole: bool) -> Any:
    if of is Outcome:
        return Outcome.AGREES if whole else Outcome.OTHER_NODE
    if of in VALUES:
        return VALUES[of]
    parts = [part for part in get_args(of) if part not in (NoneType, ...)]
    if get_origin(of) is tuple:
        return tuple(_value(part, whole=whole) for part in parts)
    if get_origin(of) is UnionType:
        return _value(parts[0], whole=whole) if whole else None
    raise TypeError(f"VALUES has no value of the type {of}")


def _made(kind: type[Decision], *, whole: bool) -> Decision:
    """With all fields, or with None for those that may have none."""
    types = get_type_hints(kind)
    own = [one.name for one in fields(kind) if one.name != "decision_id"]
    return kind(**{name: _value(types[name], whole=whole) for name in own})


SAMPLES = [_made(kind, whole=whole) for kind in DECISIONS for whole in (True, False)]
SAMPLES.append(ExclusionViolated("words"))  # of an expression: no claims
