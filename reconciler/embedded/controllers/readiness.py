"""Report nodes as ready, in place of their kubelets."""

from collections.abc import Iterable

from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import NODE
from reconciler.api.validation.timestamps import timestamp
from reconciler.embedded.controllers.reading import status
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change


class NodeController:
    """Adds the condition Ready to nodes that report none. A reported condition is left alone."""

    subject = NODE
    sources = (NODE,)

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def keys(self, change: Change) -> Iterable[str]:
        """The node itself."""
        return [change.record.key]

    def reconcile(self, key: str) -> None:
        """Add the condition if it is missing."""
        record = self._api.store[NODE].get(key)
        if record is None or _reports(record.object):
            return
        moment = timestamp(self._api.now())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "NoKubelet",
            "message": "the embedded API server has no kubelets; it reports its nodes as ready",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }

        def reported(shown: Object) -> Object:
            before = status(shown).get("conditions") or []
            return {**shown, "status": {**status(shown), "conditions": [*before, ready]}}

        self._api.update(NODE, "", key, reported, subresource="status")


def _reports(node: Object) -> bool:
    conditions = status(node).get("conditions") or ()
    return any(condition and condition.get("type") == "Ready" for condition in conditions)
