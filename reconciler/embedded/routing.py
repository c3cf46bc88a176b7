"""Requests and responses without sockets, which kind and object a path names, and the options of writes."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.api.objects.semantics import NEWEST_MINOR
from reconciler.api.validation.bodies import bad_request, invalid, no_such_resource
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind


class NoSuchPath(Exception):
    """The path is not below a served group and version."""


class Target(Struct, frozen=True):
    """A collection, an object of it, or a subresource of that object."""

    kind: ServedKind
    served: GroupVersion
    namespace: str = ""
    """Empty for cluster-scoped kinds and for collections across all namespaces."""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The key of the object in its store."""
        return f"{self.namespace}/{self.name}" if self.kind.namespaced else self.name

    @property
    def prefix(self) -> str:
        """The common prefix of the collection's keys."""
        return f"{self.namespace}/" if self.namespace else ""


class Routes:
    """The served kinds by group, version and plural name."""

    def __init__(
        self,
        kinds: Iterable[ServedKind],
        serves: Callable[[ServedKind, GroupVersion], bool],
        release: int = NEWEST_MINOR,
    ) -> None:
        self._serves = serves
        self.release = release
        """The minor release of Kubernetes 1 whose versions are served"""
        self._by_version: dict[GroupVersion, dict[str, ServedKind]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ServedKind) -> None:
        """Serve one more kind."""
        for served in kind.served:
            if kind.is_in(self.release, served) and self._serves(kind, served):
                self._by_version.setdefault(served, {})[kind.plural] = kind

    def versions(self) -> list[GroupVersion]:
        """Every served group and version, in order of registration."""
        return list(self._by_version)

    def kinds(self, served: GroupVersion) -> list[ServedKind]:
        """The kinds of one version, sorted by plural name. Empty if it is not served."""
        found = self._by_version.get(served, {})
        return [found[plural] for plural in sorted(found)]

    def kind_of(self, api_version: str, kind: str) -> tuple[ServedKind, GroupVersion] | None:
        """The kind of an object by its apiVersion and kind, if served."""
        group, _, version = api_version.rpartition("/")
        served = GroupVersion(group, version)
        found = self._by_version.get(served, {})
        return next(((candidate, served) for candidate in found.values() if candidate.kind == kind), None)

    def resolve(self, path: str) -> Target:
        """The target of a path. Raises NoSuchPath, or a 404 below a served version."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            served, rest = GroupVersion("", parts[1]), parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            served, rest = GroupVersion(parts[1], parts[2]), parts[3:]
        else:
            raise NoSuchPath
        kinds = self._by_version.get(served)
        if kinds is None:
            raise NoSuchPath
        namespace = ""
        # /namespaces/x/status is a subresource of the namespace; /namespaces/x/pods is a collection in it.
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        kind = kinds.get(rest[0])
        if kind is None or len(rest) > 3 or "" in rest or (namespace and not kind.namespaced):
            raise no_such_resource()
        name, subresource = [*rest[1:], "", ""][:2]
        if kind.namespaced and name and not namespace:
            raise no_such_resource()
        return Target(kind, served, namespace, name, subresource)


class Request(Struct, frozen=True):
    """One HTTP request. Header names have their usual case: Accept, Content-Type."""

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    groups: Sequence[str] = ()
    """The values of `Impersonate-Group`, the only header that clients repeat."""


class Response(Struct, frozen=True):
    """A complete response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Stream(Struct, frozen=True):
    """A watch: chunks of complete lines, one event per line, until the server ends it. Status 200."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = "application/json"


_VALIDATION = ("", "Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan")
MAX_MANAGER = 128
_NAMES = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_UNSUPPORTED, _INVALID = "FieldValueNotSupported", "FieldValueInvalid"


def check_options(method: str, query: Mapping[str, str], *, applies: bool) -> None:
    """Raise a 422 for options of a write that an API server refuses. `applies`: server-side apply."""
    options = Field(dict(query))
    if (dry_run := options["dryRun"]).text() not in ("", "All"):
        dry_run.unsupported(("All",))
    if method != "DELETE":
        if (directive := options["fieldValidation"]).text() not in _VALIDATION:
            directive.unsupported(_VALIDATION)
        manager = options["fieldManager"]
        if len(manager.text()) > MAX_MANAGER:
            manager.too_long(MAX_MANAGER)
        if not manager.text().isprintable():
            manager.note(_INVALID, "Invalid value: should only contain printable characters")
        if applies and not manager.text():
            manager.required("is required for apply patch")
        if method == "PATCH" and not applies and options["force"].present:
            options["force"].forbidden("may not be specified for non-apply patch")
    _refuse(method, options)


def delete_options(body: Any, query: Mapping[str, str]) -> Object:
    """The options of a DELETE, from its body or else its query. Raises a 400 or 422."""
    if not isinstance(body, dict):
        raise bad_request("the body of a DELETE request must be DeleteOptions")
    options: Object = dict(body)
    if not body:
        for key in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
            if key in query:
                options[key] = query[key]
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    asked = Field(options)["propagationPolicy"]
    if policy is not None and orphans is not None:
        asked.note(_INVALID, "Invalid value: orphanDependents and deletionPropagation cannot be both set")
    elif policy is not None and policy not in _POLICIES:
        words = ", ".join(f'"{word}"' for word in _POLICIES)
        asked.note(_UNSUPPORTED, f'Unsupported value: "{policy}": supported values: {words}')
    _refuse("DELETE", asked)
    if orphans is not None:
        options["propagationPolicy"] = "Orphan" if orphans in (True, "true", "1") else "Background"
    grace = options.get("gracePeriodSeconds")
    if grace is not None:
        try:
            options["gracePeriodSeconds"] = int(grace)
        except (TypeError, ValueError) as exc:
            raise bad_request(f"gracePeriodSeconds: {grace!r} is not a whole number") from exc
    return options


def _refuse(method: str, options: Field) -> None:
    if options.causes:
        raise invalid(_NAMES[method], "meta.k8s.io", "", options.causes)
