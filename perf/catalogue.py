"""All workloads, by name."""

from perf.workload import Workload
from perf.workloads import gpus, mig

WORKLOADS: dict[str, Workload] = {
    workload.name: workload for family in (mig, gpus) for workload in family.WORKLOADS
}
