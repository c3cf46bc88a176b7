"""What a request asks for, as an authorizer sees it, told from its method, path and query alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from reconciler.cluster.transport import Lines, Query, Request, Response, Transport, WatchRequest
from reconciler.embedded.accounts import AccessRequest
from reconciler.settings import Settings

_RESOURCE = re.compile(
    r"/(?:api|apis/(?P<group>[-a-z0-9.]+))/v[0-9a-z]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ONE = "metadata.name="


def asked(method: str, path: str, query: Query = ()) -> AccessRequest:
    """The verb and the resource, or the path where it names none."""
    match = _RESOURCE.fullmatch(path)
    if match is None:
        return AccessRequest(_VERBS.get(method, method.lower()), path=path)
    fields, watches = dict(query).get("fieldSelector", ""), ("watch", "true") in query
    name = match["name"] or (fields.removeprefix(_ONE) if fields.startswith(_ONE) else "")
    reads = "watch" if watches else "get" if match["name"] else "list"
    resource = match["plural"] + (f"/{match['part']}" if match["part"] else "")
    return AccessRequest(
        _VERBS.get(method, reads), match["group"] or "", resource, match["namespace"] or "", name
    )


def as_deployed(asked: AccessRequest, settings: Settings, deployed: Settings) -> AccessRequest:
    """The same under the settings of `deploy`: names that settings choose become those chosen there.

    Where a right is for everything, neither name nor namespace says anything, and both are left out.
    """
    for here, there in (
        (settings.pause_config_map, deployed.pause_config_map),
        (settings.demand_config_map, deployed.demand_config_map),
        (settings.held_room_config_map, deployed.held_room_config_map),
    ):
        if asked.resource == "configmaps" and here == f"{asked.namespace}/{asked.name}":
            namespace, _, name = (there or "/").partition("/")
            return replace(asked, namespace=namespace, name=name)
    if asked.resource == "leases" and asked.namespace == settings.lease_namespace:
        return replace(asked, namespace=deployed.lease_namespace, name="")
    if asked.resource in ("configmaps", "leases"):
        return asked
    return replace(asked, namespace="", name="")


@dataclass
class Noting:
    """A transport that tells of every request before it is sent."""

    behind: Transport
    note: Callable[[AccessRequest], None]

    async def send(self, request: Request) -> Response:
        self.note(asked(request.method, request.path, request.query))
        return await self.behind.send(request)

    def stream(self, request: WatchRequest) -> Lines:
        self.note(asked("GET", request.path, request.query))
        return self.behind.stream(request)
