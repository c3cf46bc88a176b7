"""All workloads, by name."""

from perf.workload import Workload
from perf.workloads import (
    alternatives,
    burst,
    defragment,
    failover,
    fit,
    gangs,
    gpus,
    growth,
    hard,
    impossible,
    koordinator,
    listing,
    live,
    mig,
    network,
    podfit,
    rest,
    room,
    stream,
)

_FAMILIES = (
    mig,
    gpus,
    gangs,
    fit,
    network,
    podfit,
    room,
    defragment,
    alternatives,
    burst,
    impossible,
    hard,
    koordinator,
    growth,
    listing,
    stream,
    live,
    rest,
    failover,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload for family in _FAMILIES for workload in family.WORKLOADS
}
"""In the order in which they are listed and run"""
