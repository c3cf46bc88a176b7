"""The groups of Kubernetes and of coscheduling, and what a gang needs by its group or its annotations.

A PodGroup that is in a group of groups is no gang of its own: the root of its tree is the gang.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.api.objects.changes import Change, versions
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import (
    MAX_DEPTH,
    CompositePodGroup,
    CoschedulingPodGroup,
    GangKey,
    GangRules,
    GangSource,
    PodGroup,
    annotated_rules,
    gang_of,
)
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import (
    ALL_GATES,
    COMPOSITE_GROUPS,
    GENERIC_WORKLOAD,
    GROUP_PREEMPTION,
    needs_gate,
)
from reconciler.errors import Malformed, Unlisted
from reconciler.state.caches import Forkable
from reconciler.state.on_demand import KindsOnDemand

Group = PodGroup | CompositePodGroup | CoschedulingPodGroup
GROUPS: tuple[type[Group], ...] = PodGroup, CompositePodGroup, CoschedulingPodGroup

KINDS = {
    "PodGroup": GangSource.POD_GROUP,
    "CompositePodGroup": GangSource.COMPOSITE,
    "CoschedulingPodGroup": GangSource.COSCHEDULING,
}
"""Kind of a change -> where the gang is declared"""
KIND_OF = {source: kind for kind, source in KINDS.items()}
_WRITTEN = {kind: kind.removeprefix("Coscheduling") for kind in KINDS}


class PodGroups(Forkable):
    """The newest version of every known group."""

    def __init__(self, gates: frozenset[str] = ALL_GATES) -> None:
        """`gates`: the feature gates that are on."""
        self.gates = gates
        self._known: dict[GangKey, Group] = {}
        self._inside: dict[GangKey, set[GangKey]] = {}
        """Group of groups, which may not exist -> the groups that name it as their parent"""

    def get(self, gang: GangKey) -> Group | None:
        """The group of a gang."""
        return self._known.get(gang)

    def known(self, source: GangSource) -> Iterator[GangKey]:
        """The groups of one kind that exist."""
        return (gang for gang in self._known if gang.source is source)

    def parent(self, gang: GangKey) -> GangKey | None:
        """The group of groups that a group is in; it may not exist."""
        return _parent(self._known.get(gang)) if COMPOSITE_GROUPS in self.gates else None

    def root(self, gang: GangKey) -> GangKey:
        """The gang with which a group is decided: the root of its tree, which may not exist; of a cycle, its
        first group by name.
        """
        if self.parent(gang) is None:
            return gang
        way = [gang, *self.above(gang)]
        again = way.index(way[-1])
        return way[-1] if again == len(way) - 1 else min(way[again:])

    def above(self, gang: GangKey) -> list[GangKey]:
        """The parent of a group, its parent, and so on; in a cycle, up to the first that is there again."""
        found, seen, one = list[GangKey](), {gang}, self.parent(gang)
        while one is not None:
            found.append(one)
            if one in seen:
                break
            seen.add(one)
            one = self.parent(one)
        return found

    def inside(self, gang: GangKey) -> list[GangKey]:
        """The groups in a group of groups, sorted by name."""
        return sorted(self._inside.get(gang, ()))

    def pod_groups(self, gang: GangKey) -> list[GangKey]:
        """The groups of pods of a gang: itself, or those in its tree."""
        if gang.source is not GangSource.COMPOSITE:
            return [gang]
        found, seen, left = [], {gang}, [gang]
        while left:
            for group in self.inside(left.pop()):
                if group.source is not GangSource.COMPOSITE:
                    found.append(group)
                elif group not in seen:
                    seen.add(group)
                    left.append(group)
        return found

    def leaves_whole(self, gang: GangKey) -> bool:
        """Whether what is in a group is evicted only together: `disruptionMode: {all: {}}`."""
        group = self._known.get(gang)
        return isinstance(group, PodGroup | CompositePodGroup) and group.spec.leaves_whole

    def ranked(self, pod: Pod) -> Pod:
        """A pod with the priority, its class and the preemptionPolicy of its PodGroup, or of the root of its
        tree, where that has them.
        """
        group = self._ranking(pod)
        if group is None:
            return pod
        policy = group.spec.preemption_policy if GROUP_PREEMPTION in self.gates else None
        given = {
            "priority": group.spec.priority,
            "priority_class_name": group.spec.priority_class_name,
            "preemption_policy": policy,
        }
        found = {key: value for key, value in given.items() if value is not None}
        if all(getattr(pod.spec, key) == value for key, value in found.items()):
            return pod
        return pod.replacing("spec", **found)

    def _ranking(self, pod: Pod) -> PodGroup | CompositePodGroup | None:
        """The group whose priority and preemptionPolicy count for a pod."""
        gang = gang_of(pod) if self._known and GENERIC_WORKLOAD in self.gates else None
        group = self._known.get(self.root(gang)) if gang is not None else None
        return group if isinstance(group, PodGroup | CompositePodGroup) else None

    def off_policy(self, pod: Pod) -> str:
        """Why a pod has another preemptionPolicy than its group, for people; empty if it has not."""
        group = self._ranking(pod)
        policy = group.spec.preemption_policy if group is not None else None
        if group is None or policy in (None, pod.spec.preemption_policy) or GROUP_PREEMPTION in self.gates:
            return ""
        return f"; the {policy} of {group.kind} {group.key} {needs_gate(GROUP_PREEMPTION)}"

    def note(self, change: Change) -> frozenset[GangKey]:
        """Apply a change of groups. Returns the gangs that it concerns."""
        source = KINDS.get(change.kind)
        if source is None:
            return frozenset()
        known = (ObjectKey(gang.namespace, gang.name) for gang in self.known(source))
        found = versions(change, GROUPS, known)
        return frozenset().union(*[self._put(_key(key, source), group) for key, group in found])

    def _put(self, gang: GangKey, group: Group | None) -> frozenset[GangKey]:
        """Only a change of the spec concerns the gang: controllers write the status often."""
        root = self.root(gang)
        before = self._known.pop(gang, None)
        if group is not None:
            self._known[gang] = group
        if before is group or (before is not None and group is not None and before.spec == group.spec):
            return frozenset()
        if (parent := _parent(before)) is not None:
            self._inside[parent].remove(gang)
            if not self._inside[parent]:
                del self._inside[parent]
        if (parent := _parent(group)) is not None:
            self._inside.setdefault(parent, set()).add(gang)
        return frozenset([gang, root, self.root(gang)])


def _parent(group: Group | None) -> GangKey | None:
    if not isinstance(group, PodGroup | CompositePodGroup):
        return None
    name = group.spec.parent_composite_pod_group_name
    return GangKey(group.key.namespace, GangSource.COMPOSITE, name) if name else None


def _key(key: ObjectKey, source: GangSource) -> GangKey:
    return GangKey(key.namespace, source, key.name)


_GATES = {
    "PodGroup": f": is the feature gate {GENERIC_WORKLOAD} off?",
    "CompositePodGroup": f": is the feature gate {COMPOSITE_GROUPS} off?",
    "CoschedulingPodGroup": " of its group",
}
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
    if gang.source is not GangSource.COSCHEDULING and GENERIC_WORKLOAD not in groups.gates:
        why = f"{_WRITTEN[kind]} {gang} of pod {pods[0].key} {needs_gate(GENERIC_WORKLOAD)}"
        return NoRules(Reason.FEATURE_DISABLED, why)
    try:
        on_demand.require(kind, f"pod {pods[0].key}")
    except Unlisted as exc:
        return NoRules(exc.reason, str(exc))
    served = (
        "" if on_demand.is_served(kind) else f"; the API server serves no {_WRITTEN[kind]}s{_GATES[kind]}"
    )
    group = groups.get(gang)
    if gang.source is GangSource.COMPOSITE:
        found = _tree(gang, groups, ())
        return found if isinstance(found, GangRules) else NoRules(found.reason, found.message + served)
    if group is None:
        return NoRules(NOT_FOUND, f"PodGroup {gang}, which pod {pods[0].key} names, does not exist{served}")
    if COMPOSITE_GROUPS not in groups.gates and (parent := _parent(group)) is not None:
        why = f"is in CompositePodGroup {parent}, which {needs_gate(COMPOSITE_GROUPS)}"
        return NoRules(Reason.FEATURE_DISABLED, f"PodGroup {gang} {why}")
    return _of_pods(gang, group)


def _of_pods(gang: GangKey, group: Group) -> GangRules | NoRules | None:
    """What a group of pods needs by itself. None if it is no gang."""
    assert not isinstance(group, CompositePodGroup)
    rules = group.rules
    if rules is not None and rules.least < 1:
        return NoRules(INVALID, f"PodGroup {gang}: minCount is {rules.least}; the minimum is 1")
    return rules


def _tree(gang: GangKey, groups: PodGroups, above: tuple[GangKey, ...]) -> GangRules | NoRules:
    """What a group in a tree needs, with `above` it. Without a minimum, one pod or group has to run."""
    what = _WRITTEN[KIND_OF[gang.source]]
    if gang in above:
        names = ", ".join(one.name for one in above)
        return NoRules(INVALID, f"{what} {gang}: the parents of its groups form a cycle: {names}")
    if len(above) == MAX_DEPTH:
        why = f"has {len(above)} groups above it; a tree may have {MAX_DEPTH} levels"
        return NoRules(INVALID, f"{what} {gang} {why}")
    group = groups.get(gang)
    if group is None:
        child = next(iter(groups.inside(gang)), None)
        by = f", which {child.name} names as its parent," if child is not None else ""
        return NoRules(NOT_FOUND, f"{what} {gang}{by} does not exist")
    if not isinstance(group, CompositePodGroup):
        rules = _of_pods(gang, group)
        if isinstance(rules, NoRules):
            return rules
        assert isinstance(group, PodGroup)
        return GangRules(1 if rules is None else rules.least, group.spec.tiers, gang.name)
    if group.least < 1:
        return NoRules(INVALID, f"{what} {gang}: minGroupCount is {group.least}; the minimum is 1")
    found: list[GangRules] = []
    for inside in groups.inside(gang):
        below = _tree(inside, groups, (*above, gang))
        if isinstance(below, NoRules):
            return below
        if below.groups or inside.source is not GangSource.COMPOSITE:  # else nothing is in it yet
            found.append(below)
    return GangRules(group.least, group.spec.tiers, gang.name, tuple(found))


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
