"""What a policy is: it orders nodes, then devices and sets of them on a node. It never decides what fits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

if TYPE_CHECKING:  # the allocator imports this module
    from reconciler.allocation.dra.candidates import Candidates
    from reconciler.allocation.dra.request_options import ParsedClaims
    from reconciler.allocation.dra.state import State

LAST = np.iinfo(np.int64).max
"""The key of what a policy knows nothing about"""


class Question(Struct, frozen=True, eq=False):
    """What a policy may look at."""

    parsed: "ParsedClaims"
    snapshot: Snapshot
    pod: PodRoom | None = None
    """None if the pod is not known, or if the policy does not look at it"""


class SetJudge(Protocol):
    """Judges sets of devices of one node, of n devices, as the policy judges single ones."""

    @property
    def classes(self) -> Codes:
        """(n,) not negative. Equal for devices that may replace each other in a set, if both fit."""

    def keys(self, states: Sequence["State"]) -> Amounts:
        """(K,) keys of what is chosen in each state; the least is preferred."""


class Policy(Protocol):
    """An order of candidates. Deterministic: equal questions get equal orders."""

    @property
    def name(self) -> str:
        """As the setting names it."""

    @property
    def seed(self) -> int:
        """Where the random numbers of the policy start; 0 for a policy without any."""

    @property
    def digest(self) -> str:
        """Identifies the demand that the policy uses; empty for a policy without one."""

    def nodes(self, question: Question, among: Mask) -> Amounts | None:
        """(N,) keys of nodes: the least is tried first, and equal keys in order of nodes.

        Only the keys of nodes in `among` (N,) count. None for the order of nodes.
        """

    def devices(self, question: Question, candidates: "Candidates", view: View) -> Rows | None:
        """(n,) all positions of a view, the preferred first; None for first-fit order."""

    def sets(self, question: Question, view: View) -> SetJudge | None:
        """Judges sets of devices of a node; None to choose devices one by one."""
