"""Creates claims from a template for a pod, as the control plane does."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import PodGroup


def claim_from_template(maker: Pod | PodGroup, entry: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """The claim for one entry of a pod, named `<pod>-<entry>` without the random suffix of a server."""
    spec = template["spec"]
    given = spec.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": f"{maker.key.name}-{entry}",
        "namespace": maker.key.namespace,
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM: entry},
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    if maker.metadata.uid:  # an owner reference needs a uid
        api_version = "v1" if isinstance(maker, Pod) else "scheduling.k8s.io/v1alpha2"
        owner = {
            "apiVersion": api_version,
            "kind": maker.kind,
            "name": maker.key.name,
            "uid": maker.metadata.uid,
        }
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec["spec"],
    }
