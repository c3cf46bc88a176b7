"""Discovery: version, health, groups, resources, and a minimal OpenAPI document."""

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.kinds import VERBS, GroupVersion, Object, ServedKind
from reconciler.embedded.server.messages import Response
from reconciler.embedded.server.openapi import document
from reconciler.embedded.server.routing import Routes

_VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+dra-reconciler",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_HEALTH = ("/healthz", "/livez", "/readyz")


def answer(routes: Routes, path: str) -> Response | None:
    """The response for a discovery path; None for all other paths."""
    path = path.rstrip("/")
    if path in _HEALTH:
        return Response(200, b"ok", content_type="text/plain; charset=utf-8")
    body = _body(routes, path)
    return None if body is None else Response(200, encode(body))


def _body(routes: Routes, path: str) -> Object | None:
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(_VERSION)
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
        case ["openapi", "v3"]:
            roots = [_root(served) for served in routes.versions()]
            return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}
        case ["openapi", "v3", *rest]:
            return _schema(routes, "/".join(rest))
    return None


def _root(served: GroupVersion) -> str:
    return f"apis/{served}" if served.group else f"api/{served.version}"


def _schema(routes: Routes, root: str) -> Object | None:
    for served in routes.versions():
        if _root(served) == root:
            return document(f"/{root}", served, routes.kinds(served))
    return None


def _groups(routes: Routes) -> list[str]:
    return list(dict.fromkeys(served.group for served in routes.versions() if served.group))


def _group(routes: Routes, name: str) -> Object:
    versions = [
        {"groupVersion": str(served), "version": served.version}
        for served in routes.versions()
        if served.group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(routes: Routes, served: GroupVersion) -> Object | None:
    kinds = routes.kinds(served)
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _entries(kind)]
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
    entries = [entry]
    if kind.has_status:
        status = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced}
        entries.append({**status, "kind": kind.kind, "verbs": ["get", "patch", "update"]})
    if kind.plural == "pods":
        binding = {"name": "pods/binding", "singularName": "", "namespaced": True}
        entries.append({**binding, "kind": "Binding", "verbs": ["create"]})
    return entries
