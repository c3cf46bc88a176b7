"""Discovery: version, health, groups, resources, OpenAPI documents."""

from reconciler.api.validation.bodies import Refusal, encode
from reconciler.api.validation.kinds import VERBS, GroupVersion, Object, ServedKind
from reconciler.embedded.openapi_documents import MEDIA as PROTOBUF
from reconciler.embedded.openapi_documents import root, v2_document, v3_document
from reconciler.embedded.reviews import REVIEWS, ReviewKind
from reconciler.embedded.routing import Response, Routes
from reconciler.embedded.schemas import Served

_JSON = ("application/json", "application/*", "*/*")


def _openapi(routes: Routes, parts: list[str], accept: str) -> Response | None:
    """The response for a path below /openapi; None for paths that are not served. Raises a 406."""
    wanted = [option.partition(";")[0].strip() for option in (accept or "*/*").split(",")]
    match parts:
        case ["v2"] if any(media in PROTOBUF for media in wanted):
            return Response(200, v2_document(_all(routes)), content_type=PROTOBUF[1])
        case ["v2"]:
            raise Refusal(406, "NotAcceptable", f"only {PROTOBUF[0]} is supported", details={})
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


def _json(body: bytes, wanted: list[str]) -> Response:
    if not any(media in _JSON for media in wanted):
        raise Refusal(406, "NotAcceptable", "only application/json is supported", details={})
    return Response(200, body)


_PATCHES = {36: 2}
"""The patch of a release whose answers were compared"""
_HEALTH = ("/healthz", "/livez", "/readyz")


def discover(routes: Routes, path: str, accept: str) -> Response | None:
    """The response for a discovery path; None for all other paths. Raises a Refusal."""
    path = path.rstrip("/")
    if path in _HEALTH:
        return Response(200, b"ok", content_type="text/plain; charset=utf-8")
    parts = path.strip("/").split("/")
    if parts[0] == "openapi":
        return _openapi(routes, parts[1:], accept)
    body = _body(routes, parts)
    return None if body is None else Response(200, encode(body))


def _version(release: int) -> Object:
    return {
        "major": "1",
        "minor": str(release),
        "emulationMajor": "1",
        "emulationMinor": str(release),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(release - 1),
        "gitVersion": f"v1.{release}.{_PATCHES.get(release, 0)}+dra-reconciler",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _body(routes: Routes, parts: list[str]) -> Object | None:
    match parts:
        case ["version"]:
            return _version(routes.release)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(routes, name) for name in _groups(routes)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name] if name in _groups(routes):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(routes, name)}
        case ["api", version]:
            return _resources(routes, GroupVersion("", version))
        case ["apis", name, version]:
            return _resources(routes, GroupVersion(name, version))
    return None


def _versions(routes: Routes) -> list[GroupVersion]:
    return list(dict.fromkeys([*routes.versions(), *(review.served for review in REVIEWS)]))


def _groups(routes: Routes) -> list[str]:
    return list(dict.fromkeys(served.group for served in _versions(routes) if served.group))


def _group(routes: Routes, name: str) -> Object:
    versions = [
        {"groupVersion": str(served), "version": served.version}
        for served in _versions(routes)
        if served.group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(routes: Routes, served: GroupVersion) -> Object | None:
    resources = [entry for kind in routes.kinds(served) for entry in _entries(kind)]
    resources += [_review(review) for review in REVIEWS if review.served == served]
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": str(served),
        "resources": resources,
    }


def _entries(kind: ServedKind) -> list[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    entries = [entry]
    if kind.has_status:
        status = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced}
        entries.append({**status, "kind": kind.kind, "verbs": ["get", "patch", "update"]})
    if kind.plural == "pods":
        binding = {"name": "pods/binding", "singularName": "", "namespaced": True}
        entries.append({**binding, "kind": "Binding", "verbs": ["create"]})
        eviction = {"name": "pods/eviction", "singularName": "", "namespaced": True, "group": "policy"}
        entries.append({**eviction, "version": "v1", "kind": "Eviction", "verbs": ["create"]})
    return entries


def _review(review: ReviewKind) -> Object:
    return {
        "name": review.plural,
        "singularName": review.kind.lower(),
        "namespaced": False,
        "kind": review.kind,
        "verbs": ["create"],
    }
