"""What a pod meets on nodes besides the nodes themselves: its volumes, and the pods that it must mind.

Two states are compared by it: a plan for the pod, made in the first, is worth nothing if it differs.
"""

from collections.abc import Iterable

from reconciler.allocation.placement.filters import affinity, anti_affinity, host_ports, topology_spread
from reconciler.allocation.placement.pod_tests import Counters, Question, passed
from reconciler.allocation.placement.volume_filters import volumes
from reconciler.api.objects.core import Pod
from reconciler.errors import Rejected
from reconciler.state.nodes.table import Nodes

HERE = (host_ports, volumes, anti_affinity)
"""Filters that look at what shares a domain with the pod"""
EVERYWHERE = (topology_spread, affinity)
"""Filters that look at all domains"""


def surroundings(pod: Pod, names: Iterable[str], nodes: Nodes) -> tuple[object, ...]:
    """Which tests some nodes pass, and the counts behind that. Equal states give equal values."""
    rows = [row for name in sorted(names) if (row := nodes.row_of(name)) is not None]
    found: list[object] = []
    for filters in (HERE, EVERYWHERE):
        counters = Counters(nodes, (pod.key,))
        try:
            for test in (test for find in filters for test in find(Question(pod, nodes, counters))):
                found += [test.reason, passed(test, counters)[rows].tolist()]
        except Rejected as exc:
            found.append(str(exc))
        for one in counters.made:
            counts = one.counts[one.codes[rows]] if filters is HERE else one.counts
            found.append(counts.tolist())
    return tuple(found)
