"""Rules and limits of the API: what an API server answers to each object as it is written."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding
from reconciler.doctor.picture import Picture
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.builtin import BUILTIN
from reconciler.legacy.reading import GROUP
from reconciler.legacy.shapes import mapping
from reconciler.manifests.bundle import Entry
from reconciler.objects.validating import subject_of

_SERVED = {
    (str(version), kind.kind): kind for kind in BUILTIN for version in kind.served if version.group == GROUP
}
_NAMESPACES = "/api/v1/namespaces"
_DRY = {"dryRun": "All"}
_UNREAD = "json: cannot unmarshal: "
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}

Raw = Mapping[str, Any]


def api_rules(picture: Picture) -> Iterator[Finding]:
    """What stands against creating each object that could be read, and against its status."""
    server = _server(picture)
    for one in picture.written:
        for field, what in dict.fromkeys(_of(server, one.document.raw, one.entry) if one.entry else ()):
            yield rules.API_RULES.at(one.document.origin, subject_of(one.document.raw), field, what)


def _server(picture: Picture) -> ApiServer:
    """A server with the namespaces of the input. Those that only claims name may use admin access."""
    server = ApiServer()
    described: set[str] = set()
    for one in picture.written:
        if one.document.raw.get("kind") == "Namespace":
            name = _named(one.document.raw, "name")
            labels = mapping(mapping(one.document.raw.get("metadata")).get("labels"))
            given = {key: labels[key] for key in _ADMIN if isinstance(labels.get(key), str)}
            if name:
                described.add(name)
                _ask(server, "POST", _NAMESPACES, {"metadata": {"name": name, "labels": given}})
    for name in {_namespace(one.document.raw) for one in picture.written} - described:
        _ask(server, "POST", _NAMESPACES, {"metadata": {"name": name}})
        _ask(server, "PATCH", f"{_NAMESPACES}/{name}", {"metadata": {"labels": _ADMIN}})
    return server


def _of(server: ApiServer, raw: Raw, entry: Entry) -> Iterator[tuple[str, str]]:
    path = _path(raw)
    if not path:
        return
    answer = _ask(server, "POST", path, raw, _DRY)
    if answer.status < 400:
        yield from _of_status(server, path, raw)
        return
    yield from _problems(answer)
    # A server stops at the first value of a wrong type. What comes behind it is of interest too.
    if answer.status == 400:
        mended = _ask(server, "POST", _path(entry.raw), entry.raw, _DRY)
        if mended.status == 422:
            yield from _problems(mended)


def _of_status(server: ApiServer, path: str, raw: Raw) -> Iterator[tuple[str, str]]:
    """A status is written apart, to an object that is there."""
    if raw["kind"] != "ResourceClaim" or not raw.get("status"):
        return
    made = json.loads(_ask(server, "POST", path, raw).body)
    where = f"{path}/{made['metadata']['name']}"
    answer = _ask(server, "PUT", f"{where}/status", {**made, "status": raw["status"]}, _DRY)
    _ask(server, "PUT", where, {**made, "metadata": {**made["metadata"], "finalizers": []}})
    _ask(server, "DELETE", where, {})
    if answer.status >= 400:
        yield from _problems(answer)


def _path(raw: Raw) -> str:
    """Where objects of this kind are created; empty if they are of no version that is served."""
    kind = _SERVED.get((str(raw.get("apiVersion")), str(raw.get("kind"))))
    if kind is None:
        return ""
    where = f"namespaces/{_namespace(raw)}/" if kind.namespaced else ""
    return f"/apis/{raw['apiVersion']}/{where}{kind.plural}"


def _namespace(raw: Raw) -> str:
    return _named(raw, "namespace") or "default"


def _named(raw: Raw, key: str) -> str:
    metadata = raw.get("metadata")
    given = metadata.get(key) if isinstance(metadata, Mapping) else None
    return given if isinstance(given, str) else ""


def _ask(
    server: ApiServer, method: str, path: str, body: Raw, query: Mapping[str, str] | None = None
) -> Response:
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = Request(method, path, query or {}, {"Content-Type": media}, json.dumps(body).encode())
    answer = server.handle(request)
    assert isinstance(answer, Response)
    return answer


def _problems(answer: Response) -> list[tuple[str, str]]:
    if answer.status == 404:
        return [("metadata.namespace", "is not the name of a namespace")]
    status = json.loads(answer.body)
    causes = (status.get("details") or {}).get("causes")
    if causes:
        return [(cause["field"], cause["message"]) for cause in causes]
    message = status["message"]
    if message.startswith(_UNREAD):
        field, _, what = message.removeprefix(_UNREAD).partition(": ")
        return [(field, what)]
    return [("", message)]
