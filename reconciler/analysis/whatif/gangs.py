"""Joins the pods of a gang into one unit: those to be placed, and those that lose their devices."""

from collections.abc import Collection, Iterator, Sequence

from reconciler.allocation.koordinator.demand import read_demand
from reconciler.analysis.whatif.scenario import Gang, Unit
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangRules, gang_of
from reconciler.api.objects.pods import is_live
from reconciler.errors import Malformed, Rejected
from reconciler.state.koordinator.rules import Rules
from reconciler.state.nodes.charging import node_of
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.pods.gang_rules import NOT_FOUND, NoRules, rules_of
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.placed import placed
from reconciler.state.store import Store

_ALL_KNOWN = KindsOnDemand(None)


def with_gangs(
    units: Sequence[Unit], groups: PodGroups, machine_rules: Rules | None
) -> Iterator[Unit | Gang]:
    """The units in their order; the pods of a gang as one, in the place of its first pod.

    Raises Rejected for a gang whose rules cannot be used, and if its pods request Koordinator's devices.
    """
    members: dict[GangKey, list[Unit]] = {}
    for unit in units:
        if (gang := waiting_gang(unit.pod)) is not None:
            members.setdefault(gang, []).append(unit)
    rules = {gang: _rules(gang, found, groups) for gang, found in members.items()}
    for unit in units:
        gang = waiting_gang(unit.pod)
        known = rules[gang] if gang is not None else None
        if gang is None or known is None:
            if unit.claims or _of_koordinator(unit, machine_rules) is not None:
                yield unit
        elif gang in members:
            found = members.pop(gang)
            for one in found:
                if (pod := _of_koordinator(one, machine_rules)) is not None:
                    why = "requests Koordinator's devices; gangs may use ResourceClaims only"
                    raise Malformed(f"Pod {pod.key}", "", why)
            yield Gang(f"gang {gang}", gang, tuple(found), known.least, known.tiers)


def waiting_gang(pod: Pod | None) -> GangKey | None:
    """The gang that a pod names, unless it is bound or finished."""
    return gang_of(pod) if pod is not None and not pod.spec.node_name and is_live(pod) else None


def moved_together(
    units: Sequence[Unit], store: Store, groups: PodGroups, drained: Collection[str]
) -> Iterator[Unit | Gang]:
    """The units that lose their nodes, in their order. Those of a gang are placed together, beside the rest.

    A gang whose rules cannot be used is as none.
    """
    lost = {unit.pod.key: unit for unit in units if unit.pod is not None}
    of_gang: dict[GangKey, list[Pod]] = {}
    for pod in store.pods.values() if lost else ():
        if is_live(pod) and (gang := gang_of(pod)) is not None:
            of_gang.setdefault(gang, []).append(pod)
    done: set[GangKey] = set()
    for unit in units:
        gang = gang_of(unit.pod) if unit.pod is not None else None
        rules = rules_of(gang, of_gang[gang], groups, _ALL_KNOWN) if gang in of_gang and gang else None
        if gang is None or not isinstance(rules, GangRules):
            yield unit
        elif gang not in done:
            done.add(gang)
            pods = of_gang[gang]
            stay = [pod for pod in pods if pod.key not in lost and node_of(pod, store) not in ("", *drained)]
            members = tuple(unit for unit in units if unit.pod in pods)
            there = placed(stay, store)
            least = max(rules.least - len(stay), 1)
            yield Gang(f"gang {gang}", gang, members, least, rules.tiers, there.nodes, there.devices)


def _rules(gang: GangKey, members: Sequence[Unit], groups: PodGroups) -> GangRules | None:
    """What a gang needs; None if its PodGroup is no gang. Raises Rejected."""
    pods = [unit.pod for unit in members if unit.pod is not None]
    found = rules_of(gang, pods, groups, _ALL_KNOWN)
    if isinstance(found, NoRules):
        more = "; add it to the same file" if found.reason == NOT_FOUND else ""
        raise Rejected(f"{found.message}{more}")
    return found


def _of_koordinator(unit: Unit, rules: Rules | None) -> Pod | None:
    """The pod, if it requests Koordinator's devices."""
    asks = unit.pod is not None and rules is not None and read_demand(unit.pod, rules) is not None
    return unit.pod if asks else None
