"""Which charts, and which of those that wait, a query is about."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from kernels.types import Mask, Rows
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.query import Query, matches
from reconciler.operations.page.sources import Sources, Waiting
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_CLAIMS = 200
"""Claims that a filter may mean; with more it is to be made narrower"""
MOST_LOOKED_AT = 20_000
"""Names that are compared with a filter: to look at more would hold the loop"""
MOST_NODES = 32
"""Nodes of which it is looked up what they reach besides what is theirs"""


def charts_meant(query: Query, charts: Charts, world: Snapshot, sources: Sources) -> Rows:
    """(n,) positions of the charts that pass the filters."""
    mask = np.ones(len(charts.all), dtype=np.bool_)
    if query.driver:
        mask &= _of_pools(_drivers(query.driver, world), charts)
    if query.node:
        mask &= _of_pools(_nodes(query.node, world), charts)
    if query.claim:
        here = np.zeros(len(charts.all), dtype=np.bool_)
        for claim in claims_meant(query.claim, sources):
            for device in sources.devices_of(claim):
                here[list(charts.of_device(device, world.fleet))] = True
        mask &= here
    return np.flatnonzero(mask)


def claims_meant(wanted: str, sources: Sources) -> list[ObjectKey]:
    """The claims that a filter names: that one, or those whose names contain it."""
    namespace, slash, name = wanted.partition("/")
    if slash and sources.devices_of(exact := ObjectKey(namespace, name)):
        return [exact]
    found = (key for key in islice(sources.claims(), MOST_LOOKED_AT) if matches(wanted, str(key)))
    return list(islice(found, MOST_CLAIMS))


def waiting_meant(query: Query, sources: Sources) -> Iterator[Waiting]:
    """Who waits and passes the filter by claim; by pod as well, since that is what people know."""
    for one in islice(sources.waiting(), MOST_LOOKED_AT):
        if not query.claim or any(matches(query.claim, str(key)) for key in (one.key, *one.claims)):
            yield one


def _of_pools(pools: Mask, charts: Charts) -> Mask:
    return pools[charts.pool_of]


def _drivers(wanted: str, world: Snapshot) -> Mask:
    names = [pool.id.driver for pool in world.fleet.pools]
    return _named(wanted, names)


def named(wanted: str, names: list[str]) -> list[str]:
    """The names that a filter means: that one, or those that contain it."""
    return [wanted] if wanted in names else [name for name in names if matches(wanted, name)]


def _named(wanted: str, names: list[str]) -> Mask:
    meant = set(named(wanted, names))
    return np.array([name in meant for name in names], dtype=np.bool_)


def _nodes(wanted: str, world: Snapshot) -> Mask:
    """(pools,) what the nodes meant can use: pools of their own, and those that they share with others."""
    meant = {name for name in world.topology.order if name == wanted}
    meant = meant or {name for name in world.topology.order if matches(wanted, name)}
    pools = world.fleet.pools
    mask = np.zeros(len(pools), dtype=np.bool_)
    for at, pool in enumerate(pools):
        # A pool may name a node that is not there (any more).
        mask[at] = pool.nodes is not None and any(
            node in meant or (not meant and matches(wanted, node)) for node in pool.nodes
        )
    for name in sorted(meant)[:MOST_NODES]:
        try:
            seen = world.topology.view(name).pools
        except Rejected:  # a selector that cannot be read, of which the doctor tells
            continue
        mask[[world.fleet.index[pool.pool] for pool in seen]] = True
    return mask
