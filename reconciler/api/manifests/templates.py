"""Creates claims from a template for a pod, as the control plane does."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects.core import Pod

ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"


def claim_from_template(pod: Pod, entry: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """The claim for one entry of a pod, named `<pod>-<entry>` without the random suffix of a server."""
    spec = template["spec"]
    given = spec.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": f"{pod.key.name}-{entry}",
        "namespace": pod.key.namespace,
        "annotations": {**(given.get("annotations") or {}), ENTRY_ANNOTATION: entry},
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    if pod.metadata.uid:  # an owner reference needs a uid
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.metadata.uid}
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec["spec"],
    }
