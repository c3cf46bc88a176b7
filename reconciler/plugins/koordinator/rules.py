"""The rules of a decision: semantics, scores (KOO-18, KOO-19) and templates (KOO-15)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.plugins.koordinator.names import (
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    KOORD_FPGA,
    KOORD_RDMA,
    NPU_CORE,
)
from reconciler.plugins.koordinator.objects import Shares, plus


class Semantics(StrEnum):
    """Whose rules apply where Koordinator's proposals and its release differ."""

    PROPOSAL = "proposal"
    UPSTREAM = "upstream"


class Strategy(StrEnum):
    """Which of several suitable devices are preferred: those with the most or the least free shares."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


DEFAULT_WEIGHTS: Mapping[str, int] = dict.fromkeys((GPU_MEMORY_RATIO, GPU_MEMORY, KOORD_RDMA, KOORD_FPGA), 1)


class Scoring(Struct, frozen=True):
    """How devices are scored."""

    strategy: Strategy = Strategy.LEAST
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)


class Rules(Struct, frozen=True):
    """All inputs of a decision other than the pod and the machines."""

    semantics: Semantics = Semantics.PROPOSAL
    scoring: Scoring | None = Scoring()
    """None: all devices are equally good."""
    templates: Mapping[str, Mapping[str, Shares]] = field(default_factory=dict)
    """vendor-model -> template -> shares. Such a GPU can be divided only by a template."""
    template_resources: frozenset[str] = frozenset({NPU_CORE})
    """Requests for one of these must match a template."""
    unshared_models: frozenset[tuple[str, str]] = frozenset()
    """Vendor and model of GPUs that cannot be shared."""

    @property
    def upstream(self) -> bool:
        return self.semantics is Semantics.UPSTREAM


def matching_templates(
    each: Shares, templates: Mapping[str, Mapping[str, Shares]]
) -> dict[str, tuple[str, ...]]:
    """vendor-model -> names of the templates with exactly the requested shares."""
    found = {
        model: tuple(name for name, shares in of_model.items() if dict(shares) == dict(each))
        for model, of_model in templates.items()
    }
    return {model: names for model, names in found.items() if names}


FULL = 100


def device_score(scoring: Scoring | None, wanted: Shares, total: Shares, free: Shares) -> int:
    """0 to 100 by the utilization of the device with the request: the weighted mean over its resources."""
    if scoring is None:
        return 0
    weighed = weight_sum = 0
    for name, weight in scoring.weights.items():
        capacity = total.get(name, 0)
        if capacity <= 0:
            continue
        available = free.get(name, 0)
        would_use = capacity - available + wanted.get(name, 0) if available <= capacity else capacity
        weighed += weight * _part(scoring.strategy, would_use, capacity)
        weight_sum += weight
    return weighed // weight_sum if weight_sum else 0


def summed(amounts: Iterable[Shares]) -> dict[str, int]:
    """The sum of the shares of several devices."""
    total: dict[str, int] = {}
    for shares in amounts:
        total = plus(total, shares)
    return total


def _part(strategy: Strategy, used: int, capacity: int) -> int:
    if strategy is Strategy.MOST:
        return min(used, capacity) * FULL // capacity
    return 0 if used > capacity else (capacity - used) * FULL // capacity
