"""All workloads, by name."""

from perf.workload import Workload
from perf.workloads import (
    advice,
    alternatives,
    burst,
    cel,
    churn,
    defragment,
    exclusive,
    explain,
    failover,
    fit,
    gangs,
    gpus,
    growth,
    hard,
    impossible,
    kernel,
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
    kernel,
    mig,
    exclusive,
    gpus,
    gangs,
    fit,
    network,
    podfit,
    room,
    defragment,
    advice,
    alternatives,
    burst,
    churn,
    impossible,
    hard,
    koordinator,
    explain,
    growth,
    listing,
    cel,
    stream,
    live,
    rest,
    failover,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload for family in _FAMILIES for workload in family.WORKLOADS
}
"""In the order in which they are listed and run"""
