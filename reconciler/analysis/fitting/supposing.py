"""Takes holders and nodes out of a trial, and finds the claims that sets name."""

from collections.abc import Iterable

from reconciler.analysis.fitting.question import FitQuestion, PodSet
from reconciler.analysis.whatif.losing import unallocated
from reconciler.api.objects.changes import Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of
from reconciler.api.objects.similar_names import instead, key_instead
from reconciler.errors import Malformed, Rejected
from reconciler.state.trial import Trial


def suppose(question: FitQuestion, trial: Trial) -> dict[str, tuple[ResourceClaim, ...]]:
    """Remove what the question leaves out. Returns the existing claims of sets, by the names of the sets.

    Raises Rejected for a claim, a pod or a node that does not exist, and for a claim that holds nothing.
    """
    freed = {claim.key: claim for key in sorted(question.without) for claim in _freed(key, question, trial)}
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


def _freed(key: ObjectKey, question: FitQuestion, trial: Trial) -> Iterable[ResourceClaim]:
    """The claims that hold nothing without the claim or the pod of this name."""
    store = trial.store
    claim, pod = store.claims.get(key), store.pods.get(key)
    if claim is None and pod is None:
        known = [*store.claims, *store.pods]
        raise Rejected(f"there is no claim and no pod {key}{key_instead(key, known, 'claims and pods')}")
    if claim is not None and claim.allocation is not None:
        yield claim
    elif pod is None:
        raise Rejected(f"claim {key} holds no devices, so leaving it out frees nothing")
    if pod is not None:
        yield from (one for one in _claims(pod, trial) if _only_used_by(one, question.without))


def _claims(pod: Pod, trial: Trial) -> Iterable[ResourceClaim]:
    found = (trial.store.claims.get(key) for key in claims_of(pod))
    return [claim for claim in found if claim is not None and claim.allocation is not None]


def _only_used_by(claim: ResourceClaim, gone: frozenset[ObjectKey]) -> bool:
    """Whether nobody but pods that are gone has reserved a claim."""
    return all(
        user.resource == "pods" and ObjectKey(claim.key.namespace, user.name) in gone
        for user in claim.status.reserved_for
    )


def _named(
    asked: PodSet, key: ObjectKey, freed: dict[ObjectKey, ResourceClaim], trial: Trial
) -> ResourceClaim:
    claim = trial.store.claims.get(key)
    if claim is None:
        raise Malformed(f"pod set {asked.name}", "template.spec.resourceClaims", f"there is no claim {key}")
    return unallocated(claim) if key in freed else claim
