"""Discovery: version, health, groups, resources, OpenAPI documents."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from reconciler.api.validation.bodies import Refusal, encode
from reconciler.api.validation.kinds import VERBS, GroupVersion, Object, ServedKind
from reconciler.embedded.guard import REVIEWS
from reconciler.embedded.routing import Response, Routes
from reconciler.embedded.schemas import ANY_FIELDS, GVK, REF, Served, definitions, group_version_kind

_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


def root(version: GroupVersion) -> str:
    """The path of a group and version, without the first slash."""
    return f"apis/{version}" if version.group else f"api/{version.version}"


INFO = {"title": "embedded API server", "version": "unversioned"}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
"""With it, kubectl leaves the validation of single objects to the server."""


@lru_cache(maxsize=64)
def v3_document(served: tuple[Served, ...]) -> bytes:
    """The document of the kinds of one group and version, with what kubectl reads of operations."""
    paths: dict[str, Object] = {}
    for version, kind in served:
        where = "namespaces/{namespace}/" if kind.namespaced else ""
        collection = f"/{root(version)}/{where}{kind.plural}"
        patches = _PATCH_TYPES if version.is_custom else (*_PATCH_TYPES, _STRATEGIC)
        gvk = group_version_kind(version, kind)
        paths[collection] = {"get": _operation("list", gvk), "post": _operation("post", gvk, "*/*")}
        paths[f"{collection}/{{name}}"] = {
            "get": _operation("get", gvk),
            "put": _operation("put", gvk, "*/*"),
            "patch": _operation("patch", gvk, *patches),
        }
    schemas = {"schemas": definitions(served)}
    return encode({"openapi": "3.0.0", "info": INFO, "paths": paths, "components": schemas})


def _operation(action: str, gvk: Object, *media: str) -> Object:
    """What it does, with which kind, and the media types of its body."""
    notes = {"x-kubernetes-action": action, GVK: gvk, "responses": {"200": {"description": "OK"}}}
    if not media:
        return notes
    content = {name: {"schema": {"type": "object"}} for name in media}
    return {**notes, "parameters": [_VALIDATION], "requestBody": {"content": content}}


# OpenAPI v2, as protobuf.

MEDIA = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
"""The names of the format; kubectl uses the first."""
_BYTES = 2
_TEXTS = {"format": 2, "description": 4}


@lru_cache(maxsize=4)
def v2_document(served: tuple[Served, ...]) -> bytes:
    """The schemas of all kinds. Its paths are empty: kubectl reads operations from v3."""
    info = _part(2, _text(1, INFO["title"]) + _text(2, INFO["version"]))
    return _text(1, "2.0") + info + _part(8, b"") + _part(9, _schemas(definitions(served)))


def _schemas(schemas: Mapping[str, Object]) -> bytes:
    return b"".join(_part(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    """A schema of v3 as one of v2."""
    found = [_text(number, schema[key]) for key, number in _TEXTS.items() if key in schema]
    found += [_text(19, name) for name in schema.get("required", ())]
    (reference,) = schema.get("allOf", ({},))
    if name := {**reference, **schema}.get("$ref"):
        found.append(_text(1, "#/definitions/" + name.removeprefix(REF)))
    if "additionalProperties" in schema:
        found.append(_part(21, _part(1, _schema(schema["additionalProperties"]))))
    # v2 has no word for further fields beside known ones: without a type, kubectl accepts everything.
    if "type" in schema and ANY_FIELDS not in schema:
        found.append(_part(22, _text(1, schema["type"])))
    if "items" in schema:
        found.append(_part(23, _part(1, _schema(schema["items"]))))
    if "properties" in schema and ANY_FIELDS not in schema:
        found.append(_part(25, _schemas(schema["properties"])))
    # Extensions: their values are YAML, of which JSON is a part.
    found += [_part(31, _named(key, _part(2, encode(schema[key])))) for key in schema if key.startswith("x-")]
    return b"".join(found)


def _named(name: str, value: bytes) -> bytes:
    """An entry of a map: all of them have these numbers."""
    return _text(1, name) + _part(2, value)


def _text(number: int, value: Any) -> bytes:
    return _part(number, str(value).encode())


def _part(number: int, content: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


_JSON = ("application/json", "application/*", "*/*")


def _openapi(routes: Routes, parts: list[str], accept: str) -> Response | None:
    """The response for a path below /openapi; None for paths that are not served. Raises a 406."""
    wanted = [option.partition(";")[0].strip() for option in (accept or "*/*").split(",")]
    match parts:
        case ["v2"] if any(media in MEDIA for media in wanted):
            return Response(200, v2_document(_all(routes)), content_type=MEDIA[1])
        case ["v2"]:
            raise Refusal(406, "NotAcceptable", f"only {MEDIA[0]} is supported", details={})
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
    resources += [
        _entry(review.plural, review.kind, _CREATE, review.kind.lower(), namespaced=False)
        for review in REVIEWS
        if review.served == served
    ]
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": str(served),
        "resources": resources,
    }


def _entries(kind: ServedKind) -> list[Object]:
    entries = [_entry(kind.plural, kind.kind, VERBS, kind.singular, namespaced=kind.namespaced)]
    for key, words in ("shortNames", kind.short_names), ("categories", kind.categories):
        if words:
            entries[0][key] = list(words)
    if kind.has_status:
        verbs = ("get", "patch", "update")
        entries.append(_entry(f"{kind.plural}/status", kind.kind, verbs, namespaced=kind.namespaced))
    if kind.plural == "pods":
        entries.append(_entry("pods/binding", "Binding", _CREATE))
        entries.append({**_entry("pods/eviction", "Eviction", _CREATE), "group": "policy", "version": "v1"})
    return entries


_CREATE = ("create",)


def _entry(
    name: str, kind: str, verbs: Iterable[str], singular: str = "", *, namespaced: bool = True
) -> Object:
    return {
        "name": name,
        "singularName": singular,
        "namespaced": namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
