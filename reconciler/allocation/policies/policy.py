"""What a policy is: it orders nodes, then devices inside a node. It never decides what fits."""

from typing import Protocol

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.api.objects.value import value
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

LAST = np.iinfo(np.int64).max
"""The key of what a policy knows nothing about"""


@value(eq=False)
class Question:
    """What a policy may look at."""

    parsed: ParsedClaims
    snapshot: Snapshot
    pod: PodRoom | None = None
    """None if the pod is not known, or if the policy does not look at it"""


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

    def devices(self, question: Question, candidates: Candidates, view: View) -> Rows | None:
        """(n,) all positions of a view, the preferred first; None for first-fit order."""
