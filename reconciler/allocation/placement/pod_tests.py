"""The tests that a node must pass for a pod, and the counters of pods that they read.

One pod is tested on all nodes at once. Several pods share the counters, so that they can be placed together.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

import numpy as np
from msgspec import Struct, field

from kernels.domains import Counter, Rule
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import NodeSelector
from reconciler.state.nodes.table import Nodes


class Test(Struct, frozen=True, eq=False):
    """One test of all nodes."""

    plugin: str
    """The filter of kube-scheduler that makes the same test"""
    reason: str
    """Says of nodes that fail what they are like: `with untolerated taint`"""
    passed: Mask | Rule
    """(N,) nodes that pass by row, or a rule over counters"""
    remedy: str = ""
    """What helps; empty if the reason says it"""
    by_pods: bool = False
    """Whether other pods decide it"""
    resource: str = ""
    """The resource of which nodes that fail have too little, if it is one"""


class Counters(Struct):
    """Counters of pods by domain, each made once. `but` are pods that do not count."""

    nodes: Nodes
    but: Collection[ObjectKey]
    made: list[Counter] = field(default_factory=list)
    _takes: list[Callable[[Pod], bool]] = field(default_factory=list)
    _places: dict[Hashable, int] = field(default_factory=dict)

    def get(self, key: Hashable, make: Callable[[], Counter], takes: Callable[[Pod], bool]) -> int:
        """The position of a counter. `takes` says whether a pod that is put on a node counts."""
        at = self._places.get(key)
        if at is None:
            at = self._places[key] = len(self.made)
            self.made.append(make())
            self._takes.append(takes)
        return at

    def adds(self, pod: Pod) -> tuple[int, ...]:
        """The counters in which a pod counts."""
        return tuple(at for at, takes in enumerate(self._takes) if takes(pod))

    @property
    def codes(self) -> list[Codes]:
        """The domains of the nodes, counter by counter."""
        return [one.codes for one in self.made]

    @property
    def counts(self) -> list[Amounts]:
        """The counts of the domains, counter by counter. Callers must not change them."""
        return [one.counts for one in self.made]

    def with_pods(self, pods: Iterable[Pod], row: int) -> list[Amounts]:
        """The counts as if these pods were on a node, too."""
        counts = [one.counts.copy() for one in self.made]
        for pod in pods:
            for at in self.adds(pod):
                if self.made[at].counts_at(row):
                    counts[at][self.made[at].codes[row]] += 1
        return counts


class Question(Struct, frozen=True, eq=False):
    """A pod to be placed."""

    pod: Pod
    nodes: Nodes
    counters: Counters
    held: Sequence[NodeSelector] = ()
    """Node selectors of its allocated claims"""
    waived: frozenset[str] = frozenset()
    """Resources that a node need not offer"""
    supposed: bool = True
    """Whether nodes without a Node object may be used"""
    by_resource: bool = False
    """Whether room is one test for each resource, to say which is short. One for all is faster"""
    fellows: Collection[Pod] = ()
    """Pods that may be placed before it: what they require counts, too"""
    partners: Collection[ObjectKey] = ()
    """Pods that are placed together with it: a volume that it uses with them need not be where they are"""


def passed(test: Test, counters: Counters) -> Mask:
    """(N,) the nodes that pass a test."""
    if isinstance(test.passed, np.ndarray):
        return test.passed
    return test.passed.allows(counters.codes, counters.counts)
