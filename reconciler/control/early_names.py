"""Names the claims of gated pods as soon as they are made, before the pods do. Source: RCC-1.

kube-controller-manager makes a claim from a template, with a reference to its pod, and writes its name to the
status of the pod afterwards. For us the reference says enough: devices are decided and written meanwhile.
The gate stays until the pod itself names its claims, since kube-scheduler goes by the status.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced, versions
from reconciler.api.objects.claims import POD_CLAIM, ResourceClaim
from reconciler.api.objects.core import Pod, PodResourceClaimStatus, is_live
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.meta import ObjectKey


class _Made(NamedTuple):
    """What a claim was made for."""

    pod: ObjectKey
    uid: str
    """Of the pod"""
    entry: str
    """Of its `resourceClaims`"""


class EarlyNames:
    """Claims that were made for pods, and the pods that do not name them yet."""

    def __init__(self) -> None:
        self._made: dict[ObjectKey, _Made] = {}
        """Only claims that nobody has reserved: others are named"""
        self._claims: dict[str, dict[ObjectKey, str]] = {}
        """Uid of a pod -> its claims, each with its entry"""
        self._unnamed: dict[ObjectKey, Pod] = {}
        """Pods that got a name here, as the server has them"""

    def supposes(self, pod: ObjectKey) -> bool:
        """Whether a pod does not name all its claims itself."""
        return pod in self._unnamed

    def within(self, change: Change) -> Change:
        """A change of pods, with the names of claims that are made. Other changes as they are."""
        if change.kind != "Pod":
            return change
        match change:
            case Changed(object=Pod() as pod):
                named = self._named(pod)
                return change if named is pod else replace(change, object=named)
            case Replaced(objects=objects):
                self._unnamed.clear()
                pods = [self._named(pod) for pod in objects if isinstance(pod, Pod)]
                return replace(change, objects=tuple(pods))
            case Removed(key=key) | Refused(key=key):
                self._unnamed.pop(key, None)
        return change

    def note(self, change: Change, pods: Mapping[ObjectKey, Pod]) -> Iterator[Changed]:
        """Take note of a change of claims. Returns the pods to take in again, as the server has them."""
        if change.kind != "ResourceClaim" or isinstance(change, Refused):
            return iter(())
        found = versions(change, ResourceClaim, self._made)
        concerned = [self._drop(key) if claim is None else self._put(claim) for key, claim in found]
        return self._again(set().union(*concerned), pods)

    def _again(self, keys: Iterable[ObjectKey], pods: Mapping[ObjectKey, Pod]) -> Iterator[Changed]:
        for key in sorted(keys):
            pod = self._unnamed.get(key) or pods.get(key)
            if pod is not None and None in pod.claim_names().values():
                yield Changed("Pod", pod)

    def _put(self, claim: ResourceClaim) -> set[ObjectKey]:
        """Take note of a claim. Returns the pod whose names may have changed, if any."""
        made = _made_for(claim)
        if self._made.get(claim.key) == made:
            return set()
        concerned = self._drop(claim.key)
        if made is not None:
            self._made[claim.key] = made
            self._claims.setdefault(made.uid, {})[claim.key] = made.entry
            concerned.add(made.pod)
        return concerned

    def _drop(self, key: ObjectKey) -> set[ObjectKey]:
        made = self._made.pop(key, None)
        if made is None:
            return set()
        of_pod = self._claims[made.uid]
        del of_pod[key]
        if not of_pod:
            del self._claims[made.uid]
        return {made.pod}

    def _named(self, pod: Pod) -> Pod:
        """The pod with the names of claims that it does not name itself."""
        self._unnamed.pop(pod.key, None)
        made = self._claims.get(pod.metadata.uid)
        if not made or not pod.gated or not is_live(pod) or gang_of(pod) is not None:
            return pod
        entries = list(made.values())
        names = [
            PodResourceClaimStatus(name=entry, resource_claim_name=key.name)
            for key, entry in made.items()
            if entries.count(entry) == 1  # else the status will say which one counts
        ]
        unnamed = {entry for entry, name in pod.claim_names().items() if name is None}
        more = tuple(name for name in names if name.name in unnamed)
        if not more:
            return pod
        self._unnamed[pod.key] = pod
        statuses = (*pod.status.resource_claim_statuses, *more)
        return pod.replacing("status", resource_claim_statuses=statuses)


def _made_for(claim: ResourceClaim) -> _Made | None:
    """What a claim was made for, if its pod may not name it yet."""
    metadata = claim.metadata
    if not metadata.owner_references or claim.deleting or claim.status.reserved_for:
        return None
    entry = metadata.annotations.get(POD_CLAIM)
    owner = next((one for one in metadata.owner_references if one.controller), None)
    if entry is None or owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
        return None
    return _Made(ObjectKey(claim.key.namespace, owner.name), owner.uid, entry)
