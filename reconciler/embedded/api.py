"""The server without sockets and clock: takes a request, chooses the operation by method and path, and
returns a response or a watch.
"""

import random as random_module
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from reconciler.api.validation.bodies import (
    MAX_BODY,
    Refusal,
    bad_request,
    decode_yaml,
    encode,
    invalid,
    method_not_allowed,
    no_such_resource,
    not_implemented,
    too_large,
)
from reconciler.api.validation.fields import Cause, WrongType
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.served_kinds import NAMESPACE, POD, START_NAMESPACES, every_kind
from reconciler.embedded import discovery, reviews
from reconciler.embedded.accounts import Account
from reconciler.embedded.bodies import decode_body, media_type
from reconciler.embedded.guard import Guard
from reconciler.embedded.patches import APPLY, bind, patcher
from reconciler.embedded.presenting import View, choose_view
from reconciler.embedded.reading import get_object, list_objects, selection
from reconciler.embedded.routing import NoSuchPath, Request, Response, Routes, Stream, Target
from reconciler.embedded.store import Record, Store
from reconciler.embedded.watching import start_watch
from reconciler.embedded.writing import Writer, evict
from reconciler.errors import Rejected

_ON_NODES = ("attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize")
"""Subresources of pods for which a kubelet is needed."""
_TRUE = ("1", "true")


class RequestHandler:
    """Turns requests into operations on a store."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        routes: Routes,
        now: Callable[[], datetime],
        *,
        guard: Guard | None,
    ) -> None:
        self._store = store
        self._guard = guard
        self._writer = writer
        self._routes = routes
        self._now = now

    def answer(self, request: Request) -> Response | Stream:
        """Handle one request. Raises Refusal, WrongType or NoSuchPath."""
        if len(request.body) > MAX_BODY:
            raise too_large(MAX_BODY)
        sender = self._guard.account(request) if self._guard is not None else None
        known = self._known(request, sender)
        if known is not None:
            return known
        target = self._routes.resolve(request.path)
        if self._guard is not None and sender is not None:
            self._guard.check(sender, request, target)
        accept, include = request.headers.get("Accept", ""), request.query.get("includeObject", "")
        view = choose_view(target.kind, target.served, accept, include=include, now=self._now)
        if not target.name:
            return self._collection(request, target, view)
        if target.subresource:
            return self._subresource(request, target, view, sender)
        return self._object(request, target, view)

    def _known(self, request: Request, sender: Account | None) -> Response | None:
        """The answer for paths that name no objects; None for other paths."""
        guard = self._guard
        review = reviews.answer_review(guard, sender, request)
        if review is not None:
            return review
        known = discovery.discover(self._routes, request.path, request.headers.get("Accept", ""))
        if known is None:
            return None
        if guard is not None and sender is not None:
            guard.check_path(sender, request)
        if request.method != "GET":
            raise method_not_allowed()
        return known

    def _collection(self, request: Request, target: Target, view: View) -> Response | Stream:
        is_whole = bool(target.namespace) or not target.kind.namespaced
        match request.method:
            case "GET" if request.query.get("watch", "").lower() in _TRUE:
                return Stream(start_watch(self._store, target, request.query, view).chunks())
            case "GET":
                return Response(200, list_objects(self._store, target, request.query, view))
            case "POST" if is_whole:
                record = self._writer.create(target, decode_body(request), dry_run=_dry_run(request.query))
                return Response(201, view.whole(record))
            case "DELETE" if is_whole:
                return self._delete_collection(request, target, view)
        raise method_not_allowed()

    def _object(self, request: Request, target: Target, view: View) -> Response | Stream:
        match request.method:
            case "GET" if request.query.get("watch", "").lower() in _TRUE:
                query = {**request.query, "fieldSelector": f"metadata.name={target.name}"}
                return Stream(start_watch(self._store, target, query, view).chunks())
            case "GET":
                return Response(200, view.whole(get_object(self._store, target)))
            case "PUT":
                return self._replace(request, target, view)
            case "PATCH":
                return self._patch(request, target, view)
            case "DELETE":
                return self._delete(request, target, view)
        raise method_not_allowed()

    def _subresource(self, request: Request, target: Target, view: View, sender: Account | None) -> Response:
        if target.subresource == "binding" and target.kind is POD:
            if request.method != "POST":
                raise method_not_allowed()
            self._writer.update(target, bind(decode_body(request)), dry_run=_dry_run(request.query))
            return _success(201, {})
        if target.subresource == "eviction" and target.kind is POD:
            if request.method != "POST":
                raise method_not_allowed()
            body = decode_body(request)
            options = body.get("deleteOptions") if isinstance(body, dict) else None
            dry_run = _dry_run(request.query, options if isinstance(options, dict) else {})
            evict(self._store, self._writer, target, body, dry_run=dry_run)
            return _success(201, {})
        if target.kind is POD and target.subresource in _ON_NODES:
            get_object(self._store, target)
            raise not_implemented(f"pods/{target.subresource} is not served: no pod has real containers here")
        if target.subresource != "status" or not target.kind.has_status:
            raise no_such_resource()
        match request.method:
            case "GET":
                return Response(200, view.whole(get_object(self._store, target)))
            case "PUT":
                return self._replace(request, target, view, sender)
            case "PATCH":
                return self._patch(request, target, view, sender)
        raise method_not_allowed()

    def _replace(
        self, request: Request, target: Target, view: View, sender: Account | None = None
    ) -> Response:
        body = decode_body(request)
        change = self._allowed(request, target, sender, lambda _shown: body)
        record = self._writer.update(target, change, dry_run=_dry_run(request.query))
        return Response(200, view.whole(record))

    def _allowed(
        self, request: Request, target: Target, sender: Account | None, change: Callable[[Object], Any]
    ) -> Callable[[Object], Any]:
        if self._guard is None or sender is None:
            return change
        return self._guard.protect_allocation(sender, request, target, change)

    def _patch(self, request: Request, target: Target, view: View, sender: Account | None = None) -> Response:
        media, dry_run = media_type(request), _dry_run(request.query)
        if media != APPLY:
            change = self._allowed(request, target, sender, patcher(target.kind, media, request.body))
            return Response(200, view.whole(self._writer.update(target, change, dry_run=dry_run)))
        wanted = decode_yaml(request.body)
        if target.subresource or self._store[target.kind].get(target.key) is not None:
            change = self._allowed(request, target, sender, patcher(target.kind, media, wanted))
            return Response(200, view.whole(self._writer.update(target, change, dry_run=dry_run)))
        record = self._writer.create(target, wanted, dry_run=dry_run)
        return Response(201, view.whole(record))

    def _delete(self, request: Request, target: Target, view: View) -> Response:
        options = _delete_options(request)
        record = self._writer.delete(target, options, dry_run=_dry_run(request.query, options))
        if target.kind.returns_deleted or self._store[target.kind].get(target.key) is not None:
            return Response(200, view.whole(record))
        details = {"name": target.name, "kind": target.kind.plural, "uid": record.object["metadata"]["uid"]}
        if target.served.group:
            details["group"] = target.served.group
        return _success(200, {"details": details})

    def _delete_collection(self, request: Request, target: Target, view: View) -> Response:
        options = _delete_options(request)
        dry_run, selected = _dry_run(request.query, options), selection(target, request.query)
        records = [
            record for record in self._store[target.kind].scan(target.prefix) if selected(record.object)
        ]
        for record in records:
            self._writer.delete(_target_of(target, record), options, dry_run=dry_run)
        return Response(200, view.listing(records, {"resourceVersion": str(self._store.version)}))


def _success(code: int, more: Object) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Response(code, encode({**status, **more, "code": code}))


def _target_of(collection: Target, record: Record) -> Target:
    metadata = record.object["metadata"]
    return Target(collection.kind, collection.served, metadata.get("namespace", ""), metadata["name"])


def _delete_options(request: Request) -> Object:
    options = decode_body(request) if request.body else {}
    if not isinstance(options, dict):
        raise bad_request("the body of a DELETE request must be DeleteOptions")
    return options


def _dry_run(query: Mapping[str, str], options: Object | None = None) -> bool:
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        cause = Cause("FieldValueNotSupported", 'Unsupported value: supported values: "All"', "dryRun")
        raise invalid("CreateOptions", "meta.k8s.io", "", [cause])
    return value == "All" or bool(options and options.get("dryRun"))


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
        served = (*every_kind(), *kinds)
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
