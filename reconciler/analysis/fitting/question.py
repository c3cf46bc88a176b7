"""How many pods of some sets fit together: the question, as a FitRequest and as values, and the answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.analysis.world import claim_like, pod_like
from reconciler.api.manifests.bundle import Bundle, Entry, bundle, claim_from_template
from reconciler.api.manifests.documents import Document
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod, PodResourceClaimStatus
from reconciler.api.objects.gangs import MAX_TIERS, Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.similar_names import instead
from reconciler.api.plugins import PLUGINS
from reconciler.errors import Malformed, Rejected

UNLIKE_PODS = "fit "
"""No pod on a server has such a name"""


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


class FitQuestion(Struct, frozen=True):
    """Sets of pods, placed in this order; each keeps what it takes."""

    sets: tuple[PodSet, ...]
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold nothing, and pods that are assumed to be gone"""
    without_nodes: frozenset[str] = frozenset()
    """Nodes that are assumed to be gone, with their devices"""


def pod_of(asked: PodSet, number: int) -> Pod:
    """One of the pods."""
    return pod_like(asked.pod, f"{asked.pod.key.name} {number}")


def own_claims_of(asked: PodSet, number: int) -> tuple[ResourceClaim, ...]:
    """Its own claims."""
    return tuple(claim_like(claim, uid_of(asked, number, at)) for at, claim in enumerate(asked.claims))


def uid_of(asked: PodSet, number: int, at: int) -> str:
    """The uid of one of its claims."""
    return f"fit {asked.name} {number} {at}"


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
VERSION = "dra-reconciler.io/v1alpha1"
MAX_SETS = 500
MAX_PODS = 10_000
"""Pods of all sets"""
MAX_NAMES = 1_000
"""Holders and nodes that one request may leave out"""

_TOP = ("apiVersion", "kind", "metadata", "podSets", "without", "withoutNodes")
_SET = ("name", "namespace", "count", "minCount", "topology", "template")
_TOPOLOGY = ("key", "required")
_TEMPLATE = ("metadata", "spec")


def question_in(found: Bundle) -> FitQuestion:
    """The question of the only FitRequest among manifests. Raises Rejected."""
    if found.refused:
        raise Rejected(str(found.refused[0].problem))
    requests = [one for one in found.others.values() if one.raw.get("kind") == KIND]
    if len(requests) != 1:
        raise Rejected(f"the input has {len(requests)} objects of kind {KIND}; give exactly one")
    (document,) = requests
    reader = _Reader(f"{document.origin}: {KIND}", document)
    raw = reader.fields(document.raw, "", _TOP)
    if raw.get("apiVersion") != VERSION:
        raise reader.wrong("apiVersion", f"must be {VERSION}")
    sets = tuple(reader.sets(raw.get("podSets"), found.entries.get(ResourceClaimTemplate.__name__, {})))
    return FitQuestion(
        sets,
        frozenset(map(_key, reader.names(raw.get("without"), "without"))),
        frozenset(reader.names(raw.get("withoutNodes"), "withoutNodes")),
    )


def _key(name: str) -> ObjectKey:
    namespace, _, last = name.rpartition("/")
    return ObjectKey(namespace or "default", last)


def _claim(pod: Pod, entry: str, template: Entry) -> ResourceClaim:
    """The claim of a pod from a template, whose spec was read once already."""
    assert isinstance(template.object, ResourceClaimTemplate)
    metadata = claim_from_template(pod, entry, template.raw)["metadata"]
    made = ResourceClaim.model_validate({"metadata": metadata, "spec": {}})
    return made.model_copy(update={"spec": template.object.spec.spec})


class _Reader:
    """Reads one FitRequest. Its methods raise Malformed, which names the field."""

    def __init__(self, subject: str, document: Document) -> None:
        self._subject, self._document = subject, document

    def wrong(self, where: str, why: str) -> Malformed:
        """The error of a field."""
        return Malformed(self._subject, where, why)

    def fields(self, raw: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
        """An object with known fields."""
        if not isinstance(raw, Mapping):
            raise self.wrong(where, "must be an object")
        for name in raw:
            if name not in known:
                at = f"{where}.{name}" if where else str(name)
                raise self.wrong(at, f"is not known{instead(str(name), known, 'fields')}")
        return raw

    def names(self, raw: object, where: str) -> list[str]:
        """A list of names; empty if there is none."""
        found = [] if raw is None else raw
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            raise self.wrong(where, "must be a list of names")
        if len(found) > MAX_NAMES:
            raise self.wrong(where, f"has {len(found)} names; the maximum is {MAX_NAMES}")
        return found

    def sets(self, raw: object, templates: Mapping[ObjectKey, Entry]) -> Iterator[PodSet]:
        """The sets in their order."""
        if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_SETS:
            raise self.wrong("podSets", f"must be a list of 1 to {MAX_SETS} sets")
        asked = [self._set(one, f"podSets[{at}]") for at, one in enumerate(raw)]
        names = [one["name"] for one in asked]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise self.wrong(f"podSets[{at}].name", f"{name} is the name of an earlier set, too")
        if (pods := sum(one["count"] for one in asked)) > MAX_PODS:
            raise self.wrong("podSets", f"have {pods} pods; the maximum is {MAX_PODS}")
        for at, (one, pod) in enumerate(zip(asked, self._pods(asked), strict=True)):
            yield self._with_claims(one, pod, f"podSets[{at}]", templates)

    def _set(self, raw: object, where: str) -> dict[str, Any]:
        given = self.fields(raw, where, _SET)
        name, namespace = given.get("name"), given.get("namespace") or "default"
        if not isinstance(name, str) or not name:
            raise self.wrong(f"{where}.name", "must be a name")
        if not isinstance(namespace, str):
            raise self.wrong(f"{where}.namespace", "must be a name")
        count = self._number(given.get("count", 1), f"{where}.count", MAX_PODS)
        least = self._number(given.get("minCount", 1), f"{where}.minCount", count)
        template = self.fields(given.get("template"), f"{where}.template", _TEMPLATE)
        metadata = template.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise self.wrong(f"{where}.template.metadata", "must be an object")
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        return {
            "name": name,
            "count": count,
            "least": least,
            "tiers": tuple(self._tiers(given.get("topology"), f"{where}.topology")),
            "pod": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**kept, "name": f"{UNLIKE_PODS}{name}", "namespace": namespace},
                "spec": template.get("spec"),
            },
        }

    def _number(self, raw: object, where: str, most: int) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not 1 <= raw <= most:
            raise self.wrong(where, f"must be a whole number from 1 to {most}")
        return raw

    def _tiers(self, raw: object, where: str) -> Iterator[Tier]:
        found = [] if raw is None else raw
        if not isinstance(found, list) or len(found) > MAX_TIERS:
            raise self.wrong(where, f"must be a list of at most {MAX_TIERS} tiers")
        for at, one in enumerate(found):
            given = self.fields(one, f"{where}[{at}]", _TOPOLOGY)
            key, required = given.get("key"), given.get("required", True)
            if not isinstance(key, str) or not key:
                raise self.wrong(f"{where}[{at}].key", "must name a label of nodes or an attribute")
            if not isinstance(required, bool):
                raise self.wrong(f"{where}[{at}].required", "must be true or false")
            yield Tier(key, required)

    def _pods(self, asked: Sequence[Mapping[str, Any]]) -> tuple[Pod, ...]:
        """One pod of each set, read as any pod is."""
        found = [bundle([Document(self._document.origin, one["pod"])]) for one in asked]
        for at, one in enumerate(found):
            if one.refused:
                problem = one.refused[0].problem
                raise self.wrong(f"podSets[{at}].template.{problem.field}", problem.reason)
        pods = tuple(pod for one in found for pod in one.of(Pod))
        for at, pod in enumerate(pods):
            if pod.spec.node_name:
                raise self.wrong(f"podSets[{at}].template.spec.nodeName", "must not be set")
            for plugin in PLUGINS:
                if name := plugin.own_resource(pod):
                    why = f"requests {name}; {plugin.title} are not counted here, only those of claims"
                    raise self.wrong(f"podSets[{at}].template.spec", why)
        return pods

    def _with_claims(
        self, asked: Mapping[str, Any], pod: Pod, where: str, templates: Mapping[ObjectKey, Entry]
    ) -> PodSet:
        made: list[ResourceClaim] = []
        statuses: list[PodResourceClaimStatus] = []
        named: dict[ObjectKey, None] = {}
        for entry in pod.spec.resource_claims:
            at = f"{where}.template.spec.resourceClaims[{entry.name}]"
            if entry.resource_claim_name:
                named[ObjectKey(pod.key.namespace, entry.resource_claim_name)] = None
                continue
            key = ObjectKey(pod.key.namespace, entry.resource_claim_template_name or "")
            if key not in templates:
                raise self.wrong(at, f"ResourceClaimTemplate {key} is missing; add it to the same input")
            claim = _claim(pod, entry.name, templates[key])
            made.append(claim)
            statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.key.name))
        status = pod.status.model_copy(update={"resource_claim_statuses": tuple(statuses)})
        return PodSet(
            asked["name"],
            asked["count"],
            asked["least"],
            pod.model_copy(update={"status": status}),
            tuple(made),
            tuple(named),
            asked["tiers"],
        )
