"""What a status code means for us: answers that are not a success become our errors."""

from typing import Any

from pydantic_core import from_json

from reconciler.cluster.transport import Response
from reconciler.errors import Conflict, Gone, ReconcilerError, Rejected, Relist, Retry, Undecided

LONGEST_WAIT = 300.0
"""Seconds. A server that asks for more gets a new request then; its clock may be wrong."""

READS = frozenset({"GET", "HEAD"})


def refusal(method: str, path: str, response: Response) -> ReconcilerError:
    """The error for an answer outside 200 to 299. The message holds the server's own.

    A server that failed (500, 502, 504) may have applied the write before; one that is too busy
    (429, 503) did not begin it. 409 covers an object that exists already as well: someone wrote
    first. 401 passes when credentials are refreshed.
    """
    status = _status(response)
    message = (
        f"{method} {path}: {response.status} {status.get('message') or status.get('reason') or ''}".rstrip()
    )
    after = _seconds(response, status)
    match response.status:
        case 404:
            return Gone(message)
        case 409:
            return Conflict(message)
        case 410:
            return Relist(message)
        case 401 | 408 | 429 | 503:
            return Retry(message, after=after)
        case code if code >= 500:
            return Retry(message, after=after) if method in READS else Undecided(message, after=after)
    return Rejected(message)


def _status(response: Response) -> dict[str, Any]:
    """The Status object; proxies and unknown paths answer with plain text."""
    try:
        status = from_json(response.body)
    except ValueError:
        status = None
    return (
        status
        if isinstance(status, dict)
        else {"message": response.body[:200].decode(errors="replace").strip()}
    )


def _seconds(response: Response, status: dict[str, Any]) -> float:
    """How long the server asks us to stay away. Dates, which it never sends, are ignored."""
    details = status.get("details")
    asked = response.headers.get("Retry-After", "")
    if not (asked.isascii() and asked.isdigit()):
        asked = str(details.get("retryAfterSeconds", "")) if isinstance(details, dict) else ""
    return min(float(asked), LONGEST_WAIT) if asked.isascii() and asked.isdigit() else 0.0
