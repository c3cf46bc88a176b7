"""Authenticate and authorize requests, and answer reviews: questions about tokens and permissions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.api.validation.bodies import Refusal, bad_request, encode, invalid, method_not_allowed, same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.api.validation.served_kinds import CLAIM
from reconciler.embedded import accounts
from reconciler.embedded.accounts import account
from reconciler.embedded.bodies import decode_body
from reconciler.embedded.routing import Request, Response, Target

AS_USER = "Impersonate-User"
AS_GROUP = "Impersonate-Group"
_IMPERSONATE = "impersonate"
_UNSERVED = ("impersonate-uid", "impersonate-extra-")


def _impersonation(
    request: Request, sender: accounts.Account
) -> tuple[accounts.Account, tuple[accounts.AccessRequest, ...]]:
    """Whom a request is sent as, and what its sender needs for that: each impersonation of a user or group.

    Raises a 400 for groups without a user, and for a uid and extra fields, which accounts do not have here.
    """
    for name in request.headers:
        if name.lower().startswith(_UNSERVED):
            raise bad_request(f"the header {name} is not served: accounts have a name and groups only")
    name, groups = request.headers.get(AS_USER, ""), tuple(request.groups)
    if name:
        return _impersonated(name, groups), (_for_user(name), *map(_for_group, groups))
    if groups:
        raise bad_request(f"the request has {AS_GROUP} and no {AS_USER}: name the user to impersonate, too")
    return sender, ()


def _impersonated(name: str, groups: Sequence[str]) -> accounts.Account:
    """Without groups, a service account is in those of service accounts."""
    if not groups:
        return accounts.ANONYMOUS if name == accounts.ANONYMOUS.name else account(name)
    if {accounts.AUTHENTICATED, *accounts.ANONYMOUS.groups} & {*groups}:
        return accounts.Account(name, frozenset(groups))
    added = accounts.ANONYMOUS.groups if name == accounts.ANONYMOUS.name else {accounts.AUTHENTICATED}
    return accounts.Account(name, frozenset({*groups, *added}))


def _for_user(name: str) -> accounts.AccessRequest:
    parts = accounts.service_account_parts(name)
    if parts is None:
        return accounts.AccessRequest(_IMPERSONATE, "", "users", name=name)
    return accounts.AccessRequest(_IMPERSONATE, "", "serviceaccounts", *parts)


def _for_group(name: str) -> accounts.AccessRequest:
    return accounts.AccessRequest(_IMPERSONATE, "", "groups", name=name)


MASTERS = "system:masters"
"""The group that is allowed everything"""

UNSECURED = account("system:unsecured", MASTERS)
"""The sender of every request to a server without tokens"""
EVERYTHING: list[Object] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
"""The rules of an account that is allowed everything"""

_NAMED = re.compile(r"metadata\.name==?(?P<name>[^,]+)")
_FOR_ALL = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_BOUND = ("allocation", "reservedFor")
"""Fields of a claim's status that require `resourceclaims/binding`. Source: ST-8"""


class Guard:
    """Enforces tokens and roles."""

    def __init__(self, tokens: Mapping[str, accounts.Account], roles: accounts.Roles) -> None:
        self._tokens = dict(tokens)
        self.roles = roles

    def account(self, request: Request) -> accounts.Account:
        """The account that a request is judged by: its sender, or the account that the sender impersonates.

        Raises a 401 for an unknown token, a 403 if the sender may not impersonate that account.
        """
        sender = self._sender(request)
        account, needed = _impersonation(request, sender)
        for access in needed:
            if not self.allows(sender, access):
                raise _forbidden(sender, access, access.name)
        return account

    def _sender(self, request: Request) -> accounts.Account:
        given = request.headers.get("Authorization", "")
        if not given:
            return accounts.ANONYMOUS
        scheme, _, token = given.partition(" ")
        found = self.account_of(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        return found

    def account_of(self, token: str) -> accounts.Account | None:
        """The account of a token."""
        return self._tokens.get(token)

    def allows(self, account: accounts.Account, access: accounts.AccessRequest) -> bool:
        """Whether an account may make a request that it sent."""
        return self.would_allow(account, access)

    def would_allow(self, account: accounts.Account, access: accounts.AccessRequest) -> bool:
        """Whether the account is allowed the access, asked by a review: nobody needs a right for asking."""
        return (
            MASTERS in account.groups
            or (access.path in _FOR_ALL and access.verb == "get")
            or (_is_discovery(access) and accounts.AUTHENTICATED in account.groups)
            or self.roles.allows(account, access)
        )

    def rules(self, account: accounts.Account, namespace: str) -> list[Object]:
        """What the account may do in a namespace, as in a SelfSubjectRulesReview."""
        if MASTERS in account.groups:
            return EVERYTHING
        paths = [*_FOR_ALL, *(_DISCOVERY if accounts.AUTHENTICATED in account.groups else ())]
        public = {"verbs": ["get"], "nonResourceURLs": paths}
        return [public, *self.roles.rules(account, namespace)]

    def check_path(self, account: accounts.Account, request: Request) -> None:
        """Check a path that names no resource. Raises a 403."""
        access = accounts.AccessRequest(
            _VERBS.get(request.method, request.method.lower()), path=request.path.rstrip("/")
        )
        if not self.allows(account, access):
            message = f'forbidden: User "{account.name}" cannot {access.verb} path "{request.path}"'
            raise Refusal(403, "Forbidden", message, details={})

    def check(self, account: accounts.Account, request: Request, target: Target) -> None:
        """Check an operation on a resource. Raises a 403."""
        resource = target.kind.plural + (f"/{target.subresource}" if target.subresource else "")
        verb = _verb(request, target)
        access = accounts.AccessRequest(
            verb, target.served.group, resource, target.namespace, _name(request, target)
        )
        if not self.allows(account, access):
            raise _forbidden(account, access, target.name)

    def protect_allocation(
        self, account: accounts.Account, request: Request, target: Target, change: Callable[[Object], Any]
    ) -> Callable[[Object], Any]:
        """`change`, refused with a 422 if it changes an allocation without permission (ST-8)."""
        verb = _verb(request, target)
        access = accounts.AccessRequest(verb, CLAIM.group, "resourceclaims/binding")
        if target.kind is not CLAIM or target.subresource != "status" or self.allows(account, access):
            return change

        def guarded(shown: Object) -> Any:
            new = change(shown)
            old, wanted = shown.get("status", {}), new.get("status", {}) if isinstance(new, dict) else {}
            causes = [
                Cause(
                    "FieldValueForbidden",
                    f"Forbidden: changing status.{key} requires the verb {verb} on resourceclaims/binding",
                    f"status.{key}",
                )
                for key in _BOUND
                if not same(old.get(key), wanted.get(key))
            ]
            if causes:
                raise invalid(CLAIM.kind, CLAIM.group, target.name, causes)
            return new

        return guarded


class OpenGuard(Guard):
    """The guard of a server without tokens: whoever sends a request is allowed everything."""

    def __init__(self) -> None:
        super().__init__({}, accounts.Roles())

    def account(self, _request: Request) -> accounts.Account:
        """See `Guard.account`."""
        return UNSECURED

    def would_allow(self, _account: accounts.Account, _access: accounts.AccessRequest) -> bool:
        """See `Guard.would_allow`."""
        return True

    def rules(self, _account: accounts.Account, _namespace: str) -> list[Object]:
        """See `Guard.rules`."""
        return EVERYTHING


def _forbidden(account: accounts.Account, access: accounts.AccessRequest, name: str) -> Refusal:
    """A 403 about an access to a resource; `name` is that of the object, if the request has one."""
    plural = access.resource.partition("/")[0]
    qualified = f"{plural}.{access.group}".rstrip(".")
    subject = f'{qualified} "{name}"' if name else qualified
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    message = (
        f'{subject} is forbidden: User "{account.name}" cannot {access.verb} resource "{access.resource}" '
        f'in API group "{access.group}" {where}'
    )
    details = {
        **({"name": name} if name else {}),
        **({"group": access.group} if access.group else {}),
        "kind": plural,
    }
    return Refusal(403, "Forbidden", message, details=details)


def _verb(request: Request, target: Target) -> str:
    if request.method == "GET":
        if request.query.get("watch", "").lower() in ("1", "true"):
            return "watch"
        return "get" if target.name else "list"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _name(request: Request, target: Target) -> str:
    """The name of the object: from the path, or from a field selector for one name."""
    if target.name:
        return target.name
    wanted = request.query.get("fieldSelector", "").split(",")
    found = [_NAMED.fullmatch(part.strip()) for part in wanted]
    return next((match["name"] for match in found if match), "")


def _is_discovery(access: accounts.AccessRequest) -> bool:
    top = access.path.strip("/").split("/")[0]
    return access.verb == "get" and top in ("api", "apis", "openapi")


class ReviewKind(NamedTuple):
    """A kind of question."""

    kind: str
    served: GroupVersion
    is_about_sender: bool = False
    """Whether every authenticated account may ask it."""

    @property
    def plural(self) -> str:
        """The name in paths."""
        return f"{self.kind.lower()}s"

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"/apis/{self.served}/{self.plural}"


_AUTHENTICATION = GroupVersion("authentication.k8s.io", "v1")
_AUTHORIZATION = GroupVersion("authorization.k8s.io", "v1")
_TOKEN = ReviewKind("TokenReview", _AUTHENTICATION)
_SELF = ReviewKind("SelfSubjectReview", _AUTHENTICATION, is_about_sender=True)
_ACCESS = ReviewKind("SubjectAccessReview", _AUTHORIZATION)
_SELF_ACCESS = ReviewKind("SelfSubjectAccessReview", _AUTHORIZATION, is_about_sender=True)
_SELF_RULES = ReviewKind("SelfSubjectRulesReview", _AUTHORIZATION, is_about_sender=True)
REVIEWS = (_SELF, _TOKEN, _SELF_ACCESS, _SELF_RULES, _ACCESS)
_BY_PATH: Mapping[str, ReviewKind] = {review.path: review for review in REVIEWS}


def answer_review(guard: Guard, sender: accounts.Account, request: Request) -> Response | None:
    """The response to a review, with status 201; None for any other path. Raises a Refusal."""
    review = _BY_PATH.get(request.path)
    if review is None:
        return None
    if request.method != "POST":
        raise method_not_allowed()
    _check(guard, sender, review)
    body = decode_body(request)
    spec = Field(body if isinstance(body, dict) else {})["spec"]
    status = _status(guard, sender, review, spec)
    head = {"kind": review.kind, "apiVersion": str(review.served), "metadata": {}}
    return Response(201, encode({**head, "spec": {}, "status": status}))


def _check(guard: Guard, sender: accounts.Account, review: ReviewKind) -> None:
    group, resource = review.served.group, review.plural
    if review.is_about_sender and accounts.AUTHENTICATED in sender.groups:
        return
    if not guard.would_allow(sender, accounts.AccessRequest("create", group, resource)):
        message = f'{resource}.{group} is forbidden: User "{sender.name}" cannot create resource "{resource}"'
        raise Refusal(403, "Forbidden", message, details={"group": group, "kind": resource})


def _status(guard: Guard, sender: accounts.Account, review: ReviewKind, spec: Field) -> Object:
    if review is _TOKEN:
        return _token(guard, spec["token"].text())
    if review is _SELF:
        return {"userInfo": _user(sender)}
    if review is _SELF_RULES:
        return _rules(guard, sender, spec["namespace"].text())
    who = sender if review is _SELF_ACCESS else _who(spec)
    return {"allowed": guard.would_allow(who, _what(spec))}


def _token(guard: Guard, token: str) -> Object:
    found = guard.account_of(token)
    if found is None:
        return {"user": {}, "error": "unknown token"}
    return {"authenticated": True, "user": _user(found)}


def _user(who: accounts.Account) -> Object:
    return {"username": who.name, "groups": sorted(who.groups)}


def _rules(guard: Guard, who: accounts.Account, namespace: str) -> Object:
    about_sender = [review for review in REVIEWS if review.is_about_sender]
    asking = [
        {"verbs": ["create"], "apiGroups": [review.served.group], "resources": [review.plural]}
        for review in about_sender
        if accounts.AUTHENTICATED in who.groups
    ]
    given = guard.rules(who, namespace)
    return {
        "resourceRules": [*asking, *(rule for rule in given if "resources" in rule)],
        "nonResourceRules": [rule for rule in given if "nonResourceURLs" in rule],
        "incomplete": False,
    }


def _who(spec: Field) -> accounts.Account:
    return accounts.Account(spec["user"].text(), frozenset(group.text() for group in spec["groups"].items()))


def _what(spec: Field) -> accounts.AccessRequest:
    path = spec["nonResourceAttributes"]
    if path["path"].text():
        return accounts.AccessRequest(path["verb"].text(), path=path["path"].text())
    resource = spec["resourceAttributes"]
    part = resource["subresource"].text()
    return accounts.AccessRequest(
        resource["verb"].text(),
        resource["group"].text(),
        resource["resource"].text() + (f"/{part}" if part else ""),
        resource["namespace"].text(),
        resource["name"].text(),
    )
