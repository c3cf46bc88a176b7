"""The claims of manifests and of their pods, as the control plane would have them on a server.

It makes claims from templates, and gives every object a uid. Manifests have none, or the one that they were
copied with.
"""

from typing import cast

from reconciler.api.manifests.bundle import Bundle, Entry
from reconciler.api.manifests.templates import claim_from_template
from reconciler.api.objects.claims import POD_CLAIM, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod, PodResourceClaimStatus, is_live
from reconciler.api.objects.gangs import PodGroup, group_claims
from reconciler.api.objects.meta import ObjectKey, OwnerReference
from reconciler.api.versions import reading


class Claims:
    """Every claim of a bundle, those included that are made for its live pods."""

    def __init__(self, bundle: Bundle) -> None:
        self.entries: dict[ObjectKey, Entry] = dict(bundle.entries.get(ResourceClaim.__name__, {}))
        """As the input spells them, or as they would be made from templates"""
        self.absent: dict[ObjectKey, str] = {}
        """Pod -> which claim that it names is not there"""
        self.unmade: dict[ObjectKey, str] = {}
        """Pod -> why a claim of it cannot be made"""
        self._templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
        self._owners: dict[ObjectKey, Pod] = {}
        self._groups = {group.key: group for group in bundle.of(PodGroup)}
        self._owning_groups: dict[ObjectKey, PodGroup] = {}
        self.pods = tuple(self._served(pod) if is_live(pod) else _with_uid(pod) for pod in bundle.of(Pod))
        """As a server would show them, with the names of the claims that were made for them"""

    def typed(self, key: ObjectKey) -> ResourceClaim:
        """A claim as a server would show it."""
        claim = cast("ResourceClaim", self.entries[key].object)
        metadata = claim.metadata.model_copy(update={"uid": str(key)})
        if (pod := self._owners.get(key)) is not None:
            owner = OwnerReference(kind="Pod", name=pod.key.name, uid=_uid(pod), controller=True)
            metadata = metadata.model_copy(update={"owner_references": (owner,)})
        elif (group := self._owning_groups.get(key)) is not None:
            owner = OwnerReference(
                api_version="scheduling.k8s.io/v1alpha2",
                kind="PodGroup",
                name=group.key.name,
                uid=f"group {group.key}",
                controller=True,
            )
            metadata = metadata.model_copy(update={"owner_references": (owner,)})
        return claim.model_copy(update={"metadata": metadata})

    def _served(self, pod: Pod) -> Pod:
        """A pod whose claims are made, as far as they can be."""
        templates = {entry.name: entry.resource_claim_template_name for entry in pod.spec.resource_claims}
        references = {entry.name: entry.resource_claim_name for entry in pod.spec.resource_claims}
        made = list(pod.status.resource_claim_statuses)
        for entry, name in pod.claim_names().items():
            group = self._group_of(pod, entry)
            maker = pod if group is None else group
            key = ObjectKey(pod.key.namespace, name or f"{maker.key.name}-{entry}")
            if name:
                if key not in self.entries:
                    self.absent.setdefault(pod.key, f"claim {key} is not among the objects read")
                    continue
            elif problem := self._make(maker, entry, key, templates[entry]):
                self.unmade.setdefault(pod.key, problem)
                continue
            if references[entry] is None:
                made.append(PodResourceClaimStatus(name=entry, resource_claim_name=key.name))
                if group is not None:
                    self._owning_groups[key] = group
                elif self._may_own(pod, key):
                    self._owners[key] = pod
        status = pod.status.model_copy(update={"resource_claim_statuses": tuple(made)})
        return _with_uid(pod).model_copy(update={"status": status})

    def _group_of(self, pod: Pod, entry: str) -> PodGroup | None:
        """The PodGroup that an entry of a pod is about, if it stands for one of the group's (GANG-5)."""
        named = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
        group = self._groups.get(ObjectKey(pod.key.namespace, named or ""))
        return group if group is not None and entry in group_claims(pod, group) else None

    def _make(self, maker: Pod | PodGroup, entry: str, key: ObjectKey, template: str | None) -> str:
        """Make a claim from a template unless it is there already. Returns what stands against it."""
        if template is None:
            return f"resourceClaims entry {entry!r} names neither a claim nor a template"
        known = self.entries.get(key)
        if known is not None:
            made = known.object.metadata.annotations.get(POD_CLAIM) == entry
            return (
                "" if made else f"the claim for entry {entry!r} would be {key}, which is another claim's name"
            )
        source = self._templates.get(ObjectKey(maker.key.namespace, template))
        if source is None:
            return f"template {maker.key.namespace}/{template} is not among the objects read"
        raw = claim_from_template(maker, entry, source.raw)
        self.entries[key] = Entry(source.origin, raw, reading.typed(raw), source.number)
        return ""

    def _may_own(self, pod: Pod, key: ObjectKey) -> bool:
        """Whether a claim was made for a pod, as far as uids tell; manifests may have lost them."""
        owners = {one.uid for one in self.entries[key].object.metadata.owner_references if one.controller}
        return not owners or not pod.metadata.uid or pod.metadata.uid in owners


def _uid(pod: Pod) -> str:
    return f"pod {pod.key}"


def _with_uid(pod: Pod) -> Pod:
    return pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"uid": _uid(pod)})})
