"""Judges requests before they are answered: whose token it is, and whether a role allows it."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.embedded.access.accounts import ANONYMOUS, AUTHENTICATED, Account
from reconciler.embedded.access.roles import Asked, Roles
from reconciler.embedded.builtin import CLAIM
from reconciler.embedded.encoding import same
from reconciler.embedded.fields import Cause
from reconciler.embedded.kinds import Object
from reconciler.embedded.messages import Request
from reconciler.embedded.routing import Target
from reconciler.embedded.status import Refusal, invalid

MASTERS = "system:masters"
"""The group that may do everything"""

_NAMED = re.compile(r"metadata\.name==?(?P<name>[^,]+)")
_FOR_ALL = ("/healthz", "/livez", "/readyz", "/version")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_BOUND = ("allocation", "reservedFor")
"""Fields of a claim's status that want `resourceclaims/binding`. Source: ST-8"""


class Guard:
    """Enforces tokens and roles."""

    def __init__(self, tokens: Mapping[str, Account], roles: Roles) -> None:
        self._tokens = dict(tokens)
        self._roles = roles

    def account(self, request: Request) -> Account:
        """Who sent the request. Raises 401 for a token that nobody has."""
        given = request.headers.get("Authorization", "")
        if not given:
            return ANONYMOUS
        scheme, _, token = given.partition(" ")
        found = self.holder(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        return found

    def holder(self, token: str) -> Account | None:
        """Whose token it is."""
        return self._tokens.get(token)

    def allows(self, account: Account, asked: Asked) -> bool:
        """Whether the account may do that."""
        return (
            MASTERS in account.groups
            or (asked.path in _FOR_ALL and asked.verb == "get")
            or (_is_discovery(asked) and AUTHENTICATED in account.groups)
            or self._roles.allows(account, asked)
        )

    def check_path(self, account: Account, request: Request) -> None:
        """Raises 403 for a path that names no resource and is not allowed."""
        asked = Asked(_VERBS.get(request.method, request.method.lower()), path=request.path.rstrip("/"))
        if not self.allows(account, asked):
            message = f'forbidden: User "{account.name}" cannot {asked.verb} path "{request.path}"'
            raise Refusal(403, "Forbidden", message, details={})

    def check(self, account: Account, request: Request, target: Target) -> None:
        """Raises 403 for an operation that is not allowed."""
        resource = target.kind.plural + (f"/{target.subresource}" if target.subresource else "")
        verb = _verb(request, target)
        asked = Asked(verb, target.served.group, resource, target.namespace, _name(request, target))
        if self.allows(account, asked):
            return
        qualified = f"{target.kind.plural}.{target.served.group}".rstrip(".")
        subject = f'{qualified} "{target.name}"' if target.name else qualified
        where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
        message = (
            f'{subject} is forbidden: User "{account.name}" cannot {verb} resource "{resource}" '
            f'in API group "{target.served.group}" {where}'
        )
        details = {
            **({"name": target.name} if target.name else {}),
            **({"group": target.served.group} if target.served.group else {}),
            "kind": target.kind.plural,
        }
        raise Refusal(403, "Forbidden", message, details=details)

    def binding(
        self, account: Account, request: Request, target: Target, change: Callable[[Object], Any]
    ) -> Callable[[Object], Any]:
        """`change`, refused with 422 where it changes an allocation that the account may not (ST-8)."""
        verb = _verb(request, target)
        asked = Asked(verb, CLAIM.group, "resourceclaims/binding")
        if target.kind is not CLAIM or target.subresource != "status" or self.allows(account, asked):
            return change

        def guarded(shown: Object) -> Any:
            new = change(shown)
            old, wanted = shown.get("status", {}), new.get("status", {}) if isinstance(new, dict) else {}
            causes = [
                Cause(
                    "FieldValueForbidden",
                    f"Forbidden: to change status.{key} wants the verb {verb} on resourceclaims/binding",
                    f"status.{key}",
                )
                for key in _BOUND
                if not same(old.get(key), wanted.get(key))
            ]
            if causes:
                raise invalid(CLAIM.kind, CLAIM.group, target.name, causes)
            return new

        return guarded


def _verb(request: Request, target: Target) -> str:
    if request.method == "GET":
        if request.query.get("watch", "").lower() in ("1", "true"):
            return "watch"
        return "get" if target.name else "list"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _name(request: Request, target: Target) -> str:
    """The one object that a request is about; a collection cut down to one name is about that one."""
    if target.name:
        return target.name
    wanted = request.query.get("fieldSelector", "").split(",")
    found = [_NAMED.fullmatch(part.strip()) for part in wanted]
    return next((match["name"] for match in found if match), "")


def _is_discovery(asked: Asked) -> bool:
    top = asked.path.strip("/").split("/")[0]
    return asked.verb == "get" and top in ("api", "apis", "openapi")
