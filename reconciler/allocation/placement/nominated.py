"""Room for pods that kube-scheduler has nominated to nodes. Source: FIT-10.

A pod must fit on a node with the nominated pods of equal or higher priority, and without them.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from kernels.types import Mask
from reconciler.allocation.placement.filters import tests_of
from reconciler.allocation.placement.pod_tests import Counters, Question, Test
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.demand import demand

RESERVED = Test(
    "NominatedPods",
    "kept for nominated pods",
    np.ones(0, dtype=np.bool_),
    "wait until the nominated pods run, or raise the priority of the pod",
    by_pods=True,
)
"""The test for which `beside_nominated` finds the nodes that fail"""


def beside_nominated(question: Question, nominated: Mapping[str, Sequence[Pod]]) -> Mask:
    """(N,) nodes that the pod cannot use together with the pods nominated to them."""
    found = ~question.nodes.every()
    for node, pods in nominated.items():
        row = question.nodes.row_of(node)
        if row is not None:
            found[row] = not _fits(question, row, pods)
    return found


def _fits(question: Question, row: int, pods: Sequence[Pod]) -> bool:
    with_them = replace(
        question, counters=Counters(question.nodes, question.counters.but), fellows=tuple(pods)
    )
    rules = [test.passed for test in tests_of(with_them) if not isinstance(test.passed, np.ndarray)]
    counters = with_them.counters
    counts = counters.with_pods(pods, row)
    return _has_room(question, row, pods) and all(rule.allows(counters.codes, counts)[row] for rule in rules)


def _has_room(question: Question, row: int, pods: Iterable[Pod]) -> bool:
    room = question.nodes.room
    left = room.free(question.waived, but=question.counters.but)[:, row].copy()
    for pod in pods:
        left -= room.vector(demand(pod))
    wanted = room.vector(demand(question.pod))
    return bool((left[wanted > 0] >= wanted[wanted > 0]).all())
