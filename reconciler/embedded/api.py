"""The server without sockets and clock: takes a request, chooses the operation by method and path, and
returns a response or a watch.
"""

import random as random_module
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.api.objects.semantics import NEWEST_MINOR
from reconciler.api.validation import bodies
from reconciler.api.validation.fields import Field, WrongType, timestamp
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.served_kinds import NAMESPACE, POD, START_NAMESPACES, every_kind
from reconciler.embedded import routing
from reconciler.embedded.accounts import Account
from reconciler.embedded.applying import applied, checked
from reconciler.embedded.bodies import APPLY, bind, decode_body, keeping_identity, media_type, patcher
from reconciler.embedded.discovery import discover
from reconciler.embedded.guard import Guard, OpenGuard, answer_review
from reconciler.embedded.managers import Owner
from reconciler.embedded.reading import View, choose_view, get_object, list_objects, selection, version_of
from reconciler.embedded.schemas import RELEASE_OF_NEWER, FieldValidation, known, model_of_kind
from reconciler.embedded.store import Store
from reconciler.embedded.watching import start_watch
from reconciler.embedded.writing import Writer, evict
from reconciler.errors import Rejected

_ON_NODES = ("attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize")
"""Subresources of pods for which a kubelet is needed."""
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


class _Call(Struct, frozen=True):
    """One request about objects, and what it is answered from."""

    store: Store
    writer: Writer
    guard: Guard
    sender: Account
    request: routing.Request
    target: routing.Target
    view: View
    fields: FieldValidation

    def answer(self) -> routing.Response | routing.Stream:
        """Do what is asked. Raises a Refusal."""
        if self.request.method in _WRITES:
            applies = self.request.method == "PATCH" and media_type(self.request) == APPLY
            routing.check_options(self.request.method, self.request.query, applies=applies)
        if not self.target.name:
            found = self._collection()
        else:
            found = self._subresource() if self.target.subresource else self._object()
        if self.fields.warnings and isinstance(found, routing.Response):
            warning = ", ".join(self.fields.headers())
            return replace(found, headers={**found.headers, "Warning": warning})
        return found

    def _collection(self) -> routing.Response | routing.Stream:
        target = self.target
        is_whole = bool(target.namespace) or not target.kind.namespaced
        match self.request.method:
            case "GET" if self._watches:
                return routing.Stream(start_watch(self.store, target, self.request.query, self.view).chunks())
            case "GET":
                return routing.Response(200, list_objects(self.store, target, self.request.query, self.view))
            case "POST" if is_whole:
                body = self.fields.created(decode_body(self.request), target.served, target.kind)
                if isinstance(body, dict) and Field(body)["metadata"]["resourceVersion"].text():
                    raise bodies.Refusal(
                        500, "", "resourceVersion should not be set on objects to be created"
                    )
                record = self.writer.create(target, body, self._owner(), dry_run=self._dry_run())
                return routing.Response(201, self.view.whole(record))
            case "DELETE" if is_whole:
                return self._delete_collection()
        raise bodies.method_not_allowed()

    def _object(self) -> routing.Response | routing.Stream:
        match self.request.method:
            case "GET" if self._watches:
                query = {**self.request.query, "fieldSelector": f"metadata.name={self.target.name}"}
                return routing.Stream(start_watch(self.store, self.target, query, self.view).chunks())
            case "DELETE":
                return self._delete()
        return self._get_or_change()

    def _subresource(self) -> routing.Response:
        target, request = self.target, self.request
        if target.kind is POD and target.subresource in ("binding", "eviction"):
            if request.method != "POST":
                raise bodies.method_not_allowed()
            body = decode_body(request)
            if target.subresource == "binding":
                bound = bind(body, target.name, timestamp(self.writer.now()))
                self.writer.update(target, bound, None, dry_run=self._dry_run())
            else:
                options = body.get("deleteOptions") if isinstance(body, dict) else None
                dry_run = self._dry_run(options if isinstance(options, dict) else {})
                evict(self.store, self.writer, target, body, dry_run=dry_run)
            return _success(201, {})
        if target.kind is POD and target.subresource in _ON_NODES:
            get_object(self.store, target)
            raise bodies.not_implemented(
                f"pods/{target.subresource} is not served: no pod has real containers here"
            )
        if target.subresource != "status" or not target.kind.has_status:
            raise bodies.no_such_resource()
        return self._get_or_change()

    def _get_or_change(self) -> routing.Response:
        match self.request.method:
            case "GET":
                if (wanted := version_of(self.request.query)) > self.store.version:
                    raise bodies.version_too_large(wanted, self.store.version)
                return routing.Response(200, self.view.whole(get_object(self.store, self.target)))
            case "PUT":
                body = self.fields.created(decode_body(self.request), self.target.served, self.target.kind)
                return self._update(lambda _shown: body)
            case "PATCH":
                return self._patch()
        raise bodies.method_not_allowed()

    def _patch(self) -> routing.Response:
        target, media = self.target, media_type(self.request)
        if media != APPLY:
            change = keeping_identity(target.kind, patcher(target.kind, media, self.request.body))
            return self._update(self.fields.patched(change, target.served, target.kind))
        return self._apply(bodies.decode_yaml(self.request.body))

    def _apply(self, body: Any) -> routing.Response:
        target, owner = self.target, self._owner(applies=True)
        found = checked(target, body, newer=self.fields.newer)
        config = self.fields.judged(
            found, lambda why: bodies.bad_request(f"error strict decoding YAML: {why}")
        )
        if not target.subresource and self.store[target.kind].get(target.key) is None:
            if "resourceVersion" in config["metadata"]:
                raise bodies.conflict(target.kind.plural, target.served.group, target.name)
            record = self.writer.create(target, config, owner, dry_run=self._dry_run())
            return routing.Response(201, self.view.whole(record))
        force = self.request.query.get("force", "").lower() in ("1", "true")
        moment = timestamp(self.writer.now())

        def change(shown: Object) -> Object:
            return applied(target, shown, config, owner, moment=moment, force=force)

        return self._update(keeping_identity(target.kind, change), owner)

    def _update(self, change: Callable[[Object], Any], owner: Owner | None = None) -> routing.Response:
        allowed = self.guard.protect_allocation(self.sender, self.request, self.target, change)
        owner = owner or self._owner()
        record = self.writer.update(self.target, allowed, owner, dry_run=self._dry_run())
        return routing.Response(200, self.view.whole(record))

    def _owner(self, *, applies: bool = False) -> Owner:
        """Whoever writes, by its own name or that of its program."""
        agent = self.request.headers.get("User-Agent", "").partition("/")[0][: routing.MAX_MANAGER]
        name = self.request.query.get("fieldManager") or agent or "unknown"
        return Owner(name, self.target.subresource, "" if applies else str(self.target.served))

    def _delete(self) -> routing.Response:
        target, options = self.target, self._delete_options()
        record = self.writer.delete(target, options, dry_run=self._dry_run(options))
        if target.kind.returns_deleted or self.store[target.kind].get(target.key) is not None:
            return routing.Response(200, self.view.whole(record))
        details = {"name": target.name, "kind": target.kind.plural, "uid": record.object["metadata"]["uid"]}
        if target.served.group:
            details["group"] = target.served.group
        return _success(200, {"details": details})

    def _delete_collection(self) -> routing.Response:
        target, options = self.target, self._delete_options()
        dry_run, selected = self._dry_run(options), selection(target, self.request.query)
        records = [one for one in self.store[target.kind].scan(target.prefix) if selected(one.object)]
        for record in records:
            metadata = record.object["metadata"]
            one = routing.Target(target.kind, target.served, metadata.get("namespace", ""), metadata["name"])
            self.writer.delete(one, options, dry_run=dry_run)
        return routing.Response(200, self.view.listing(records, {"resourceVersion": str(self.store.version)}))

    @property
    def _watches(self) -> bool:
        return self.request.query.get("watch", "").lower() in ("1", "true")

    def _delete_options(self) -> Object:
        body = decode_body(self.request) if self.request.body else {}
        return routing.delete_options(body, self.request.query)

    def _dry_run(self, options: Object | None = None) -> bool:
        return self.request.query.get("dryRun") == "All" or bool(options and options.get("dryRun"))


def _success(code: int, more: Object) -> routing.Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return routing.Response(code, bodies.encode({**status, **more, "code": code}))


def _owner_of(target: routing.Target) -> Owner:
    """Owns what the server and its controllers write."""
    return Owner("dra-reconciler", target.subresource, str(target.served))


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
        release: int = NEWEST_MINOR,
    ) -> None:
        """`guard` checks requests to `handle`; without it, every request is allowed.

        `release` is the minor release of Kubernetes 1 whose versions and fields are served.

        `serves` returns whether a version of a kind is served: older servers lack newer versions. The
        stored version is always the same.
        """
        served = (*every_kind(), *kinds)
        self.now = now
        self.store = Store(served, history=history)
        self.writer = Writer(self.store, now=now, random=random or random_module.Random())
        self._routes = routing.Routes(served, serves, release)
        self._has_newer_fields = release >= RELEASE_OF_NEWER
        self._guard = guard or OpenGuard()
        for name in START_NAMESPACES:
            self.create(NAMESPACE, "", {"metadata": {"name": name}})

    def handle(self, request: routing.Request) -> routing.Response | routing.Stream:
        """Answer a request. Never raises because of a client's input."""
        try:
            return self._answer(request)
        except bodies.Refusal as refusal:
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return routing.Response(refusal.code, bodies.encode(refusal.body()), headers=headers)
        except WrongType as exc:
            return routing.Response(
                400, bodies.encode(bodies.bad_request(f"json: cannot unmarshal: {exc}").body())
            )
        except routing.NoSuchPath:
            return routing.Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")

    def _answer(self, request: routing.Request) -> routing.Response | routing.Stream:
        if len(request.body) > bodies.MAX_BODY:
            raise bodies.too_large(bodies.MAX_BODY)
        guard, accept = self._guard, request.headers.get("Accept", "")
        sender = guard.account(request)
        review = answer_review(guard, sender, request)
        if review is not None:
            return review
        known = discover(self._routes, request.path, accept)
        if known is not None:
            guard.check_path(sender, request)
            if request.method != "GET":
                raise bodies.method_not_allowed()
            return known
        target = self._routes.resolve(request.path)
        guard.check(sender, request, target)
        include = request.query.get("includeObject", "")
        view = choose_view(target.kind, target.served, accept, include=include, now=self.now)
        directive = request.query.get("fieldValidation") or "Warn"
        fields = FieldValidation(directive, self._has_newer_fields, [])
        return _Call(self.store, self.writer, guard, sender, request, target, view, fields).answer()

    def load(self, objects: Iterable[Object]) -> None:
        """Create manifests with their status, and the namespaces they name.

        Raises Rejected with the name of the object; earlier objects stay.
        """
        for obj in objects:
            try:
                self._load(obj)
            except (bodies.Refusal, WrongType) as exc:
                metadata = obj.get("metadata")
                name = metadata.get("name", "") if isinstance(metadata, dict) else ""
                raise Rejected(f"{obj.get('kind')} {name}: {exc}") from exc

    def create(self, kind: ServedKind, namespace: str, obj: Object) -> Object:
        """Create an object of the stored version directly. Raises a Refusal."""
        target = routing.Target(kind, kind.stored, namespace)
        return self.writer.create(target, obj, _owner_of(target)).object

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
        target = routing.Target(kind, kind.stored, namespace, name, subresource)
        return self.writer.update(target, change, _owner_of(target)).object

    def delete(self, kind: ServedKind, namespace: str, name: str, **options: Any) -> None:
        """Delete an object directly, with DeleteOptions. Raises a Refusal."""
        self.writer.delete(routing.Target(kind, kind.stored, namespace, name), options)

    def kind_of(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind of a reference, if it is served."""
        found = self._routes.kind_of(api_version, kind)
        return found[0] if found is not None else None

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Bind a pod to a node, as a scheduler does. Raises a Refusal."""
        binding = {"metadata": {"name": name}, "target": {"name": node}}
        change = bind(binding, name, timestamp(self.now()))
        self.writer.update(routing.Target(POD, POD.stored, namespace, name, "binding"), change, None)

    def _load(self, obj: Object) -> None:
        found = self._routes.kind_of(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        if found is None:
            group = str(obj.get("apiVersion", "")).rpartition("/")[0]
            versions = [str(one) for one in self._routes.versions() if one.group == group]
            others = [one for one in versions if self._routes.kind_of(one, str(obj.get("kind", "")))]
            said = f"use {' or '.join(others)}" if others else "leave it out"
            raise bodies.bad_request(f"{obj.get('apiVersion')} {obj.get('kind')} is not served: {said}")
        kind, served = found
        obj = known(obj, model_of_kind(served, kind), newer=self._has_newer_fields).body
        metadata = obj.get("metadata")
        given = metadata if isinstance(metadata, dict) else {}
        namespace = str(given.get("namespace") or "default") if kind.namespaced else ""
        if namespace and self.store[NAMESPACE].get(namespace) is None:
            self.create(NAMESPACE, "", {"metadata": {"name": namespace}})
        if kind is NAMESPACE and self.store[NAMESPACE].get(given.get("name", "")) is not None:
            # Already created for an earlier object: apply its labels.
            target = routing.Target(kind, served, "", given["name"])
            self.writer.update(target, lambda _shown: obj, _owner_of(target))
            return
        target = routing.Target(kind, served, namespace)
        name = self.writer.create(target, obj, _owner_of(target)).object["metadata"]["name"]
        if kind.has_status and obj.get("status"):
            target = routing.Target(kind, served, namespace, name, "status")
            self.writer.update(target, lambda shown: {**shown, "status": obj["status"]}, _owner_of(target))
