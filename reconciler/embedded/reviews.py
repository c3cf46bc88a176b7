"""Reviews: questions about tokens and permissions, which are answered and not stored.

Other servers ask about their clients; `kubectl auth can-i` and `kubectl auth whoami` ask about the sender.
"""

from collections.abc import Mapping
from typing import NamedTuple

from reconciler.api.validation.bodies import Refusal, encode, method_not_allowed
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.accounts import AUTHENTICATED, AccessRequest, Account
from reconciler.embedded.bodies import decode_body
from reconciler.embedded.guard import Guard
from reconciler.embedded.routing import Request, Response


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


def answer_review(guard: Guard, sender: Account, request: Request) -> Response | None:
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


def _check(guard: Guard, sender: Account, review: ReviewKind) -> None:
    group, resource = review.served.group, review.plural
    if review.is_about_sender and AUTHENTICATED in sender.groups:
        return
    if not guard.would_allow(sender, AccessRequest("create", group, resource)):
        message = f'{resource}.{group} is forbidden: User "{sender.name}" cannot create resource "{resource}"'
        raise Refusal(403, "Forbidden", message, details={"group": group, "kind": resource})


def _status(guard: Guard, sender: Account, review: ReviewKind, spec: Field) -> Object:
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


def _user(who: Account) -> Object:
    return {"username": who.name, "groups": sorted(who.groups)}


def _rules(guard: Guard, who: Account, namespace: str) -> Object:
    about_sender = [review for review in REVIEWS if review.is_about_sender]
    asking = [
        {"verbs": ["create"], "apiGroups": [review.served.group], "resources": [review.plural]}
        for review in about_sender
        if AUTHENTICATED in who.groups
    ]
    given = guard.rules(who, namespace)
    return {
        "resourceRules": [*asking, *(rule for rule in given if "resources" in rule)],
        "nonResourceRules": [rule for rule in given if "nonResourceURLs" in rule],
        "incomplete": False,
    }


def _who(spec: Field) -> Account:
    return Account(spec["user"].text(), frozenset(group.text() for group in spec["groups"].items()))


def _what(spec: Field) -> AccessRequest:
    path = spec["nonResourceAttributes"]
    if path["path"].text():
        return AccessRequest(path["verb"].text(), path=path["path"].text())
    resource = spec["resourceAttributes"]
    part = resource["subresource"].text()
    return AccessRequest(
        resource["verb"].text(),
        resource["group"].text(),
        resource["resource"].text() + (f"/{part}" if part else ""),
        resource["namespace"].text(),
        resource["name"].text(),
    )
