"""Answers to Kueue, and requests for nodes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.declaration import Level, Line, Logged
from reconciler.control.decisions.fields import (
    Message,
    PodKey,
    texts,
)


@dataclass(frozen=True, slots=True)
class WorkloadChecked(Decision):
    """The admission check answered Kueue for a Workload."""

    LINES: ClassVar = (Line("workload checked", Level.INFO),)

    workload: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a Workload", write=str)]
    state: Annotated[str, Logged("`Ready`, `Pending` or `Retry`")]
    reason: Annotated[str, Logged("a word of docs/reasons.md; empty if it is ready")]
    message: Message


@dataclass(frozen=True, slots=True)
class NodesRequested(Decision):
    """A ProvisioningRequest was made for pods that no present node can serve."""

    LINES: ClassVar = (Line("nodes requested", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a ProvisioningRequest", write=str)]
    pod: PodKey
    """The first of the pods"""
    count: Annotated[int, Logged("pods that need new nodes", int)]
    shapes: Annotated[tuple[str, ...], Logged("nodes of which an empty one would serve them", list, texts)]


@dataclass(frozen=True, slots=True)
class NodesNotRequested(Decision):
    """A ProvisioningRequest of ours was removed."""

    LINES: ClassVar = (Line("nodes not requested any more", Level.INFO),)

    request: Annotated[ObjectKey, Logged("NAMESPACE/NAME of a ProvisioningRequest", write=str)]
    why: Annotated[str, Logged("why it is not needed")]
