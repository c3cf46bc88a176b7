"""How kube-scheduler behaves: it scores nodes without looking at devices, and takes the first that fit."""

from dataclasses import dataclass, field

import numpy as np

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.policies.policy import PolicyQuestion, SetJudge
from reconciler.state.devices.snapshot import View

RANDOM_NODE = "random-node"
STREAM = 2
"""Of random numbers; others are used for arrivals and durations"""


@dataclass(frozen=True)
class RandomNode:
    """A new random order of nodes for each question; first fit inside."""

    seed: int = 0
    name: str = RANDOM_NODE
    digest: str = ""
    _random: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Not the numbers of arrivals with the same seed: nodes would depend on what comes next.
        object.__setattr__(self, "_random", np.random.default_rng([self.seed, STREAM]))

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:  # noqa: ARG002
        """See `Policy.nodes`."""
        return self._random.permutation(len(among)).astype(np.int64)

    def devices(
        self,
        question: PolicyQuestion,  # noqa: ARG002
        candidates: Candidates,  # noqa: ARG002
        view: View,  # noqa: ARG002
    ) -> Rows | None:
        """See `Policy.devices`."""
        return None

    def sets(self, question: PolicyQuestion, view: View) -> SetJudge | None:  # noqa: ARG002
        """See `Policy.sets`."""
        return None
