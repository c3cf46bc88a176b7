"""The options of writes, in the query and in the body of a DELETE: what is known, and what is refused."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.validation.bodies import bad_request, invalid
from reconciler.api.validation.fields import Cause
from reconciler.api.validation.kinds import Object

_VALIDATION = ("Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan")
_MAX_MANAGER = 128
_NAMES = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_UNSUPPORTED, _INVALID = "FieldValueNotSupported", "FieldValueInvalid"


def check_options(method: str, query: Mapping[str, str], *, applies: bool) -> None:
    """Raise a 422 for options of a write that an API server refuses. `applies`: server-side apply."""
    causes = []
    if query.get("dryRun", "") not in ("", "All"):
        causes.append(_unsupported("dryRun", query["dryRun"], ("All",)))
    if method != "DELETE":
        if query.get("fieldValidation", "") not in ("", *_VALIDATION):
            causes.append(_unsupported("fieldValidation", query["fieldValidation"], ("", *_VALIDATION)))
        manager = query.get("fieldManager", "")
        if len(manager) > _MAX_MANAGER:
            causes.append(
                Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager")
            )
        if not manager.isprintable():
            causes.append(
                Cause(_INVALID, "Invalid value: should only contain printable characters", "fieldManager")
            )
        if applies and not manager:
            causes.append(
                Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
            )
        if method == "PATCH" and not applies and "force" in query:
            causes.append(
                Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force")
            )
    if causes:
        raise invalid(_NAMES[method], "meta.k8s.io", "", causes)


def delete_options(body: Any, query: Mapping[str, str]) -> Object:
    """The options of a DELETE, from its body or else its query. Raises a 400 or 422."""
    if not isinstance(body, dict):
        raise bad_request("the body of a DELETE request must be DeleteOptions")
    options: Object = dict(body)
    if not body:
        for key in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
            if key in query:
                options[key] = query[key]
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    causes = []
    if policy is not None and orphans is not None:
        both = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        causes.append(Cause(_INVALID, both, "propagationPolicy"))
    elif policy is not None and policy not in _POLICIES:
        causes.append(_unsupported("propagationPolicy", str(policy), _POLICIES))
    if causes:
        raise invalid(_NAMES["DELETE"], "meta.k8s.io", "", causes)
    if orphans is not None:
        options["propagationPolicy"] = "Orphan" if orphans in (True, "true", "1") else "Background"
    grace = options.get("gracePeriodSeconds")
    if grace is not None:
        try:
            options["gracePeriodSeconds"] = int(grace)
        except (TypeError, ValueError) as exc:
            raise bad_request(f"gracePeriodSeconds: {grace!r} is not a whole number") from exc
    return options


def _unsupported(field: str, value: str, allowed: tuple[str, ...]) -> Cause:
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause(_UNSUPPORTED, f'Unsupported value: "{value}": supported values: {words}', field)
