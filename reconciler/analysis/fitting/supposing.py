"""Takes holders and nodes out of a trial, and finds the claims that sets name."""

from collections.abc import Container, Iterable, Mapping

from reconciler.analysis.fitting.question import FitQuestion, PodSet
from reconciler.analysis.whatif.losing import unallocated
from reconciler.api.objects.changes import Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of, is_live
from reconciler.api.objects.similar_names import instead, key_instead
from reconciler.errors import Malformed, Rejected
from reconciler.state.store import Store
from reconciler.state.trial import Trial


def suppose(question: FitQuestion, trial: Trial) -> dict[str, tuple[ResourceClaim, ...]]:
    """Remove what the question leaves out. Returns the existing claims of sets, by the names of the sets.

    Raises Rejected for a claim, a pod or a node that does not exist, and for a claim that holds nothing.
    """
    freed = _freed(question.without, trial.store)
    for claim in freed.values():
        trial.release(claim.metadata.uid)
    for key in question.without:
        if key in trial.store.pods:
            trial.remove(key)
    known = trial.store.snapshot().topology.nodes
    for name in sorted(question.without_nodes):
        if name not in known:
            raise Rejected(f"there is no node {name}{instead(name, list(known), 'nodes')}")
        gone = Removed("Node", ObjectKey("", name))
        trial.store.apply(gone)
        trial.nodes.note(gone)
    return {
        asked.name: tuple(_named(asked, key, freed, trial) for key in asked.named)
        for asked in question.sets
        if asked.named
    }


def _freed(without: frozenset[ObjectKey], store: Store) -> dict[ObjectKey, ResourceClaim]:
    """The claims that hold nothing without some claims and pods."""
    freed, gone = dict[ObjectKey, ResourceClaim](), dict[ObjectKey, Pod]()
    for key in sorted(without):
        claim, pod = store.claims.get(key), store.pods.get(key)
        if claim is None and pod is None:
            known = [*store.claims, *store.pods]
            raise Rejected(f"there is no claim and no pod {key}{key_instead(key, known, 'claims and pods')}")
        if claim is not None and claim.allocation is not None:
            freed[key] = claim
        elif pod is None:
            raise Rejected(f"claim {key} holds no devices, so leaving it out frees nothing")
        if pod is not None:
            gone[key] = pod
    return freed | {claim.key: claim for claim in _only_used_by(gone, store)}


def _only_used_by(gone: Mapping[ObjectKey, Pod], store: Store) -> Iterable[ResourceClaim]:
    """The allocated claims of pods that nobody else has reserved, and that no other pod names.

    A pod that names a claim may use it before the claim is reserved for it: it needs a place where the
    devices are.
    """
    named = {key for pod in gone.values() for key in claims_of(pod)}
    if not named:
        return
    for pod in store.pods.values():
        if pod.key not in gone and is_live(pod):
            named.difference_update(claims_of(pod))
    for claim in map(store.claims.get, sorted(named)):
        if claim is not None and claim.allocation is not None and _reserved_only_for(gone, claim):
            yield claim


def _reserved_only_for(pods: Container[ObjectKey], claim: ResourceClaim) -> bool:
    return all(
        user.resource == "pods" and ObjectKey(claim.key.namespace, user.name) in pods
        for user in claim.status.reserved_for
    )


def _named(
    asked: PodSet, key: ObjectKey, freed: dict[ObjectKey, ResourceClaim], trial: Trial
) -> ResourceClaim:
    claim = trial.store.claims.get(key)
    if claim is None:
        raise Malformed(f"pod set {asked.name}", "template.spec.resourceClaims", f"there is no claim {key}")
    return unallocated(claim) if key in freed else claim
