"""The PodGroups of Kubernetes and of coscheduling, and what a gang needs by its group or its annotations."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import (
    CoschedulingPodGroup,
    GangKey,
    GangRules,
    GangSource,
    PodGroup,
    annotated_rules,
    gang_of,
)
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.errors import Malformed, Unlisted
from reconciler.state.forking import Forkable
from reconciler.state.on_demand import KindsOnDemand

Group = PodGroup | CoschedulingPodGroup

KINDS = {"PodGroup": GangSource.POD_GROUP, "CoschedulingPodGroup": GangSource.COSCHEDULING}
"""Kind of a change -> where the gang is declared"""
KIND_OF = {source: kind for kind, source in KINDS.items()}


class PodGroups(Forkable):
    """The newest version of every known PodGroup."""

    def __init__(self) -> None:
        self._known: dict[GangKey, Group] = {}

    def get(self, gang: GangKey) -> Group | None:
        """The PodGroup of a gang."""
        return self._known.get(gang)

    def leaves_whole(self, gang: GangKey) -> bool:
        """Whether the pods of a group are evicted only together: `disruptionMode: {all: {}}`."""
        group = self._known.get(gang)
        return isinstance(group, PodGroup) and group.leaves_whole

    def ranked(self, pod: Pod) -> Pod:
        """A pod with the priority and the preemptionPolicy of its PodGroup, where that has them."""
        gang = gang_of(pod) if self._known else None
        group = self._known.get(gang) if gang is not None else None
        if not isinstance(group, PodGroup):
            return pod
        given = {"priority": group.spec.priority, "preemption_policy": group.spec.preemption_policy}
        found = {key: value for key, value in given.items() if value is not None}
        if all(getattr(pod.spec, key) == value for key, value in found.items()):
            return pod
        return pod.model_copy(update={"spec": pod.spec.model_copy(update=found)})

    def note(self, change: Change) -> frozenset[GangKey]:
        """Apply a change of PodGroups. Returns the gangs that it concerns."""
        source = KINDS.get(change.kind)
        if source is None:
            return frozenset()
        match change:
            case Changed(object=PodGroup() as group):
                return self._put(_key(group.key, GangSource.POD_GROUP), group)
            case Changed(object=CoschedulingPodGroup() as group):
                return self._put(_key(group.key, GangSource.COSCHEDULING), group)
            case Removed(key=key) | Refused(key=key):
                return self._put(_key(key, source), None)
            case Replaced(objects=objects):
                return self._replace(source, objects)
        return frozenset()

    def _replace(self, source: GangSource, objects: tuple[ApiObject, ...]) -> frozenset[GangKey]:
        listed = {
            _key(group.key, source): group
            for group in objects
            if isinstance(group, PodGroup | CoschedulingPodGroup)
        }
        gone = [gang for gang in self._known if gang.source is source and gang not in listed]
        changed = [self._put(gang, None) for gang in gone]
        changed += [self._put(gang, group) for gang, group in listed.items()]
        return frozenset().union(*changed)

    def _put(self, gang: GangKey, group: Group | None) -> frozenset[GangKey]:
        """Only a change of the spec concerns the gang: controllers write the status often."""
        before = self._known.pop(gang, None)
        if group is not None:
            self._known[gang] = group
        same = before is not None and group is not None and before.spec == group.spec
        return frozenset() if same or before is group else frozenset([gang])


def _key(key: ObjectKey, source: GangSource) -> GangKey:
    return GangKey(key.namespace, source, key.name)


_GATES = {"PodGroup": ": is the feature gate GenericWorkload off?", "CoschedulingPodGroup": " of its group"}
NOT_FOUND, INVALID, DISAGREE = "GangNotFound", "GangInvalid", "GangMembersDisagree"
"""The reasons if the PodGroup does not exist, if a field cannot be used, and if annotations differ."""

INCOMPLETE = "GangIncomplete"
"""The reason if too few pods exist."""


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
        served = "" if on_demand.is_served(kind) else f"; the API server serves no PodGroups{_GATES[kind]}"
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
