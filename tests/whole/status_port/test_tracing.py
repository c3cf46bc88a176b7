"""Traces of a reconciler at work, as a collector receives them over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from reconciler.control.decisions.allocating import Allocated
from tests.tools.http_servers import serving
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

pytestmark = pytest.mark.loopback


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[str, list[Any]]]:
    """The URL of a collector, and the spans that it has received."""
    spans: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        assert request.path == "/v1/traces"
        received = ExportTraceServiceRequest.FromString(await request.read())
        spans.extend(
            span for of in received.resource_spans for scope in of.scope_spans for span in scope.spans
        )
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    async with serving(take) as url:
        yield url, spans


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


async def test_a_reconcile_span_contains_its_decision_and_requests(monkeypatch: pytest.MonkeyPatch):
    cluster = Cluster([device_class(), node("a"), devices("a", "d0")])
    cluster.load(claim("one", 1))
    async with collecting() as (url, spans):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        async with reconciling(cluster) as running:
            (allocated,) = await running.heard(Allocated)
    turns = {span.span_id: span for span in spans if span.name == "turn"}
    (decided,) = [span for span in spans if span.name == "decide"]
    assert attributes(decided) == {"dra.decision_id": allocated.decision_id, "dra.result": "granted"}
    turn = turns[decided.parent_span_id]
    assert attributes(turn)["dra.unit"] == "claim default/one"
    inside = [span for span in spans if span.parent_span_id == turn.span_id and span is not decided]
    assert [span.name for span in inside] == ["patch resourceclaims", "patch resourceclaims/status"]
    assert {attributes(span)["http.response.status_code"] for span in inside} == {200}
    assert all(decided.end_time_unix_nano <= span.start_time_unix_nano for span in inside)


async def test_nothing_is_traced_without_a_destination():
    cluster = Cluster([device_class(), node("a"), devices("a", "d0")])
    cluster.load(claim("one", 1))
    async with collecting() as (_, spans), reconciling(cluster) as running:
        await running.heard(Allocated)
    assert spans == []
