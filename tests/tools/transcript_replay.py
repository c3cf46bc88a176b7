"""Replay recorded HTTP conversations against a server and report where the responses differ.

What differs from run to run (uids, versions, times, generated names, tokens) is learned from the answers
and put in place of what was recorded; everything else must be equal, except texts meant for people.
"""

import asyncio
import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from reconciler.embedded import ApiServer
from reconciler.embedded.accounts import Roles
from reconciler.embedded.guard import Guard
from tests.tools.patience import PATIENCE

ORDER = ("claim-lifecycle", "list-and-watch", "patch", "slices", "lease-and-events", "discovery-and-errors")
"""The recordings share one server: later recordings depend on objects of earlier ones."""

_EVERYTHING = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "everything"},
    "rules": _EVERYTHING,
}
_BINDING = {
    **_ROLE,
    "kind": "ClusterRoleBinding",
    "roleRef": {"kind": "ClusterRole", "name": "everything"},
    "subjects": [{"kind": "User", "name": "system:anonymous"}],
}

_LEARNED = ("uid", "resourceVersion", "name", "continue")
_TIMES = ("creationTimestamp", "deletionTimestamp")
_TEXTS = ("message",)
_BUILD = (
    "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform",
    "serverAddressByClientCIDRs", "storageVersionHash",
)  # fmt: skip

_NOT_RECORDED = ("shortNames", "managedFields")


def recorded_server() -> ApiServer:
    """Accepts requests without a token, since recordings omit it; every token is wrong."""
    return ApiServer(guard=Guard({}, Roles.read([_ROLE, _BINDING])), release=36)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One step whose response differs from the recorded one."""

    step: int
    request: str
    why: str


@dataclass(slots=True)
class Learned:
    """Recorded values and the corresponding values of this run."""

    values: dict[str, str] = field(default_factory=dict)

    def translate(self, value: Any) -> Any:
        """A recorded request's part with this run's values in it."""
        if isinstance(value, dict):
            return {
                key: self.values.get(item, item)
                if key in _LEARNED and isinstance(item, str)
                else self.translate(item)
                for key, item in value.items()
            }
        return [self.translate(item) for item in value] if isinstance(value, list) else value

    def path(self, path: str) -> str:
        """A recorded path and query with this run's versions and tokens in it."""
        base, mark, query = path.partition("?")
        parts = []
        for part in query.split("&") if mark else ():
            key, equals, value = part.partition("=")
            if key in ("resourceVersion", "continue"):
                value = self.values.get(value, value)
            parts.append(f"{key}{equals}{value}")
        return base + mark + "&".join(parts)

    def learn(self, recorded: Any, found: Any) -> None:
        """Learn this run's values from the places of the recorded values."""
        if isinstance(recorded, dict) and isinstance(found, dict):
            for key, item in recorded.items():
                # Names are the caller's own, unless the server made them up.
                ours = key in _LEARNED and (key != "name" or "generateName" in recorded)
                if ours and isinstance(item, str) and isinstance(found.get(key), str):
                    self.values[item] = found[key]
                self.learn(item, found.get(key))
        elif isinstance(recorded, list) and isinstance(found, list):
            for one, other in zip(recorded, found, strict=False):
                self.learn(one, other)


def load(path: Path) -> dict[str, Any]:
    """One recording."""
    return mended(json.loads(path.read_text()))


def mended(transcript: dict[str, Any]) -> dict[str, Any]:
    """The recording with the requests that were really answered.

    In claim-lifecycle, steps 21 to 23 hold one and the same body, that of step 23: it was changed in place
    between the requests. Notes and answers say what steps 21 and 22 sent.
    """
    if transcript["topic"] != "claim-lifecycle":
        return transcript
    result = copy.deepcopy(transcript)
    unallocated, unknown = (result["steps"][step]["request"]["body"]["status"] for step in (21, 22))
    del unallocated["allocation"]
    unallocated["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u-1"}]
    unknown["allocation"]["devices"]["results"][0]["request"] = "nope"
    return result


async def mismatches(
    transcript: Mapping[str, Any], url: str, session: aiohttp.ClientSession, learned: Learned
) -> list[Mismatch]:
    """Play every step in order; returns the steps that differ. `learned` is passed to the next recording."""
    found = []
    for number, step in enumerate(transcript["steps"]):
        request = step["request"]
        why = await _step(step, url, session, learned)
        if why:
            found.append(Mismatch(number, f"{request['method']} {request['path']}", why))
    return found


async def _step(step: Mapping[str, Any], url: str, session: aiohttp.ClientSession, learned: Learned) -> str:
    request, expected = step["request"], step["response"]
    headers = {"Content-Type": "application/json", **request.get("headers", {})}
    body = request["rawBody"] if "rawBody" in request else json.dumps(learned.translate(request.get("body")))
    has_body = "rawBody" in request or request.get("body") is not None
    async with session.request(
        request["method"],
        url + learned.path(request["path"]).replace("%3D", "="),
        headers=headers if has_body else request.get("headers", {}),
        data=body if has_body else None,
    ) as answer:
        if answer.status != expected["status"]:
            return f"status {answer.status}, recorded {expected['status']}: {(await answer.text())[:300]}"
        if "events" in expected:
            return await _events(answer, expected["events"], request["path"], learned)
        if isinstance(expected["body"], str):
            text = await answer.text()
            return "" if text == expected["body"] else f"body {text!r}"
        got = await answer.json()
        learned.learn(expected["body"], got)
        if "generateName" in _metadata(request):
            # A refusal names the object by the name that was made up for it.
            learned.learn(
                *({**body.get("details", {}), "generateName": ""} for body in (expected["body"], got))
            )
        return next(differences(expected["body"], got, learned), "")


def _metadata(request: Mapping[str, Any]) -> Mapping[str, Any]:
    body = request.get("body")
    return body.get("metadata", {}) if isinstance(body, dict) else {}


async def _events(answer: aiohttp.ClientResponse, expected: list[Any], path: str, learned: Learned) -> str:
    got: list[Any] = []
    until_closed = "timeoutSeconds" in path
    async with asyncio.timeout(PATIENCE):
        while until_closed or len(got) < len(expected):
            line = await answer.content.readline()
            if not line:
                break
            got.append(json.loads(line))
    names = [_event_name(event) for event in got]
    wanted = [learned.translate(_event_name(event)) for event in expected]
    if names != wanted:
        return f"events {names}, recorded {wanted}"
    for one, other in zip(expected, got, strict=True):
        if one["type"] == "BOOKMARK":
            # Typed servers add the empty fields of the kind to a bookmark; only its metadata means anything.
            wanted_object = {k: one["object"][k] for k in ("kind", "apiVersion", "metadata")}
        else:
            wanted_object = one["object"]
        learned.learn(wanted_object, other["object"])
        for difference in differences(wanted_object, other["object"], learned):
            return difference
    return ""


def _event_name(event: Any) -> dict[str, Any]:
    return {"type": event["type"], "name": event["object"].get("metadata", {}).get("name")}


def differences(recorded: Any, found: Any, learned: Learned, path: str = "") -> Iterator[str]:
    """Where a response differs from the recorded one, apart from values that differ in every run."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        kept = {key for key in recorded if key not in _BUILD}
        extra = found.keys() - recorded.keys() - {*_BUILD, *_NOT_RECORDED}
        if kept - found.keys() or extra:
            yield f"{path}: keys {sorted(found)}, recorded {sorted(recorded)}"
            return
        for key in kept:
            yield from _field(key, recorded[key], found[key], learned, f"{path}.{key}")
    elif isinstance(recorded, list) and isinstance(found, list):
        # Discovery may list more than the recording server had.
        if path.endswith(".resources"):
            found = [entry for entry in found if entry["name"] in {one["name"] for one in recorded}]
        if len(recorded) != len(found):
            yield f"{path}: {len(found)} elements, recorded {len(recorded)}"
            return
        for i, (one, other) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(one, other, learned, f"{path}[{i}]")
    elif recorded != found:
        yield f"{path}: {found!r}, recorded {recorded!r}"


def _field(key: str, recorded: Any, found: Any, learned: Learned, path: str) -> Iterator[str]:
    if key in _LEARNED and isinstance(recorded, str):
        if found != learned.values.get(recorded, recorded):
            yield f"{path}: {found!r}, recorded {recorded!r}"
    elif key in _TIMES or key in _TEXTS:
        if not isinstance(found, str) or not found:
            yield f"{path}: {found!r} is no text"
    else:
        yield from differences(recorded, found, learned, path)
