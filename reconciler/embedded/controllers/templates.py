"""Generate claims from templates (RCC-1) for every pod that needs one, also gated and unscheduled pods."""

from collections.abc import Iterable

from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import CLAIM, POD, POD_GROUP, TEMPLATE
from reconciler.api.validation.status import Refusal
from reconciler.embedded.controllers.groups import claim_of_group, group_name, group_of, is_of_group
from reconciler.embedded.controllers.reading import POD_CLAIM, is_deleting, is_finished, status
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change


class TemplateController:
    """Generates the claims of pods and writes their names to the pods' status."""

    subject = POD
    sources = (POD, TEMPLATE, POD_GROUP)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._waiting: dict[str, set[str]] = {}

    def keys(self, change: Change) -> Iterable[str]:
        """The pod itself, the pods that wait for a template, or those of a PodGroup."""
        if change.record.kind is POD:
            return [change.record.key]
        if change.record.kind is POD_GROUP:
            namespace, _, name = change.record.key.partition("/")
            return [
                record.key
                for record in self._api.store[POD].scan(f"{namespace}/")
                if group_name(record.object) == name
            ]
        return self._waiting.pop(change.record.key, ())

    def reconcile(self, key: str) -> None:
        """Generate the missing claims of a pod."""
        record = self._api.store[POD].get(key)
        if record is None or is_deleting(record.object) or is_finished(record.object):
            return
        pod = record.object
        group = group_of(self._api, pod)
        if group_name(pod) and group is None:
            return  # it says whose claims the entries of the pod are
        known = {entry["name"] for entry in status(pod).get("resourceClaimStatuses", ())}
        generated = []
        for wanted in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimTemplateName" in wanted and wanted["name"] not in known:
                if group is not None and is_of_group(wanted, group):
                    name = claim_of_group(self._api, group, wanted["name"])
                else:
                    name = self._generate(pod, key, wanted)
                if name:
                    generated.append({"name": wanted["name"], "resourceClaimName": name})
        if generated:
            self._write_status(pod, generated)

    def _generate(self, pod: Object, key: str, wanted: Object) -> str:
        namespace = pod["metadata"]["namespace"]
        template_key = f"{namespace}/{wanted['resourceClaimTemplateName']}"
        template = self._api.store[TEMPLATE].get(template_key)
        if template is None:
            self._waiting.setdefault(template_key, set()).add(key)
            return ""
        inner = template.object["spec"]
        metadata = inner.get("metadata", {})
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "blockOwnerDeletion": True}
        owner |= {key: pod["metadata"][key] for key in ("name", "uid")}
        claim = {
            "metadata": {
                "generateName": f"{pod['metadata']['name']}-{wanted['name']}-",
                "labels": metadata.get("labels", {}),
                "annotations": {**metadata.get("annotations", {}), POD_CLAIM: wanted["name"]},
                "ownerReferences": [owner],
            },
            "spec": inner["spec"],
        }
        try:
            return self._api.create(CLAIM, namespace, claim)["metadata"]["name"]
        except Refusal:
            # For example admin access without the namespace's label: retry when the template changes.
            self._waiting.setdefault(template_key, set()).add(key)
            return ""

    def _write_status(self, pod: Object, generated: list[Object]) -> None:
        metadata = pod["metadata"]

        def noted(shown: Object) -> Object:
            before = status(shown).get("resourceClaimStatuses", [])
            return {**shown, "status": {**status(shown), "resourceClaimStatuses": [*before, *generated]}}

        self._api.update(POD, metadata["namespace"], metadata["name"], noted, subresource="status")
