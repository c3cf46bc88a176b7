"""Where a pod may run by the required affinity and anti-affinity of pods, its own and that of others."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from reconciler.api.objects.core import Pod, PodAffinity, PodAffinityTerm
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import NAMESPACE, NODE, POD
from reconciler.embedded.api import ApiServer
from reconciler.embedded.claim_controllers import is_finished
from reconciler.errors import Rejected

Domain = tuple[str, str]
"""A label of nodes and its value"""
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"
"""Why a pod may not run on a node, in the words of kube-scheduler"""


class Neighbourhood(NamedTuple):
    """The topology domains that bound pods leave to a pod."""

    forbidden: Mapping[Domain, str]
    """Domains that pods keep it away from, and why"""
    required: Collection[Collection[Domain] | str]
    """For each affinity term: the domains of the pods that it selects; or only the label that a node needs,
    for the first pod of pods that want to be together"""

    def refusal(self, node: Object) -> str:
        """Why the pod may not run on a node; empty if it may."""
        labels = node["metadata"].get("labels", {})
        for one in self.required:
            if isinstance(one, str) and one not in labels:
                return NOT_NEAR
            if not isinstance(one, str) and not any(labels.get(key) == value for key, value in one):
                return NOT_NEAR
        why = {reason for (key, value), reason in self.forbidden.items() if labels.get(key) == value}
        return NOT_APART if NOT_APART in why else "".join(why)


def has_anti_affinity(pod: Object) -> bool:
    """Whether a pod may keep others away from its node."""
    return "podAntiAffinity" in (pod["spec"].get("affinity") or {})


def neighbourhood(pod: Object, api: ApiServer, with_anti_affinity: Collection[str]) -> Neighbourhood:
    """The domains for a pod. `with_anti_affinity` are the keys of all pods that may keep others away.

    It costs a look at every pod if the pod has a term of its own.
    """
    affinity = (pod["spec"].get("affinity") or {}).keys() & {"podAffinity", "podAntiAffinity"}
    known = (api.store[POD].get(key) for key in with_anti_affinity)
    apart = [one.object for one in known if one is not None and _runs(one.object)]
    if not affinity and not apart:
        return Neighbourhood({}, ())
    others = [one.object for one in api.store[POD].scan("") if _runs(one.object)] if affinity else []
    mine = Pod.model_validate(pod)
    asked = mine.spec.affinity
    near, far = (asked.pod_affinity, asked.pod_anti_affinity) if asked is not None else (None, None)
    forbidden: dict[Domain, str] = {}
    for other in apart:
        model = Pod.model_validate(other)
        theirs = model.spec.affinity.pod_anti_affinity if model.spec.affinity is not None else None
        for term in _terms(theirs):
            if _selects(term, model, pod, api):
                forbidden |= dict.fromkeys(_places_of(term, [other], api), KEPT_AWAY)
    for term in _terms(far):
        forbidden |= dict.fromkeys(_places(term, mine, others, api), NOT_APART)
    required: list[Collection[Domain] | str] = []
    for term in _terms(near):
        found = set(_places(term, mine, others, api))
        required.append(term.topology_key if not found and _selects(term, mine, pod, api) else found)
    return Neighbourhood(forbidden, required)


def _runs(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not is_finished(pod)


def _terms(affinity: PodAffinity | None) -> Collection[PodAffinityTerm]:
    return () if affinity is None else affinity.required_during_scheduling_ignored_during_execution


def _places(term: PodAffinityTerm, of: Pod, others: list[Object], api: ApiServer) -> Iterator[Domain]:
    """The domains of the pods that a term selects."""
    return _places_of(term, [one for one in others if _selects(term, of, one, api)], api)


def _places_of(term: PodAffinityTerm, pods: list[Object], api: ApiServer) -> Iterator[Domain]:
    for pod in pods:
        node = api.store[NODE].get(pod["spec"]["nodeName"])
        labels = node.object["metadata"].get("labels", {}) if node is not None else {}
        if term.topology_key in labels:
            yield term.topology_key, labels[term.topology_key]


def _selects(term: PodAffinityTerm, of: Pod, pod: Object, api: ApiServer) -> bool:
    """Whether a term of the pod `of` selects a pod. One that cannot be read selects none."""
    if term.label_selector is None:
        return False
    metadata, namespaces = pod["metadata"], set(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = {of.key.namespace}
    try:
        if metadata["namespace"] not in namespaces:
            namespace = api.store[NAMESPACE].get(metadata["namespace"])
            labels = namespace.object["metadata"].get("labels", {}) if namespace is not None else {}
            if term.namespace_selector is None or not term.namespace_selector.parsed.matches(labels):
                return False
        return term.label_selector.parsed.matches(metadata.get("labels", {}))
    except Rejected:
        return False
