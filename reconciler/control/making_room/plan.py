"""What a plan to make room says. `analysis` makes it, on forks in a thread; `app` connects the two."""

from collections.abc import Callable

from msgspec import Struct

from reconciler.aio.worker_thread import ShouldContinue
from reconciler.api.objects.budgets import PodDisruptionBudget
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.control.evicting.victims import Victim
from reconciler.control.gangs.planner import Solve
from reconciler.control.planner import Decide
from reconciler.state.devices.snapshot.fork import Fork
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations.nomination import HeldPlace, Nominee
from reconciler.state.pods.groups import PodGroups


class RoomPlan(Struct, frozen=True):
    """Who has to leave so that something fits."""

    victims: tuple[Victim, ...]
    """In the order in which they leave; empty if it fits without, or not at all"""
    places: tuple[HeldPlace, ...]
    """Where it fits then; empty if it does not"""
    awaits: bool = False
    """Whether it fits when pods that are being deleted are gone, besides the victims"""
    refused: str = ""
    """Why no room can be made by evictions that are allowed; empty if it can"""
    advice: str = ""
    """Set if room can be made, but not by us: why"""

    @property
    def acts(self) -> bool:
        """Whether it may be carried out."""
        return not self.refused and not self.advice


class RoomQuestion(Struct, frozen=True):
    """Everything that a plan depends on. Nothing in it changes while a thread plans."""

    nominee: Nominee
    own: frozenset[Nominee]
    need: Decide | Solve
    sharing: tuple[tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]], ...]
    """See `Candidates.sharing`"""
    fork: Fork
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...]
    spared: Callable[[Pod], bool]
    """Pods that started too recently to be evicted"""


PlanRoom = Callable[[RoomQuestion, ShouldContinue], RoomPlan]
"""Makes a plan, in any thread"""
