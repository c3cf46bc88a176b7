"""Impersonation: the account that a kubeconfig says to act as. Source: client-go, `ImpersonationConfig`."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from reconciler.errors import Rejected

USER = "Impersonate-User"
_PLAIN = re.compile(r"[\x21-\x7e][\x20-\x7e]*").fullmatch
_TOKEN = "!#$&'*+-.^_`|~"
"""What the name of a header may have besides letters and digits; `%` escapes the rest"""


def headers(user: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    """Headers by which the server judges requests as those of `as`; empty if an entry of `users` has none.

    The server decides whether the user may do so. Raises Rejected for values that no header can carry, and
    for groups, a uid or extra fields without `as`: requests would be sent with the user's own rights.
    """
    found = list(_named(user, values))
    if found and found[0][0] != USER:
        raise _unusable(user, "as is not set, although other fields say whom to act as")
    return found


def _named(user: str, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field, header in (("as", USER), ("as-uid", "Impersonate-Uid")):
        if values.get(field):
            yield header, _text(user, field, values[field])
    for group in _texts(user, "as-groups", values.get("as-groups")):
        yield "Impersonate-Group", group
    extra = values.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise _unusable(user, "as-user-extra is not a map")
    for key, given in extra.items():
        for one in _texts(user, f"as-user-extra.{key}", given):
            yield f"Impersonate-Extra-{quote(str(key), safe=_TOKEN)}", one


def _texts(user: str, field: str, given: Any) -> list[str]:
    if not isinstance(given or [], list):
        raise _unusable(user, f"{field} is not a list")
    return [_text(user, field, one) for one in given or []]


def _text(user: str, field: str, given: Any) -> str:
    if not isinstance(given, str):
        raise _unusable(user, f"{field} is not text")
    if not _PLAIN(given):
        raise _unusable(user, f"{field}: {given!r} is empty or not printable ASCII")
    return given


def _unusable(user: str, why: str) -> Rejected:
    return Rejected(
        f"cannot reach a cluster: user {user} of the kubeconfig: {why}; fix it, or use another user"
    )
