"""PodDisruptionBudget, policy/v1: how many of some pods may be evicted now."""

from typing import Any, Literal

from pydantic import Field

from reconciler.api.objects.label_selector import LabelSelector
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Int, Map, Model, blank


class PodDisruptionBudgetSpec(Model):
    """Which pods of its namespace a budget covers."""

    selector: LabelSelector | None = None
    """None selects no pod; one without conditions selects all"""


class PodDisruptionBudgetStatus(Model):
    """What the disruption controller last counted."""

    disruptions_allowed: Int = 0
    disrupted_pods: Map[Any] = Field(default_factory=dict)
    """Pods whose eviction was granted and is counted already"""


class PodDisruptionBudget(ApiObject):
    """How many pods of a set may be evicted now. Without a status, none."""

    kind: Literal["PodDisruptionBudget"] = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = blank(PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = blank(PodDisruptionBudgetStatus)
