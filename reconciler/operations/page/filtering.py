"""Selects what matches the filters of a query."""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from kernels.types import Mask, Rows
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.pending import Group
from reconciler.operations.page.query import Query, matches
from reconciler.operations.page.sources import PendingUnit, Sources
from reconciler.state.devices.snapshot import Snapshot

MAX_CLAIMS = 200
"""Maximum claims of a filter; further matches are ignored"""
MAX_COMPARED = 20_000
"""Names that are compared with a filter; more would block the event loop"""
MAX_NODES = 32
"""Nodes whose shared pools are searched"""


def select_charts(query: Query, charts: Charts, snapshot: Snapshot, sources: Sources) -> Rows:
    """(n,) positions of the charts that match the filters."""
    mask = np.ones(len(charts.all), dtype=np.bool_)
    if query.driver:
        mask &= _of_pools(_drivers(query.driver, snapshot), charts)
    if query.node:
        mask &= _of_pools(_nodes(query.node, snapshot), charts)
    if query.claim:
        here = np.zeros(len(charts.all), dtype=np.bool_)
        for claim in select_claims(query.claim, sources):
            for device in sources.devices_of(claim):
                here[list(charts.of_device(device, snapshot.fleet))] = True
        mask &= here
    return np.flatnonzero(mask)


def select_claims(wanted: str, sources: Sources) -> list[ObjectKey]:
    """The claims of a filter: the one with this name, otherwise those whose names contain it."""
    namespace, slash, name = wanted.partition("/")
    if slash and sources.devices_of(exact := ObjectKey(namespace, name)):
        return [exact]
    found = (key for key in islice(sources.claims(), MAX_COMPARED) if matches(wanted, str(key)))
    return list(islice(found, MAX_CLAIMS))


def select_entries(wanted: str, groups: Iterable[Group]) -> set[tuple[str, ObjectKey]]:
    """Kind and key of the pending entries whose own name, or whose pod's name, matches the filter."""
    entries = islice((entry for group in groups for entry in group.entries), MAX_COMPARED)
    return {
        (entry.kind, entry.key)
        for entry in entries
        if matches(wanted, str(entry.key)) or matches(wanted, str(entry.unit.key))
    }


def select_pending(query: Query, sources: Sources) -> Iterator[PendingUnit]:
    """Pending claims and pods whose claim or pod name matches the filter."""
    for one in islice(sources.pending(), MAX_COMPARED):
        if not query.claim or any(matches(query.claim, str(key)) for key in (one.key, *one.claims)):
            yield one


def _of_pools(pools: Mask, charts: Charts) -> Mask:
    return pools[charts.pool_of]


def _drivers(wanted: str, snapshot: Snapshot) -> Mask:
    names = [pool.id.driver for pool in snapshot.fleet.pools]
    return _named(wanted, names)


def named(wanted: str, names: list[str]) -> list[str]:
    """The names of a filter: the equal one, otherwise those that contain it."""
    return [wanted] if wanted in names else [name for name in names if matches(wanted, name)]


def _named(wanted: str, names: list[str]) -> Mask:
    selected = set(named(wanted, names))
    return np.array([name in selected for name in names], dtype=np.bool_)


def _nodes(wanted: str, snapshot: Snapshot) -> Mask:
    """(pools,) pools that the selected nodes can use: local and shared ones."""
    selected = {name for name in snapshot.topology.order if name == wanted}
    selected = selected or {name for name in snapshot.topology.order if matches(wanted, name)}
    pools = snapshot.fleet.pools
    mask = np.zeros(len(pools), dtype=np.bool_)
    for at, pool in enumerate(pools):
        # A pool may name a node that does not exist.
        mask[at] = pool.nodes is not None and any(
            node in selected or (not selected and matches(wanted, node)) for node in pool.nodes
        )
    for name in sorted(selected)[:MAX_NODES]:
        try:
            visible = snapshot.topology.view(name).pools
        except Rejected:  # an invalid selector; the doctor reports it
            continue
        mask[[snapshot.fleet.index[pool.pool] for pool in visible]] = True
    return mask
