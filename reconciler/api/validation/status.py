"""Refusals: the error Status bodies of a real API server, as exceptions."""

from collections.abc import Iterable
from typing import Any

from reconciler.api.validation.fields import Cause
from reconciler.errors import Rejected


class Refusal(Rejected):
    """An error response with a Status body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The Status object."""
        details = dict(self.details) if self.details is not None else None
        if self.retry_after:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details is not None else {}),
            "code": self.code,
        }


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    return {"name": name, **({"group": group} if group else {}), "kind": kind}


def _qualified(what: str, group: str) -> str:
    return f"{what}.{group}" if group else what


def not_found(plural: str, group: str, name: str) -> Refusal:
    """404: the object does not exist."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return Refusal(404, "NotFound", message, details=_details(name, group, plural))


def no_such_resource() -> Refusal:
    """404: a path below a served group and version that names no resource."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(plural: str, group: str, name: str) -> Refusal:
    """409: a create with a name in use."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=_details(name, group, plural))


def conflict(
    plural: str,
    group: str,
    name: str,
    why: str = "the object has been modified; please apply your changes to the latest version and try again",
) -> Refusal:
    """409: a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_details(name, group, plural))


def bad_request(message: str) -> Refusal:
    """400: the request is malformed."""
    return Refusal(400, "BadRequest", message)


def method_not_allowed() -> Refusal:
    """405: the path exists but does not support the method."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def not_implemented(message: str) -> Refusal:
    """501: real servers serve the path, this one does not."""
    return Refusal(501, "NotImplemented", message, details={})


def too_large(limit: int) -> Refusal:
    """413: the body exceeds the limit."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", details={})


def unsupported_media_type() -> Refusal:
    """415: an unsupported type of body or patch."""
    return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> Refusal:
    """422: one cause per violated rule."""
    causes = list(causes)
    text = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    if len(causes) > 1:
        text = f"[{text}]"
    details = _details(name, group, kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return Refusal(422, "Invalid", f'{_qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def patch_failed(why: str) -> Refusal:
    """422: a JSON patch does not apply to the object."""
    return Refusal(422, "Invalid", f"the patch does not apply: {why}", details={})


def expired(message: str) -> Refusal:
    """410: the requested history is compacted."""
    return Refusal(410, "Expired", message)


def version_too_large(requested: int, current: int) -> Refusal:
    """504: the requested version is newer than the store's."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return Refusal(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)


def too_many_requests() -> Refusal:
    """429: too many requests are in flight."""
    message = "too many requests are in flight, please try again later"
    return Refusal(429, "TooManyRequests", message, details={}, retry_after=1)
