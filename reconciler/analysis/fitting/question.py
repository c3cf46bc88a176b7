"""How many pods of some sets fit together: the question, as a FitRequest and as values, and the answer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.api.manifests.bundle import Bundle, Entry, metadata_of_claim
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod, PodResourceClaimStatus, PodStatus
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.questions import MAX_PODS, AskedSet, FitRequest
from reconciler.api.objects.validating import validated
from reconciler.api.plugins import PLUGINS
from reconciler.api.validation.pods import with_label_keys
from reconciler.errors import Malformed, Rejected


class PodSet(Struct, frozen=True):
    """A number of equal pods."""

    name: str
    """Unique in its question"""
    count: int
    least: int
    """If fewer fit, none is placed"""
    pod: Pod
    """One of them; it names no node, and its name starts with `UNLIKE_PODS`"""
    claims: tuple[ResourceClaim, ...]
    """Made from templates for this pod, in its order; each pod has its own"""
    named: tuple[ObjectKey, ...] = ()
    """Existing claims that all pods of the set use"""
    tiers: tuple[Tier, ...] = ()
    """What all pods of the set share, the tightest first"""

    def pod_at(self, number: int) -> Pod:
        """One of the pods."""
        return self.pod.replacing("metadata", name=f"{self.pod.key.name} {number}")

    def claims_at(self, number: int) -> tuple[ResourceClaim, ...]:
        """Its own claims."""
        return tuple(
            claim.replacing("metadata", uid=self.uid_at(number, at)) for at, claim in enumerate(self.claims)
        )

    def uid_at(self, number: int, at: int) -> str:
        """The uid of one of its claims."""
        return f"fit {self.name} {number} {at}"


class FitQuestion(Struct, frozen=True):
    """Sets of pods, placed in this order; each keeps what it takes."""

    sets: tuple[PodSet, ...]
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold nothing, and pods that are assumed to be gone"""
    without_nodes: frozenset[str] = frozenset()
    """Nodes that are assumed to be gone, with their devices"""


class Seat(Struct, frozen=True):
    """A place for one pod."""

    node: str
    devices: tuple[DeviceID, ...]
    """For its own claims, in their order"""


class Short(Struct, frozen=True):
    """Why a set does not fit as a whole."""

    reason: str
    """An identifier of `reasons`"""
    message: str
    lacks: tuple[tuple[str, int], ...] = ()
    """What is short for the whole set in the best domain, with amounts"""


class SetFit(Struct, frozen=True):
    """One set of pods."""

    name: str
    count: int
    seats: tuple[Seat, ...]
    """At most `count`; none if fewer fit than the set needs at least"""
    domain: tuple[tuple[str, str], ...] = ()
    """The tiers that are met, each with the value that all seats share"""
    short: Short | None = None
    """None if all fit"""

    @property
    def fits(self) -> int:
        """How many pods fit."""
        return len(self.seats)


class Fit(Struct, frozen=True):
    """The whole answer. All seats are possible at the same time."""

    sets: tuple[SetFit, ...]

    @property
    def all_fit(self) -> bool:
        """Whether each set fits as a whole."""
        return all(one.short is None for one in self.sets)


def as_json(result: Fit) -> dict[str, Any]:
    """The whole answer."""
    return {"fits": result.all_fit, "podSets": [_set(one) for one in result.sets]}


def _set(one: SetFit) -> dict[str, Any]:
    nodes = Counter(seat.node for seat in one.seats)
    return {
        "name": one.name,
        "count": one.count,
        "fits": one.fits,
        "nodes": [{"node": node, "pods": pods} for node, pods in sorted(nodes.items())],
        "domain": dict(one.domain),
        "short": _short(one.short) if one.short is not None else None,
    }


def _short(short: Short) -> dict[str, Any]:
    return {
        "reason": str(short.reason),
        "message": short.message,
        "lacks": [{"what": what, "amount": amount} for what, amount in short.lacks],
    }


KIND = "FitRequest"


def question_in(found: Bundle) -> FitQuestion:
    """The question of the only FitRequest among manifests. Raises Rejected."""
    if found.refused:
        raise Rejected(str(found.refused[0].problem))
    requests = [one for one in found.others.values() if one.raw.get("kind") == KIND]
    if len(requests) != 1:
        raise Rejected(f"the input has {len(requests)} objects of kind {KIND}; give exactly one")
    (document,) = requests
    subject = f"{document.origin}: {KIND}"
    asked = validated(FitRequest, document.raw, subject)
    if (pods := sum(one.count for one in asked.pod_sets)) > MAX_PODS:
        raise Malformed(subject, "podSets", f"have {pods} pods; the maximum is {MAX_PODS}")
    templates = found.entries.get(ResourceClaimTemplate.__name__, {})
    sets: dict[str, PodSet] = {}
    for at, one in enumerate(asked.pod_sets):
        where = f"podSets[{at}]"
        if one.name in sets:
            raise Malformed(subject, f"{where}.name", f"{one.name} is the name of an earlier set, too")
        if one.min_count > one.count:
            raise Malformed(subject, f"{where}.minCount", f"must be a whole number from 1 to {one.count}")
        try:
            sets[one.name] = _pod_set(one, _pod(one.pod), templates)
        except Malformed as exc:
            raise Malformed(subject, f"{where}.template.{exc.field}", exc.reason) from exc
    without = frozenset(map(ObjectKey.parse, asked.without))
    return FitQuestion(tuple(sets.values()), without, frozenset(asked.without_nodes))


def _pod(raw: Mapping[str, Any]) -> Pod:
    """One pod of a set, read as any pod is. Raises Malformed."""
    pod = validated(Pod, with_label_keys(raw))
    if pod.spec.node_name:
        raise Malformed(KIND, "spec.nodeName", "must not be set")
    for plugin in PLUGINS:
        if name := plugin.own_resource(pod):
            why = f"requests {name}; {plugin.title} are not counted here, only those of claims"
            raise Malformed(KIND, "spec", why)
    return pod


def _pod_set(asked: AskedSet, pod: Pod, templates: Mapping[ObjectKey, Entry]) -> PodSet:
    """Raises Malformed for a template that is missing."""
    made: list[ResourceClaim] = []
    statuses: list[PodResourceClaimStatus] = []
    named: dict[ObjectKey, None] = {}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            named[ObjectKey(pod.key.namespace, entry.resource_claim_name)] = None
            continue
        key = ObjectKey(pod.key.namespace, entry.resource_claim_template_name or "")
        if key not in templates:
            why = f"ResourceClaimTemplate {key} is missing; add it to the same input"
            raise Malformed(asked.name, f"spec.resourceClaims[{entry.name}]", why)
        claim = _claim(pod, entry.name, templates[key])
        made.append(claim)
        statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.key.name))
    pod = pod.model_copy(update={"status": PodStatus(resource_claim_statuses=tuple(statuses))})
    tiers = tuple(Tier(one.key, one.required) for one in asked.topology)
    return PodSet(asked.name, asked.count, asked.min_count, pod, tuple(made), tuple(named), tiers)


def _claim(pod: Pod, entry: str, template: Entry) -> ResourceClaim:
    """The claim of a pod from a template, whose spec was read once already."""
    assert isinstance(template.object, ResourceClaimTemplate)
    metadata = metadata_of_claim(pod, entry, template.raw.get("spec") or {})
    return ResourceClaim.model_validate({"metadata": metadata, "spec": template.object.spec.spec})
