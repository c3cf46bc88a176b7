"""The server's logic: a request in, an answer or a watch out. No sockets, no clock of its own."""

import random as random_module
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from reconciler.embedded import discovery, namespaces
from reconciler.embedded.builtin import BUILTIN, NAMESPACE, POD
from reconciler.embedded.encoding import decode_json, decode_yaml, encode
from reconciler.embedded.fields import Cause, WrongType
from reconciler.embedded.kinds import Object, ServedKind
from reconciler.embedded.messages import Request, Response, Stream
from reconciler.embedded.patching import bind, patcher
from reconciler.embedded.presenting import View, choose_view
from reconciler.embedded.protobuf import MEDIA as PROTOBUF
from reconciler.embedded.protobuf import decode_protobuf
from reconciler.embedded.reading import get, list_objects, selection
from reconciler.embedded.routing import NoSuchPath, Routes, Target
from reconciler.embedded.shelf import Record
from reconciler.embedded.status import (
    Refusal,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_resource,
    too_large,
    unsupported_media_type,
)
from reconciler.embedded.store import Store
from reconciler.embedded.watching import start_watch
from reconciler.embedded.writing import Writer
from reconciler.errors import Rejected

MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request's body."""
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
    ) -> None:
        served = (*BUILTIN, *kinds)
        self.now = now
        self.store = Store(served, history=history)
        self.writer = Writer(self.store, now=now, random=random or random_module.Random())
        self._routes = Routes(served)
        for name in namespaces.START:
            namespaces.ensure(self.store, self.writer, name)

    def register(self, kind: ServedKind) -> None:
        """Serve one more kind from now on."""
        self.store.add(kind)
        self._routes.add(kind)

    def compact(self) -> None:
        """Forget all history, as a cluster's database does now and then."""
        self.store.compact()

    def load(self, objects: Iterable[Object]) -> None:
        """Create manifests, and the namespaces they name; a status that is given is written too.

        Raises Rejected, naming the object; those before it stay.
        """
        for obj in objects:
            try:
                self._load(obj)
            except (Refusal, WrongType) as exc:
                metadata = obj.get("metadata") or {}
                raise Rejected(f"{obj.get('kind')} {metadata.get('name', '')}: {exc}") from exc

    def create(self, kind: ServedKind, namespace: str, obj: Object) -> Object:
        """Create an object of the stored version directly. Raises a Refusal."""
        return self.writer.create(Target(kind, kind.stored, namespace), obj, dry_run=False).object

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
        target = Target(kind, kind.stored, namespace, name, subresource)
        record = self.writer.update(target, change)
        self._swept(target)
        return record.object

    def delete(self, kind: ServedKind, namespace: str, name: str) -> None:
        """Delete an object directly. Raises a Refusal."""
        target = Target(kind, kind.stored, namespace, name)
        self.writer.delete(target, {})
        self._swept(target)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Give a pod its node, as a scheduler does. Raises a Refusal."""
        self.update(POD, namespace, name, bind({"target": {"name": node}}), subresource="binding")

    def handle(self, request: Request) -> Response | Stream:
        """Answer a request. Never raises for what a client sent."""
        try:
            return self._handle(request)
        except Refusal as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return Response(refusal.code, encode(refusal.body()), headers=headers)
        except WrongType as exc:
            return Response(400, encode(bad_request(f"json: cannot unmarshal: {exc}").body()))
        except NoSuchPath:
            return Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")

    def _handle(self, request: Request) -> Response | Stream:
        if len(request.body) > MAX_BODY:
            raise too_large(MAX_BODY)
        answer = discovery.answer(self._routes, request.path)
        if answer is not None:
            if request.method != "GET":
                raise method_not_allowed()
            return answer
        target = self._routes.resolve(request.path)
        view = choose_view(
            target.kind,
            target.served,
            request.headers.get("Accept", ""),
            include=request.query.get("includeObject", ""),
            now=self.now,
        )
        if not target.name:
            return self._collection(request, target, view)
        if target.subresource:
            return self._subresource(request, target, view)
        return self._object(request, target, view)

    def _collection(self, request: Request, target: Target, view: View) -> Response | Stream:
        match request.method:
            case "GET" if request.query.get("watch", "").lower() in ("1", "true"):
                return Stream(start_watch(self.store, target, request.query, view).chunks())
            case "GET":
                return Response(200, list_objects(self.store, target, request.query, view))
            case "POST" if target.namespace or not target.kind.namespaced:
                record = self.writer.create(target, _body(request), dry_run=_dry_run(request.query))
                return Response(201, view.whole(record))
            case "DELETE" if target.namespace or not target.kind.namespaced:
                return self._delete_collection(request, target, view)
        raise method_not_allowed()

    def _object(self, request: Request, target: Target, view: View) -> Response | Stream:
        match request.method:
            case "GET" if request.query.get("watch", "").lower() in ("1", "true"):
                query = {**request.query, "fieldSelector": f"metadata.name={target.name}"}
                return Stream(start_watch(self.store, target, query, view).chunks())
            case "GET":
                return Response(200, view.whole(get(self.store, target)))
            case "PUT" | "PATCH":
                return self._update(request, target, view)
            case "DELETE":
                return self._delete(request, target, view)
        raise method_not_allowed()

    def _subresource(self, request: Request, target: Target, view: View) -> Response:
        if target.subresource == "binding" and target.kind is POD:
            if request.method != "POST":
                raise method_not_allowed()
            self.writer.update(target, bind(_body(request)), dry_run=_dry_run(request.query))
            return Response(
                201,
                encode(
                    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
                ),
            )
        if target.subresource != "status" or not target.kind.has_status:
            raise no_such_resource()
        if request.method == "GET":
            return Response(200, view.whole(get(self.store, target)))
        if request.method not in ("PUT", "PATCH"):
            raise method_not_allowed()
        return self._update(request, target, view)

    def _update(self, request: Request, target: Target, view: View) -> Response:
        dry_run = _dry_run(request.query)
        if request.method == "PUT":
            body = _body(request)
            record = self.writer.update(target, lambda _shown: body, dry_run=dry_run)
            self._swept(target)
            return Response(200, view.whole(record))
        media = request.headers.get("Content-Type", "").partition(";")[0].strip()
        patch = decode_yaml(request.body) if media == "application/apply-patch+yaml" else None
        if media == "application/apply-patch+yaml" and self.store[target.kind].get(target.key) is None:
            record = self.writer.create(_collection_of(target), patch, dry_run=dry_run)
            return Response(201, view.whole(record))
        record = self.writer.update(
            target, patcher(target.kind, media, request.body if patch is None else patch), dry_run=dry_run
        )
        self._swept(target)
        return Response(200, view.whole(record))

    def _delete(self, request: Request, target: Target, view: View) -> Response:
        options, dry_run = self._delete_options(request)
        if target.kind is NAMESPACE and not dry_run:
            get(self.store, target)
            return Response(200, view.whole(namespaces.empty(self.store, self.writer, target.name)))
        record = self.writer.delete(target, options, dry_run=dry_run)
        self._swept(target)
        if target.kind.returns_deleted or self.store[target.kind].get(target.key) is not None:
            return Response(200, view.whole(record))
        details = {"name": target.name, "group": target.served.group, "kind": target.kind.plural}
        details["uid"] = record.object["metadata"]["uid"]
        if not target.served.group:
            del details["group"]
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return Response(200, encode(status))

    def _delete_collection(self, request: Request, target: Target, view: View) -> Response:
        options, dry_run = self._delete_options(request)
        selected = selection(target, request.query)
        doomed = [record for record in self.store[target.kind].scan(target.prefix) if selected(record.object)]
        for record in doomed:
            self.writer.delete(_target_of(target, record), options, dry_run=dry_run)
        self._swept(target)
        return Response(200, view.listing(doomed, {"resourceVersion": str(self.store.version)}))

    def _delete_options(self, request: Request) -> tuple[Mapping[str, Any], bool]:
        options = _body(request) if request.body else {}
        if not isinstance(options, dict):
            raise bad_request("the body of a deletion is DeleteOptions")
        if options.get("dryRun"):
            return options, True
        return options, _dry_run(request.query)

    def _swept(self, target: Target) -> None:
        """A terminating namespace goes with its last object."""
        if target.kind.namespaced and namespaces.is_terminating(self.store, target.namespace):
            namespaces.sweep(self.store, target.namespace)

    def _load(self, obj: Object) -> None:
        found = self._routes.kind_of(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        if found is None:
            raise bad_request(f"{obj.get('apiVersion')} {obj.get('kind')} is not served")
        kind, served = found
        namespace = ""
        if kind.namespaced:
            namespace = (obj.get("metadata") or {}).get("namespace") or "default"
            namespaces.ensure(self.store, self.writer, namespace)
        record = self.writer.create(Target(kind, served, namespace), obj, dry_run=False)
        if kind.has_status and obj.get("status"):
            name = record.object["metadata"]["name"]
            target = Target(kind, served, namespace, name, "status")
            self.writer.update(target, lambda shown: {**shown, "status": obj["status"]})


def _success(code: int, details: Object | None = None) -> Response:
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Response(code, encode({**status, **({"details": details} if details else {"code": code})}))


def _collection_of(target: Target) -> Target:
    return Target(target.kind, target.served, target.namespace)


def _target_of(collection: Target, record: Record) -> Target:
    metadata = record.object["metadata"]
    return Target(collection.kind, collection.served, metadata.get("namespace", ""), metadata["name"])


def _body(request: Request) -> Any:
    media = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if media in ("application/yaml", "application/x-yaml"):
        return decode_yaml(request.body)
    if media == PROTOBUF:
        return decode_protobuf(request.body)
    if media not in ("", "application/json", "*/*", "application/octet-stream"):
        raise unsupported_media_type()
    return decode_json(request.body)


def _dry_run(query: Mapping[str, str]) -> bool:
    wish = query.get("dryRun", "")
    if wish not in ("", "All"):
        cause = Cause("FieldValueNotSupported", 'Unsupported value: supported values: "All"', "dryRun")
        raise invalid("CreateOptions", "meta.k8s.io", "", [cause])
    return wish == "All"
