"""The way of a gated pod to its node, phase by phase: who has it wait, and for how long."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perf.workload import Figure

PREFIX = "phase, "
"""How names of figures of phases start"""


class Phase(NamedTuple):
    """What lasts until one moment of a pod is seen, from the latest moment before."""

    until: str
    about: str
    ours: bool = False


PHASES = (
    Phase("shown", "API server: pod created, until a watch shows it"),
    Phase("named", "kube-controller-manager: claim made from its template and named by the pod"),
    Phase("begun", "ours: noticed, queued", ours=True),
    Phase("marked", "ours: decision and first write", ours=True),
    Phase("allocated", "ours: second write", ours=True),
    Phase("ungated", "ours: gate removed", ours=True),
    Phase("reserved", "kube-scheduler: node chosen, claim reserved"),
    Phase("bound", "kube-scheduler: pod bound"),
)
"""In their order. The first begins when the request that creates the pod is sent."""

Moments = Mapping[str, float]
"""When a pod got that far, in seconds: `sent`, then the `until` of each phase"""


def lengths(moments: Moments, phases: Sequence[Phase] = PHASES) -> list[float]:
    """Seconds of each phase. One that ends before the one before it, or was not seen, takes none."""
    at, found = moments["sent"], []
    for phase in phases:
        end = max(moments.get(phase.until, at), at)
        found.append(end - at)
        at = end
    return found


def shares(pods: Sequence[Moments]) -> list[float]:
    """Of each pod: our part of its time, 0 to 1."""
    ours = np.array([phase.ours for phase in PHASES])
    table = np.array([lengths(pod) for pod in pods])
    return list((table[:, ours].sum(axis=1) / table.sum(axis=1)).tolist())


def figures(pods: Sequence[Moments]) -> list[Figure]:
    """The median and the 99th percentile of every phase, in microseconds."""
    p50, p99 = np.percentile([lengths(pod) for pod in pods], [50, 99], axis=0) * 1e6
    return [
        Figure(f"{PREFIX}{phase.about} {name}", float(values[at]), "us", "less" if phase.ours else "")
        for at, phase in enumerate(PHASES)
        for name, values in (("p50", p50), ("p99", p99))
    ]
