"""A transport that counts requests by result, and watches by kind."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from prometheus_client import Counter, Histogram

from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import ReconcilerError, Undecided
from reconciler.operations.metrics.meters import Meters

_ALSO = {"events", "leases", "subjectaccessreviews", "tokenreviews"}
"""Resources with their own series that are not watched"""
_SUBRESOURCES = {"binding", "status"}

DISCOVERY = "discovery"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_RESULTS = {
    401: "denied", 403: "denied", 404: "not_found", 409: "conflict", 410: "expired", 429: "busy", 503: "busy",
}  # fmt: skip


class Metered:
    """Passes all requests and responses through unchanged."""

    def __init__(
        self,
        behind: Transport,
        meters: Meters,
        clock: Callable[[], float],
        watched: Iterable[Resource] = (),
    ) -> None:
        """`clock` counts seconds. Only the names of `watched` resources and a few others appear in series."""
        self._behind = behind
        self._meters = meters
        self._clock = clock
        self._kinds = {resource.plural: resource.kind for resource in watched}
        self._ended: dict[str, str] = {}
        self._series: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self.answers = 0
        """Completed requests, successful or not"""

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        verb, resource = self._names(request.method, request.path)
        began, result = self._clock(), "cancelled"
        try:
            response = await self._behind.send(request)
            result = _result(response.status)
        except Undecided:
            result = "unanswered"
            raise
        except ReconcilerError:
            result = "unreachable"
            raise
        finally:
            self.answers += 1
            self._count((verb, resource, result), self._clock() - began)
        kind = self._kinds.get(resource)
        if kind and verb == "list" and result == "ok" and _is_first_page(request):
            self._meters.listings.labels(kind).inc()
        return response

    def stream(self, request: WatchRequest) -> Lines:
        """See `Transport.stream`."""
        kind = self._kinds.get(self._names("GET", request.path)[1])
        behind = self._behind.stream(request)
        return self._watch(kind, behind) if kind else behind

    def _count(self, labels: tuple[str, str, str], seconds: float) -> None:
        if labels not in self._series:  # looking a series up is slower than counting
            requests, durations = self._meters.requests, self._meters.request_seconds
            self._series[labels] = requests.labels(*labels), durations.labels(*labels[:2])
        counter, histogram = self._series[labels]
        counter.inc()
        histogram.observe(seconds)

    @asynccontextmanager
    async def _watch(self, kind: str, behind: Lines) -> AsyncIterator[AsyncIterator[bytes]]:
        if kind in self._ended:
            self._meters.watch_restarts.labels(kind, self._ended[kind]).inc()
        self._ended[kind] = "failed"
        async with behind as lines:
            yield lines
        self._ended[kind] = "ended"

    def _names(self, method: str, path: str) -> tuple[str, str]:
        """Verb and resource as Kubernetes names them; `other` for resources that are not used here."""
        verb, named = names(method, path)
        plural, _, sub = named.partition("/")
        known = named == DISCOVERY or (
            (plural in self._kinds or plural in _ALSO) and (not sub or sub in _SUBRESOURCES)
        )
        return verb, named if known else "other"


def names(method: str, path: str) -> tuple[str, str]:
    """Verb and resource, with its subresource, as Kubernetes names them."""
    _, kind, *parts = path.split("/")
    parts = parts[1 if kind == "api" else 2 :]  # without group and version
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if not parts or not parts[0] or len(parts) > 3 or kind not in ("api", "apis"):
        return _VERBS.get(method, "get"), DISCOVERY
    plural, name, sub = (*parts, "", "")[:3]
    return _VERBS.get(method) or ("get" if name else "list"), f"{plural}/{sub}" if sub else plural


def _is_first_page(request: Request) -> bool:
    return not any(name == "continue" for name, _ in request.query)


def _result(status: int) -> str:
    if 200 <= status <= 299:
        return "ok"
    return _RESULTS.get(status) or ("server_error" if status >= 500 else "rejected")
