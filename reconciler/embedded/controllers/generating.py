"""Generates the claims of pods and PodGroups from templates (RCC-1, GANG-24)."""

from collections.abc import Iterable, Sequence

from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.api.validation.served_kinds import CLAIM, TEMPLATE
from reconciler.api.validation.status import Refusal
from reconciler.embedded.controllers.reading import status
from reconciler.embedded.server.api import ApiServer


class ClaimGenerator:
    """Generates the claims of one kind of owners. Remembers those that wait for a template."""

    def __init__(self, api: ApiServer, owners: ServedKind, reference: Object) -> None:
        """`reference` is the reference to an owner, without name and uid."""
        self._api = api
        self._owners = owners
        self._reference = reference
        self._waiting: dict[str, set[str]] = {}

    def woken_by(self, template: str) -> Iterable[str]:
        """The keys of the owners that wait for a template."""
        return self._waiting.pop(template, ())

    def generate(self, owner: Object, wanted: Object) -> str:
        """Create the claim for an entry of an owner; its name, or empty if it cannot be created now."""
        metadata = owner["metadata"]
        namespace = metadata["namespace"]
        template_key = f"{namespace}/{wanted['resourceClaimTemplateName']}"
        template = self._api.store[TEMPLATE].get(template_key)
        if template is not None:
            inner = template.object["spec"]
            given = inner.get("metadata", {})
            claim = {
                "metadata": {
                    "generateName": f"{metadata['name']}-{wanted['name']}-",
                    "labels": given.get("labels", {}),
                    "annotations": {**given.get("annotations", {}), POD_CLAIM: wanted["name"]},
                    "ownerReferences": [
                        {**self._reference, "name": metadata["name"], "uid": metadata["uid"]}
                    ],
                },
                "spec": inner["spec"],
            }
            try:
                return str(self._api.create(CLAIM, namespace, claim)["metadata"]["name"])
            except Refusal:
                pass  # admin access without the namespace's label, for example: waits for another template
        self._waiting.setdefault(template_key, set()).add(f"{namespace}/{metadata['name']}")
        return ""

    def write_names(self, owner: Object, generated: Sequence[Object]) -> None:
        """Add the names of claims to the status of their owner."""

        def written(shown: Object) -> Object:
            before = status(shown)
            entries = [*before.get("resourceClaimStatuses", ()), *generated]
            return {**shown, "status": {**before, "resourceClaimStatuses": entries}}

        metadata = owner["metadata"]
        self._api.update(self._owners, metadata["namespace"], metadata["name"], written, subresource="status")
