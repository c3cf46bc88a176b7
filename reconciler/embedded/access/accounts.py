"""Accounts and their bearer tokens. Source: Kubernetes' static token file."""

import csv
import io
from collections.abc import Mapping

from msgspec import Struct

from reconciler.errors import Malformed

AUTHENTICATED = "system:authenticated"
_SERVICE_ACCOUNTS = "system:serviceaccounts"


class Account(Struct, frozen=True):
    """The sender of a request."""

    name: str
    groups: frozenset[str]


ANONYMOUS = Account("system:anonymous", frozenset({"system:unauthenticated"}))
"""The account of requests without a token"""


def account(name: str, *groups: str) -> Account:
    """An authenticated account; a service account is also in the groups of service accounts."""
    parts = service_account_parts(name)
    if parts is not None:
        groups = (*groups, _SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{parts[0]}")
    return Account(name, frozenset({AUTHENTICATED, *groups}))


def service_account_parts(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account whose account has this name; None for other accounts."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, own] if namespace and own:
            return namespace, own
    return None


def service_account(namespace: str, name: str) -> Account:
    """The account of a service account's pods."""
    return account(f"system:serviceaccount:{namespace}:{name}")


def read_tokens(text: str, *, source: str) -> Mapping[str, Account]:
    """Token -> account, from lines `token,user,uid[,"group,group"]`. Raises Malformed, never with a token."""
    found: dict[str, Account] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise Malformed(f"{source}:{number}", "", 'must be token,user,uid[,"group,group"]')
        groups = (part.strip() for part in (row[3] if len(row) > 3 else "").split(","))
        found[row[0].strip()] = account(row[1].strip(), *filter(None, groups))
    return found
