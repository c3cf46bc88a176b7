"""All workloads, by name."""

from perf.workload import Workload
from perf.workloads import (
    alternatives,
    cel,
    churn,
    exclusive,
    explain,
    failover,
    gpus,
    growth,
    impossible,
    kernel,
    koordinator,
    live,
    mig,
    network,
    podfit,
    stream,
)

_FAMILIES = (
    kernel,
    mig,
    exclusive,
    gpus,
    network,
    podfit,
    alternatives,
    churn,
    impossible,
    koordinator,
    explain,
    growth,
    cel,
    stream,
    live,
    failover,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload for family in _FAMILIES for workload in family.WORKLOADS
}
"""In the order in which they are listed and run"""
