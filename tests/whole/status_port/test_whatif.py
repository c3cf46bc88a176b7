"""`POST /whatif` over HTTP: what it answers and refuses, and that it writes nothing."""

import asyncio
import json
import threading
from io import BytesIO
from typing import Any

import aiohttp
import pytest
import yaml

from reconciler.api.objects.semantics import Semantics
from reconciler.control.decisions.allocating import Allocated
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.questions import (
    MAX_BYTES,
    Busy,
    WhatifEndpoint,
    WhatifOptions,
    whatif_routes,
)
from reconciler.operations.serving.server import serving
from reconciler.settings import Settings
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from tests.tools.gangs import annotated
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template
from tests.tools.watched_reconciler import Answer, utc_now, watched

pytestmark = pytest.mark.loopback
NOTHING = WhatifOptions(None, frozenset(), frozenset())


def fleet(**counts: int) -> Cluster:
    slices = [devices(name, *(f"d{n}" for n in range(count))) for name, count in counts.items()]
    return Cluster([device_class(), *map(node, counts), *slices])


async def post(url: str, body: bytes | str, kind: str = "application/yaml", **headers: str) -> Answer:
    named = {"Content-Type": kind, **headers}
    data = BytesIO(body.encode() if isinstance(body, str) else body)
    async with aiohttp.ClientSession() as session, session.post(url, data=data, headers=named) as response:
        return Answer(response.status, await response.text(), dict(response.headers))


def text(*objects: Any) -> str:
    return yaml.safe_dump_all(objects)


async def test_an_answer_does_not_change_the_running_reconciler():
    cluster = fleet(a=2, b=1)
    async with watched(cluster, status_what_if=True, events=False) as seen:
        cluster.load(claim("held"))
        await seen.heard(Allocated)
        before, claims = len(seen.faulty.sent), cluster.claims()
        asked = text(claim("new"))

        async def told(query: str, body: str = asked) -> Any:
            answer = await post(f"{seen.url}/whatif{query}", body)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
            return json.loads(answer.text)

        plain = await told("")
        assert (plain["fits"], plain["copies"], plain["limit"]) == (True, 2, "full")
        assert [one["node"] for one in plain["placed"]] == ["a", "b"]
        assert (await told("?without=held"))["copies"] == 3
        drained = await told("?drain=a&count=1")
        assert (drained["fits"], drained["lost"][0]["claims"]) == (False, ["default/held"])
        more = text(claim("new", 4), devices("c", *"wxyz"), node("c"))
        assert (await told("", more))["placed"][0]["node"] == "c"
        assert (await told("", text(template("t", 2))))["fits"] is False
        pair = [annotated(name, size=2, templates=("t",)) for name in ("p0", "p1")]
        (gang,) = (await told("?count=1", text(template("t"), *pair)))["gangs"]
        assert [one["node"] for one in gang["pods"]] == ["a", "b"]
        assert (len(seen.faulty.sent), cluster.claims()) == (before, claims)
        assert await seen.value("dra_reconciler_devices", driver="gpu.example.com", state="held") == 1


async def test_the_endpoint_is_off_by_default():
    async with watched(fleet(a=1)) as seen:
        assert (await post(f"{seen.url}/whatif", text(claim("c")))).status == 404


async def test_the_endpoint_needs_access_to_the_port(tmp_path):
    (tmp_path / "token").write_text("secret")
    flags = {"status_what_if": True, "status_token_file": tmp_path / "token"}
    async with watched(fleet(a=1), **flags) as seen:
        url, asked = f"{seen.url}/whatif", text(claim("c"))
        assert (await post(url, asked)).status == 401

        async def ready() -> bool:
            return (await post(url, asked, Authorization="Bearer secret")).status == 200

        await seen.until(ready)


@pytest.mark.parametrize(
    ("query", "body", "kind", "status", "said"),
    [
        ("", text(claim("c")), "text/plain", 415, "unsupported content type; use application/json"),
        ("", text(claim("c")), "application/x-www-form-urlencoded", 415, "unsupported content type"),
        ("?count=0", text(claim("c")), "application/yaml", 400, "count must be a number from 1"),
        ("?count=1e3", text(claim("c")), "application/yaml", 400, "count must be a number from 1"),
        ("?how=now", text(claim("c")), "application/yaml", 400, "unknown option how"),
        ("?" + "without=x&" * 101, text(claim("c")), "application/yaml", 400, "at most 100"),
        ("?without=x", text(claim("c")), "application/yaml", 400, "there is no claim default/x"),
        ("?drain=x", "", "application/yaml", 400, "there is no node x"),
        ("", "", "application/yaml", 400, "holds no pending claim"),
        ("", "{", "application/json", 400, "body:2:1"),
        ("", b"\xff", "application/yaml", 400, "not UTF-8"),
        ("", text(claim("c", -1)), "application/yaml", 400, "count"),
        ("", text(pod("p", "c")), "application/yaml", 400, "claim default/c is missing"),
        ("", "x" * (MAX_BYTES + 1), "application/yaml", 413, "Too Large"),
    ],
)
async def test_invalid_questions_are_rejected(
    query: str, body: bytes | str, kind: str, status: int, said: str
):
    port = StatusPort(local_only)
    port.add(*whatif_routes(WhatifEndpoint(Store(Semantics()), Nodes(), PodGroups(), ready=lambda: True).ask))
    async with serving(port, Settings(), now=utc_now) as url:
        answer = await post(f"{url}/whatif{query}", body, kind)
        assert (answer.status, said in answer.text) == (status, True), answer.text
        assert (await post(f"{url}/whatif", text(claim("c")))).status == 200


async def test_one_question_is_answered_at_a_time():
    endpoint = WhatifEndpoint(Store(Semantics()), Nodes(), PodGroups(), ready=lambda: True)
    go_on = threading.Event()
    first = asyncio.create_task(endpoint._worker.run(lambda _: go_on.wait(PATIENCE)))
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="another question"):
        await endpoint.ask(text(claim("c")), NOTHING)
    go_on.set()
    assert await first
    assert (await endpoint.ask(text(claim("c")), NOTHING))["fits"] is False


async def test_no_answer_before_all_objects_are_listed():
    with pytest.raises(Busy, match="not all objects are listed"):
        await WhatifEndpoint(Store(Semantics()), Nodes(), PodGroups(), ready=lambda: False).ask("", NOTHING)


async def test_an_answer_has_a_timeout():
    port = StatusPort(local_only)
    ask = WhatifEndpoint(Store(Semantics()), Nodes(), PodGroups(), ready=lambda: True).ask
    port.add(*whatif_routes(ask, seconds=0.0))
    async with serving(port, Settings(), now=utc_now) as url:
        answer = await post(f"{url}/whatif", text(claim("c")))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
