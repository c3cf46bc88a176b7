"""The server without sockets and clock: takes a request, returns a response or a watch."""

import random as random_module
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from random import Random

from reconciler.api.validation.encoding import encode
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.served_kinds import BUILTIN, NAMESPACE, POD, START_NAMESPACES
from reconciler.api.validation.status import Refusal, bad_request
from reconciler.embedded.access import Guard
from reconciler.embedded.server.messages import Request, Response, Stream
from reconciler.embedded.server.patching import bind
from reconciler.embedded.server.request_handler import RequestHandler
from reconciler.embedded.server.routing import NoSuchPath, Routes, Target
from reconciler.embedded.server.store import Store
from reconciler.embedded.server.writing import Writer
from reconciler.errors import Rejected

HISTORY = 20_000
"""Changes kept of each kind, from which watches can resume."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """An API server in memory. `handle` is atomic; only watches wait."""

    def __init__(
        self,
        kinds: Iterable[ServedKind] = (),
        *,
        now: Callable[[], datetime] = _utc_now,
        random: Random | None = None,
        history: int = HISTORY,
        guard: Guard | None = None,
        serves: Callable[[ServedKind, GroupVersion], bool] = lambda _kind, _version: True,
    ) -> None:
        """`guard` checks requests to `handle`; without it, every request is allowed.

        `serves` returns whether a version of a kind is served: older servers lack newer versions. The
        stored version is always the same.
        """
        served = (*BUILTIN, *kinds)
        self.now = now
        self.store = Store(served, history=history)
        self._writer = Writer(self.store, now=now, random=random or random_module.Random())
        self._routes = Routes(served, serves)
        self._handler = RequestHandler(self.store, self._writer, self._routes, now, guard=guard)
        for name in START_NAMESPACES:
            self.create(NAMESPACE, "", {"metadata": {"name": name}})

    def register(self, kind: ServedKind) -> None:
        """Serve one more kind."""
        self.store.add(kind)
        self._routes.add(kind)

    def compact(self) -> None:
        """Drop all history, as etcd does from time to time."""
        self.store.compact()

    def handle(self, request: Request) -> Response | Stream:
        """Answer a request. Never raises because of a client's input."""
        try:
            return self._handler.answer(request)
        except Refusal as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return Response(refusal.code, encode(refusal.body()), headers=headers)
        except WrongType as exc:
            return Response(400, encode(bad_request(f"json: cannot unmarshal: {exc}").body()))
        except NoSuchPath:
            return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")

    def load(self, objects: Iterable[Object]) -> None:
        """Create manifests with their status, and the namespaces they name.

        Raises Rejected with the name of the object; earlier objects stay.
        """
        for obj in objects:
            try:
                self._load(obj)
            except (Refusal, WrongType) as exc:
                metadata = obj.get("metadata")
                name = metadata.get("name", "") if isinstance(metadata, dict) else ""
                raise Rejected(f"{obj.get('kind')} {name}: {exc}") from exc

    def create(self, kind: ServedKind, namespace: str, obj: Object) -> Object:
        """Create an object of the stored version directly. Raises a Refusal."""
        return self._writer.create(Target(kind, kind.stored, namespace), obj).object

    def update(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        *,
        subresource: str = "",
    ) -> Object:
        """Replace an object by the result of `change`, directly. Raises a Refusal."""
        return self._writer.update(Target(kind, kind.stored, namespace, name, subresource), change).object

    def delete(self, kind: ServedKind, namespace: str, name: str) -> None:
        """Delete an object directly. Raises a Refusal."""
        self._writer.delete(Target(kind, kind.stored, namespace, name), {})

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Bind a pod to a node, as a scheduler does. Raises a Refusal."""
        self.update(POD, namespace, name, bind({"target": {"name": node}}), subresource="binding")

    def _load(self, obj: Object) -> None:
        found = self._routes.kind_of(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        if found is None:
            raise bad_request(f"{obj.get('apiVersion')} {obj.get('kind')} is not served")
        kind, served = found
        metadata = obj.get("metadata")
        given = metadata if isinstance(metadata, dict) else {}
        namespace = str(given.get("namespace") or "default") if kind.namespaced else ""
        if namespace and self.store[NAMESPACE].get(namespace) is None:
            self.create(NAMESPACE, "", {"metadata": {"name": namespace}})
        if kind is NAMESPACE and self.store[NAMESPACE].get(given.get("name", "")) is not None:
            # Already created for an earlier object: apply its labels.
            self._writer.update(Target(kind, served, "", given["name"]), lambda _shown: obj)
            return
        name = self._writer.create(Target(kind, served, namespace), obj).object["metadata"]["name"]
        if kind.has_status and obj.get("status"):
            target = Target(kind, served, namespace, name, "status")
            self._writer.update(target, lambda shown: {**shown, "status": obj["status"]})
