"""Impersonation: a request that is judged as if another account had sent it.

Source: Kubernetes' filter for the headers `Impersonate-User` and `Impersonate-Group`. Of the verbs that can
grant it, only `impersonate` is known here.
"""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.api.validation.status import bad_request
from reconciler.embedded.access.accounts import (
    ANONYMOUS,
    AUTHENTICATED,
    Account,
    account,
    service_account_parts,
)
from reconciler.embedded.access.roles import AccessRequest
from reconciler.embedded.server.messages import Request

USER = "Impersonate-User"
GROUP = "Impersonate-Group"
_VERB = "impersonate"
_UNSERVED = ("impersonate-uid", "impersonate-extra-")


class Impersonation(Struct, frozen=True):
    """Whom a sender wants to be."""

    account: Account
    needed: tuple[AccessRequest, ...]
    """What the sender must be allowed: to impersonate the user, and each group that it names"""


def read(request: Request) -> Impersonation | None:
    """The impersonation that a request asks for; None if it asks for none.

    Raises a 400 for groups without a user, and for a uid and extra fields, which accounts do not have here.
    """
    for name in request.headers:
        if name.lower().startswith(_UNSERVED):
            raise bad_request(f"the header {name} is not served: accounts have a name and groups only")
    name, groups = request.headers.get(USER, ""), tuple(request.groups)
    if name:
        return Impersonation(_account(name, groups), (_for_user(name), *map(_for_group, groups)))
    if groups:
        raise bad_request(f"the request has {GROUP} and no {USER}: name the user to impersonate, too")
    return None


def _account(name: str, groups: Sequence[str]) -> Account:
    """Without groups, a service account is in those of service accounts."""
    if not groups:
        return ANONYMOUS if name == ANONYMOUS.name else account(name)
    if {AUTHENTICATED, *ANONYMOUS.groups} & {*groups}:
        return Account(name, frozenset(groups))
    added = ANONYMOUS.groups if name == ANONYMOUS.name else {AUTHENTICATED}
    return Account(name, frozenset({*groups, *added}))


def _for_user(name: str) -> AccessRequest:
    parts = service_account_parts(name)
    if parts is None:
        return AccessRequest(_VERB, "", "users", name=name)
    return AccessRequest(_VERB, "", "serviceaccounts", *parts)


def _for_group(name: str) -> AccessRequest:
    return AccessRequest(_VERB, "", "groups", name=name)
