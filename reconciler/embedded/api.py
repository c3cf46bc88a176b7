"""The server's logic: a request in, an answer or a watch out. No sockets, no clock of its own."""

import random as random_module
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from random import Random

from reconciler.embedded.access import Guard
from reconciler.embedded.answers import Answers
from reconciler.embedded.builtin import BUILTIN, NAMESPACE, POD, START_NAMESPACES
from reconciler.embedded.encoding import encode
from reconciler.embedded.fields import WrongType
from reconciler.embedded.kinds import GroupVersion, Object, ServedKind
from reconciler.embedded.messages import Request, Response, Stream
from reconciler.embedded.patching import bind
from reconciler.embedded.routing import NoSuchPath, Routes, Target
from reconciler.embedded.status import Refusal, bad_request
from reconciler.embedded.store import Store
from reconciler.embedded.writing import Writer
from reconciler.errors import Rejected

HISTORY = 20_000
"""Changes of each kind that watches can be resumed from."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """An API server in memory. `handle` is one indivisible step; only watches wait."""

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
        """`guard` judges requests that come through `handle`; without one, everybody may do everything.

        `serves` says which versions of a kind are offered, as older servers lack the newer ones. All are
        kept in the same shape all the same.
        """
        served = (*BUILTIN, *kinds)
        self.now = now
        self.store = Store(served, history=history)
        self._writer = Writer(self.store, now=now, random=random or random_module.Random())
        self._routes = Routes(served, serves)
        self._answers = Answers(self.store, self._writer, self._routes, now, guard=guard)
        for name in START_NAMESPACES:
            self.create(NAMESPACE, "", {"metadata": {"name": name}})

    def register(self, kind: ServedKind) -> None:
        """Serve one more kind from now on."""
        self.store.add(kind)
        self._routes.add(kind)

    def compact(self) -> None:
        """Forget all history, as a cluster's database does now and then."""
        self.store.compact()

    def handle(self, request: Request) -> Response | Stream:
        """Answer a request. Never raises for what a client sent."""
        try:
            return self._answers.answer(request)
        except Refusal as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return Response(refusal.code, encode(refusal.body()), headers=headers)
        except WrongType as exc:
            return Response(400, encode(bad_request(f"json: cannot unmarshal: {exc}").body()))
        except NoSuchPath:
            return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")

    def load(self, objects: Iterable[Object]) -> None:
        """Create manifests, and the namespaces they name; a status that is given is written too.

        Raises Rejected, naming the object; those before it stay.
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
        """Replace an object by what `change` makes of it, directly. Raises a Refusal."""
        return self._writer.update(Target(kind, kind.stored, namespace, name, subresource), change).object

    def delete(self, kind: ServedKind, namespace: str, name: str) -> None:
        """Delete an object directly. Raises a Refusal."""
        self._writer.delete(Target(kind, kind.stored, namespace, name), {})

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Give a pod its node, as a scheduler does. Raises a Refusal."""
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
            # Made already for an object that came before it: take over its labels.
            self._writer.update(Target(kind, served, "", given["name"]), lambda _shown: obj)
            return
        name = self._writer.create(Target(kind, served, namespace), obj).object["metadata"]["name"]
        if kind.has_status and obj.get("status"):
            target = Target(kind, served, namespace, name, "status")
            self._writer.update(target, lambda shown: {**shown, "status": obj["status"]})
