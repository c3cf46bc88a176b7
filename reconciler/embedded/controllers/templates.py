"""Generate claims from templates (RCC-1) for every pod that needs one, also gated and unscheduled pods."""

from collections.abc import Iterable

from reconciler.api.validation.served_kinds import POD, POD_GROUP, TEMPLATE
from reconciler.embedded.controllers.generating import ClaimGenerator
from reconciler.embedded.controllers.groups import claim_of_group, group_name, group_of, is_of_group
from reconciler.embedded.controllers.reading import is_deleting, is_finished, status
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change


class TemplateController:
    """Generates the claims of pods and writes their names to the pods' status."""

    subject = POD
    sources = (POD, TEMPLATE, POD_GROUP)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        reference = {"apiVersion": "v1", "kind": "Pod", "controller": True, "blockOwnerDeletion": True}
        self._claims = ClaimGenerator(api, POD, reference)

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
        return self._claims.woken_by(change.record.key)

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
                    name = self._claims.generate(pod, wanted)
                if name:
                    generated.append({"name": wanted["name"], "resourceClaimName": name})
        if generated:
            self._claims.write_names(pod, generated)
