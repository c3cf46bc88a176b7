"""What advice to move pods says. `analysis` finds it, on forks in a thread; `app` connects the two."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from reconciler.aio.worker_thread import ShouldContinue
from reconciler.api.objects.budgets import PodDisruptionBudget
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import DeviceID, OwnerReference
from reconciler.control.evicting.victims import Victim
from reconciler.state.devices.snapshot.fork import Fork
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations.nomination import NOBODY, HeldPlace, Nominee, of_replacement
from reconciler.state.pods.groups import PodGroups


class Relocation(NamedTuple):
    """A pod to evict, and the place for what replaces it."""

    victim: Victim
    controller: OwnerReference
    priority: int
    node: str
    devices: tuple[DeviceID, ...]
    """What it holds now"""
    to: HeldPlace
    gains: str
    """The counter set, group or node that gains"""

    @property
    def nominee(self) -> Nominee:
        """For whom the place is held."""
        return of_replacement(self.victim.key.namespace, self.controller)

    def __str__(self) -> str:
        return f"{self.victim.key} from {self.node} to {self.to.node}"


class Advice(Struct, frozen=True):
    """The moves for one goal."""

    goal: str
    """As the settings spell it"""
    counted: str = ""
    """What is counted, in the singular: `device of 7g.40gb`"""
    before: int = 0
    after: int = 0
    wanted: int = 0
    """How many are wanted at least"""
    moves: tuple[Relocation, ...] = ()
    """In the order in which each fits"""
    why: str = ""
    """Why there are no moves; empty if there are, or if nothing is wanted"""


class MovesQuestion(Struct, frozen=True):
    """Everything that advice depends on. Nothing in it changes while a thread plans."""

    fork: Fork
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...]
    spared: Callable[[Pod], bool]
    """Pods that started too recently to be evicted"""
    own: frozenset[Nominee] = NOBODY
    """For whom the place of the next move is held already"""


PlanMoves = Callable[[MovesQuestion, ShouldContinue], tuple[Advice, ...]]
"""Finds advice for each goal, in any thread"""
TryMoves = Callable[[MovesQuestion, Advice, ShouldContinue], str]
"""Why what is left of some advice cannot be carried out any more, in any thread. Empty if it can"""
