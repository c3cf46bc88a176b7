"""What a gang needs, from its PodGroup or from the annotations of its pods."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangRules, GangSource, annotated_rules
from reconciler.errors import Malformed, Unlisted
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.pods.groups import KIND_OF, PodGroups

NOT_FOUND, INVALID, DISAGREE = "GangNotFound", "GangInvalid", "GangMembersDisagree"
"""The reasons if the PodGroup does not exist, if a field cannot be used, and if annotations differ."""

INCOMPLETE, UNSUPPORTED = "GangIncomplete", "GangOfKoordinator"
"""The reasons if too few pods exist, and if a pod requests Koordinator's devices."""


class NoRules(Struct, frozen=True):
    """It is not known what the gang needs."""

    reason: str
    message: str


def rules_of(
    gang: GangKey, pods: Sequence[Pod], groups: PodGroups, on_demand: KindsOnDemand
) -> GangRules | NoRules | None:
    """What a gang needs, or why that is unknown. None if the group is no gang.

    `pods` are all its live members, at least one.
    """
    if gang.source is GangSource.ANNOTATION:
        return _annotated(gang, pods)
    kind = KIND_OF[gang.source]
    try:
        on_demand.require(kind, f"pod {pods[0].key}")
    except Unlisted as exc:
        return NoRules(exc.reason, str(exc))
    group = groups.get(gang)
    if group is None:
        served = "" if on_demand.is_served(kind) else "; the API server does not serve PodGroups of its group"
        return NoRules(NOT_FOUND, f"PodGroup {gang}, which pod {pods[0].key} names, does not exist{served}")
    rules = group.rules
    if rules is not None and rules.least < 1:
        return NoRules(INVALID, f"PodGroup {gang}: minCount is {rules.least}; the minimum is 1")
    return rules


def _annotated(gang: GangKey, pods: Sequence[Pod]) -> GangRules | NoRules:
    """What the annotations say, in which all members agree."""
    found: dict[GangRules, Pod] = {}
    for pod in pods:
        try:
            found.setdefault(annotated_rules(pod), pod)
        except Malformed as exc:
            return NoRules(INVALID, str(exc))
    if len(found) == 1:
        return next(iter(found))
    (one, first), (other, second) = list(found.items())[:2]
    what = f"size {one.least} and {other.least}" if one.least != other.least else "different topologies"
    return NoRules(DISAGREE, f"gang {gang}: pods {first.key} and {second.key} say {what}; they must agree")
