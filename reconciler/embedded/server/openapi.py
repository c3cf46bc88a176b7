"""Requests for OpenAPI documents: which document, in which format."""

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.status import Refusal
from reconciler.embedded.openapi import Served, v2_document, v2_protobuf, v3_document
from reconciler.embedded.openapi.paths import root
from reconciler.embedded.openapi.protobuf import MEDIA as PROTOBUF
from reconciler.embedded.server.messages import Response
from reconciler.embedded.server.routing import Routes

_JSON = ("application/json", "application/*", "*/*")


def answer(routes: Routes, parts: list[str], accept: str) -> Response | None:
    """The response for a path below /openapi; None for paths that are not served. Raises a 406."""
    wanted = [option.partition(";")[0].strip() for option in (accept or "*/*").split(",")]
    match parts:
        case ["v2"]:
            return _v2(_all(routes), wanted)
        case ["v3"]:
            roots = [root(version) for version in routes.versions()]
            paths = {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in roots}
            return _json(encode({"paths": paths}), wanted)
        case ["v3", *rest]:
            served = tuple(one for one in _all(routes) if root(one[0]) == "/".join(rest))
            return _json(v3_document(served), wanted) if served else None
    return None


def _all(routes: Routes) -> tuple[Served, ...]:
    return tuple((version, kind) for version in routes.versions() for kind in routes.kinds(version))


def _v2(served: tuple[Served, ...], wanted: list[str]) -> Response:
    if any(media in PROTOBUF for media in wanted):
        return Response(200, v2_protobuf(served), content_type=PROTOBUF[1])
    return _json(v2_document(served), wanted)


def _json(body: bytes, wanted: list[str]) -> Response:
    if not any(media in _JSON for media in wanted):
        raise Refusal(406, "NotAcceptable", "only application/json is supported", details={})
    return Response(200, body)
