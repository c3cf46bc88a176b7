"""Rules and limits of the API: what an API server answers to each object as it is written."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.doctor import rules
from reconciler.doctor.findings import Finding
from reconciler.doctor.picture import Picture, Written
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.builtin import BUILTIN
from reconciler.legacy.reading import GROUP, subject_of

_SERVED = {
    (str(version), kind.kind): kind for kind in BUILTIN for version in kind.served if version.group == GROUP
}
_NAMESPACES = "/api/v1/namespaces"
_JSON = {"Content-Type": "application/json"}
_UNREAD = "json: cannot unmarshal: "
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}

Raw = Mapping[str, Any]


def api_rules(picture: Picture) -> Iterator[Finding]:
    """What stands against creating each object. What has no namespace in the input may use admin access."""
    server = ApiServer()
    for one in picture.written:
        if one.document.raw.get("kind") == "Namespace":
            _post(server, _NAMESPACES, one.document.raw)
    for one in picture.written:
        found = dict.fromkeys(_of(server, one))
        for field, what in found:
            yield rules.API_RULES.at(one.document.origin, subject_of(one.document.raw), field, what)


def _of(server: ApiServer, one: Written) -> Iterator[tuple[str, str]]:
    response = _create(server, one.document.raw)
    if response is None or response.status < 400:
        return
    yield from _problems(response)
    # A server stops at the first value of a wrong type. What comes behind it is of interest too.
    mended = _create(server, one.entry.raw) if response.status == 400 and one.entry is not None else None
    if mended is not None and mended.status == 422:
        yield from _problems(mended)


def _create(server: ApiServer, raw: Raw) -> Response | None:
    """The answer to a dry run; None for what is not of a version that is served."""
    version = str(raw.get("apiVersion"))
    kind = _SERVED.get((version, str(raw.get("kind"))))
    if kind is None:
        return None
    metadata = raw.get("metadata")
    where = ""
    if kind.namespaced:
        given = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        namespace = given if isinstance(given, str) and given else "default"
        _post(server, _NAMESPACES, {"metadata": {"name": namespace, "labels": _ADMIN}})
        where = f"namespaces/{namespace}/"
    return _post(server, f"/apis/{version}/{where}{kind.plural}", raw, {"dryRun": "All"})


def _post(server: ApiServer, path: str, body: Raw, query: Mapping[str, str] | None = None) -> Response:
    answer = server.handle(Request("POST", path, query or {}, _JSON, json.dumps(body).encode()))
    assert isinstance(answer, Response)
    return answer


def _problems(response: Response) -> Iterable[tuple[str, str]]:
    status = json.loads(response.body)
    causes = (status.get("details") or {}).get("causes")
    if causes:
        return [(cause["field"], cause["message"]) for cause in causes]
    message = status["message"]
    if message.startswith(_UNREAD):
        field, _, what = message.removeprefix(_UNREAD).partition(": ")
        return [(field, what)]
    return [("", message)]
