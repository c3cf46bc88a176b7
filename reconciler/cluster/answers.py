"""Converts responses that are not a success to our errors."""

import re
from typing import Any

from pydantic_core import from_json

from reconciler.cluster.transport import Response
from reconciler.errors import Conflict, Gone, Protected, ReconcilerError, Rejected, Relist, Retry, Undecided

LONGEST_WAIT = 300.0
"""Limit of Retry-After in seconds: the clock of the server may be wrong."""

READS = frozenset({"GET", "HEAD"})
_WITHOUT_RIGHT = re.compile(r': User "[^"]*" cannot ')
"""What an API server says of a user who lacks a right. Policies and webhooks use other words"""
BUDGET = "DisruptionBudget"
"""The cause that an API server gives if a budget does not allow an eviction"""


def refusal(method: str, path: str, response: Response) -> ReconcilerError:
    """The error for a response outside 200 to 299. Its message contains that of the server.

    A server that failed (500, 502, 504) may have applied the write; one that is too busy (429, 503) has
    not started it. 409 also means that an object exists already. 401 ends when credentials are refreshed.
    """
    status = _status(response)
    said = str(status.get("message") or status.get("reason") or "")
    remedy = _remedy(response.status, said)
    message = f"{method} {path}: {response.status} {said}".rstrip() + (f": {remedy}" if remedy else "")
    after = _seconds(response, status)
    match response.status:
        case 404:
            return Gone(message)
        case 409:
            return Conflict(message)
        case 410:
            return Relist(message)
        case 429 if any(isinstance(one, dict) and one.get("reason") == BUDGET for one in _causes(status)):
            return Protected(message, after=after)
        case 401 | 408 | 429 | 503:
            return Retry(message, after=after)
        case code if code >= 500:
            return Retry(message, after=after) if method in READS else Undecided(message, after=after)
    return Rejected(message)


def _remedy(code: int, said: str) -> str:
    """What helps against a refusal for lack of rights; empty for others, such as those of policies."""
    if code == 401:
        return "renew the credentials, or use others (kubectl auth whoami shows them)"
    if code == 403 and _WITHOUT_RIGHT.search(said):
        return "grant it this right, or use other credentials (kubectl auth can-i --list shows its rights)"
    return ""


def _status(response: Response) -> dict[str, Any]:
    """The Status object. Proxies and unknown paths respond with plain text."""
    try:
        status = from_json(response.body)
    except ValueError:
        status = None
    return (
        status
        if isinstance(status, dict)
        else {"message": response.body[:200].decode(errors="replace").strip()}
    )


def _causes(status: dict[str, Any]) -> list[Any]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return causes if isinstance(causes, list) else []


def _seconds(response: Response, status: dict[str, Any]) -> float:
    """The delay that the server requests. Dates are ignored: it never sends them."""
    details = status.get("details")
    delay = response.headers.get("Retry-After", "")
    if not (delay.isascii() and delay.isdigit()):
        delay = str(details.get("retryAfterSeconds", "")) if isinstance(details, dict) else ""
    return min(float(delay), LONGEST_WAIT) if delay.isascii() and delay.isdigit() else 0.0
