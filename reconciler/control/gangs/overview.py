"""All gangs for people: their size, their pods, and where those are."""

from collections.abc import Iterator

from msgspec import Struct

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangRules, Tier
from reconciler.api.objects.pods import is_live
from reconciler.control.intake import Intake
from reconciler.state.pods.gang_rules import rules_of
from reconciler.state.pods.placed import placed


class GangLine(Struct, frozen=True):
    """One gang."""

    gang: GangKey
    least: int | None
    """Pods that must run together; None if the declaration cannot be used"""
    gated: int
    bound: int
    """Pods that are bound to a node"""
    released: int
    """Pods without our gate that are not bound yet"""
    nodes: int
    """Nodes that its pods have, or will have"""
    domain: tuple[tuple[str, str], ...]
    """Node labels of its topology that these nodes share -> value"""

    @property
    def waits(self) -> bool:
        """Whether pods of it are gated."""
        return self.gated > 0


class GangOverview:
    """Reads the state. Changes nothing."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def keys(self) -> tuple[list[GangKey], list[GangKey]]:
        """The gangs with gated pods, and the others; sorted. PodGroups that are no gang may be among them."""
        known = self._intake.gangs.known
        waiting = {gang for gang in known if self._intake.gangs.waits(gang)}
        return sorted(waiting), sorted(known - waiting)

    def line(self, gang: GangKey) -> GangLine | None:
        """What is known about a gang; None if it is none, or has no live pod."""
        intake = self._intake
        pods = [intake.store.pods[key] for key in sorted(intake.gangs.members(gang))]
        pods = [pod for pod in pods if is_live(pod)]
        rules = rules_of(gang, pods, intake.groups, intake.nodes.on_demand) if pods else None
        if rules is None:
            return None
        there = placed(pods, intake.store)
        nodes = sorted(set(there.nodes))
        tiers = rules.tiers if isinstance(rules, GangRules) else ()
        bound, gated = sum(map(_is_bound, pods)), sum(pod.gated for pod in pods)
        return GangLine(
            gang,
            rules.least if isinstance(rules, GangRules) else None,
            gated,
            bound,
            len(pods) - gated - bound,
            len(nodes),
            tuple(self._shared(tiers, nodes)),
        )

    def _shared(self, tiers: tuple[Tier, ...], nodes: list[str]) -> Iterator[tuple[str, str]]:
        for tier in tiers if nodes else ():
            values = {self._intake.nodes.label(name, tier.key) for name in nodes}
            if len(values) == 1 and (value := values.pop()) is not None:
                yield tier.key, value


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.gated
