"""Turn a patch into a function from the current object to the changed object."""

from collections.abc import Callable
from typing import Any

from reconciler.api.validation.encoding import decode_json
from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.api.validation.status import Refusal, bad_request, unsupported_media_type
from reconciler.api.validation.strategic_merge import strategic_merge
from reconciler.embedded.server.patches import apply_json_patch, merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patcher(kind: ServedKind, media: str, patch: Any) -> Callable[[Object], Any]:
    """A function that applies a patch, given as bytes, or for server-side apply as a decoded object.

    Server-side apply does not track field ownership: fields that a later configuration omits stay.
    """
    if media == APPLY:
        return lambda shown: strategic_merge(shown, _object(patch), kind.strategic)
    if media not in (JSON_PATCH, MERGE_PATCH) and (media != STRATEGIC or kind.stored.is_custom):
        raise unsupported_media_type()
    wanted = decode_json(patch)
    if media == JSON_PATCH:
        return lambda shown: apply_json_patch(shown, wanted)
    if media == MERGE_PATCH:
        return lambda shown: merge(shown, _object(wanted))
    return lambda shown: strategic_merge(shown, _object(wanted), kind.strategic)


def bind(binding: Any) -> Callable[[Object], Object]:
    """A function that applies a Binding to a pod: it sets the node, once."""
    target = _object(binding).get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(node, str) or not node:
        raise bad_request("a Binding must name its target")

    def bound(pod: Object) -> Object:
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName"):
            why = f"pod {name} is already assigned to node {pod['spec']['nodeName']!r}"
            raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}')
        if pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
            raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}')
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    return bound


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bad_request("expected an object")
    return value
