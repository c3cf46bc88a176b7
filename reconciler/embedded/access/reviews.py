"""TokenReview and SubjectAccessReview: other servers ask whether to accept their own clients."""

from reconciler.api.validation.encoding import decode_json, encode
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.status import Refusal, method_not_allowed
from reconciler.embedded.access.accounts import Account
from reconciler.embedded.access.guard import Guard
from reconciler.embedded.access.roles import AccessRequest
from reconciler.embedded.server.messages import Request, Response

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def answer(guard: Guard, sender: Account, request: Request) -> Response | None:
    """The response to a review, with status 201; None for any other path. Raises a Refusal."""
    if request.path not in (TOKENS, ACCESS):
        return None
    if request.method != "POST":
        raise method_not_allowed()
    group, resource = request.path.split("/")[2], request.path.split("/")[4]
    if not guard.allows(sender, AccessRequest("create", group, resource)):
        message = f'{resource}.{group} is forbidden: User "{sender.name}" cannot create resource "{resource}"'
        raise Refusal(403, "Forbidden", message, details={"group": group, "kind": resource})
    body = decode_json(request.body)
    spec = Field(body if isinstance(body, dict) else {})["spec"]
    if request.path == TOKENS:
        kind, verdict = "TokenReview", _token(guard, spec["token"].text())
    else:
        kind, verdict = "SubjectAccessReview", {"allowed": guard.allows(_who(spec), _what(spec))}
    answered = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, "spec": {}, "status": verdict}
    return Response(201, encode(answered))


def _token(guard: Guard, token: str) -> Object:
    account = guard.account_of(token)
    if account is None:
        return {"user": {}, "error": "unknown token"}
    return {"authenticated": True, "user": {"username": account.name, "groups": sorted(account.groups)}}


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
