"""The order of nodes, against sorting all of them by all that counts."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.preferred import nodes_in_order
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies.policy import PodRoom, PolicyQuestion, SetJudge
from reconciler.state.devices.snapshot import View
from tests.tools.builders import snapshot
from tests.tools.examples import examples

FEW = st.integers(0, 2)


@dataclass
class Keys:
    """A policy with given keys of nodes, and none of devices."""

    of_nodes: Amounts
    name = digest = "keys"
    seed = 0

    def nodes(self, _question: PolicyQuestion, among: Mask) -> Amounts:
        return np.where(among, self.of_nodes, -1)

    def devices(self, _question: PolicyQuestion, _candidates: Candidates, _view: View) -> Rows | None:
        return None

    def sets(self, _question: PolicyQuestion, _view: View) -> SetJudge | None:
        return None


@dataclass
class Points:
    """Preferences with given points."""

    of_nodes: Amounts
    first: bool
    with_first_fit: bool = True

    def points(self, among: Mask) -> Amounts:
        return np.where(among, self.of_nodes, 99)


@examples(80)
@given(
    nodes=st.lists(st.tuples(st.booleans(), FEW, FEW, FEW), min_size=1, max_size=8),
    ranked=st.booleans(),
    chosen=st.booleans(),
    preferred=st.sampled_from([None, True, False]),
)
def test_nodes_are_tried_by_rank_policy_and_preferences(
    nodes: list[tuple[bool, int, int, int]], ranked: bool, chosen: bool, preferred: bool | None
):
    among, ranks, keys, points = (np.array(column) for column in zip(*nodes, strict=True))
    wishes = None if preferred is None else Points(points, preferred)
    pod = PodRoom(0, np.zeros(len(nodes), dtype=np.int64), wishes)
    question = PolicyQuestion(ParsedClaims((), ()), snapshot(), pod)
    found = nodes_in_order(question, Keys(keys) if chosen else None, among, ranks if ranked else None)

    def sorted_by(at: int) -> tuple[int, ...]:
        rank, key = int(ranks[at]) * ranked, int(keys[at]) * chosen
        against = 0 if preferred is None else -int(points[at])
        return (rank, against, key, at) if preferred else (rank, key, against, at)

    expected = sorted(np.flatnonzero(among).tolist(), key=sorted_by)
    assert list(found) == [(int(ranks[at]) * ranked, at) for at in expected]
