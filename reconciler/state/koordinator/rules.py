"""The rules of a decision: semantics and configuration."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.api.koordinator.amounts import Shares
from reconciler.api.koordinator.names import GPU_MEMORY, GPU_MEMORY_RATIO, KOORD_FPGA, KOORD_RDMA, NPU_CORE


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
