"""What a policy is: it orders nodes, then devices and sets of them on a node. It never decides what fits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.state.devices.snapshot import Snapshot, View

if TYPE_CHECKING:
    from reconciler.allocation.dra.candidates import Candidates
    from reconciler.allocation.dra.request_options import ParsedClaims
    from reconciler.allocation.dra.state import State


UNKNOWN_CORES = 2**40
"""Free thousandths of a CPU where they are not known; more count as so many"""


class Preferences(Protocol):
    """What a pod prefers among N nodes. It excludes none."""

    @property
    def first(self) -> bool:
        """Whether points come before the keys of the policy. Otherwise they decide between equal keys."""

    @property
    def with_first_fit(self) -> bool:
        """Whether they count for claims without a policy, too: first fit finds all nodes equal."""

    def points(self, among: Mask) -> Amounts:
        """(N,) points of the nodes in `among` (N,); the most is the best."""


class PodRoom(Struct, frozen=True, eq=False):
    """What the pod of the claims needs of a node besides devices, and what it prefers."""

    cores: int
    """Thousandths of a CPU"""
    free: Amounts
    """(N,) thousandths of a CPU that are free, in the order of `Topology.order`"""
    preferences: Preferences | None = None
    """None if they do not count, or all nodes are the same to the pod"""


LAST = np.iinfo(np.int64).max
"""The key of what a policy knows nothing about"""


class PolicyQuestion(Struct, frozen=True, eq=False):
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

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:
        """(N,) keys of nodes: the least is tried first, and equal keys in order of nodes.

        Only the keys of nodes in `among` (N,) count. None for the order of nodes.
        """

    def devices(self, question: PolicyQuestion, candidates: "Candidates", view: View) -> Rows | None:
        """(n,) all positions of a view, the preferred first; None for first-fit order."""

    def sets(self, question: PolicyQuestion, view: View) -> SetJudge | None:
        """Judges sets of devices of a node; None to choose devices one by one."""
