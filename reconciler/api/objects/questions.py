"""Questions as documents of our own: a FitRequest, and a Demand for capacity planning."""

from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.api.objects.gangs import MAX_TIERS
from reconciler.api.objects.model import Bool, Map, Model, Str, Tuple
from reconciler.api.objects.validating import Own, whole_number

UNLIKE_PODS = "fit "
"""No pod on a server has such a name"""
MAX_SETS = 500
MAX_PODS = 10_000
"""Pods of all sets"""
MAX_NAMES = 1_000
"""Holders and nodes that one request may leave out"""

Name = Annotated[Str, Field(min_length=1)]
Names = Annotated[Tuple[Name], Field(max_length=MAX_NAMES)]
Count = Annotated[int, whole_number(1, MAX_PODS)]


class AskedTier(Own):
    """What all pods of a set share."""

    key: Name
    """A label of nodes or an attribute"""
    required: Bool = True


class AskedTemplate(Own):
    """The pods of a set."""

    metadata: Map[Any] = Field(default_factory=dict)
    """Labels and annotations count"""
    spec: Any = None


class AskedSet(Own):
    """A number of equal pods."""

    name: Name
    namespace: Str = ""
    count: Count = 1
    min_count: Count = 1
    topology: Tuple[AskedTier] = Field(default=(), max_length=MAX_TIERS)
    """The tightest first"""
    template: AskedTemplate

    @property
    def pod(self) -> dict[str, Any]:
        """One of them, as a manifest."""
        given = self.template.metadata
        kept = {key: given[key] for key in ("labels", "annotations") if given.get(key) is not None}
        metadata = {**kept, "name": f"{UNLIKE_PODS}{self.name}", "namespace": self.namespace or "default"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.template.spec}


class FitRequest(Own):
    """The question as a document."""

    api_version: Literal["dra-reconciler.io/v1alpha1"]
    kind: Literal["FitRequest"]
    metadata: Any = None
    pod_sets: Tuple[AskedSet] = Field(min_length=1, max_length=MAX_SETS)
    without: Names = ()
    """Claims and pods, as NAMESPACE/NAME or NAME"""
    without_nodes: Names = ()


MAX_COPIES = 100_000
"""Most copies of one item"""


class AskedItem(Own):
    """A number of equal units: exactly one of `spec`, `pod`, `claim` and `template` is set."""

    name: Str | None = None
    """For the output"""
    count: Annotated[int, whole_number(0, MAX_COPIES)] = 1
    spec: Any = None
    """That of a claim"""
    pod: Str | None = None
    """`NAMESPACE/NAME` or `NAME` in the same manifests, as the next two"""
    claim: Str | None = None
    template: Str | None = None


class Demand(Model):
    """What is expected, as a document."""

    api_version: Literal["dra-reconciler.io/v1alpha1"]
    items: Tuple[AskedItem] = Field(min_length=1)
