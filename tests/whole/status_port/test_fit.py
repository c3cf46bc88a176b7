"""`POST /fit` over HTTP: what it answers and refuses, and that it writes nothing."""

import asyncio
import json
import shutil
import subprocess
import threading
from io import BytesIO
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from reconciler.api.objects.semantics import Semantics
from reconciler.control.decisions.allocating import Allocated
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import AT_ONCE, REFUSAL_SECONDS, StatusPort
from reconciler.operations.serving.questions import MAX_BYTES, Busy, FitEndpoint, question_route
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from tests.tools.builders import device, partitioned, resource_slice
from tests.tools.output_schemas import fitting
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.simulation.clock import SimulationLoop
from tests.tools.small_fleet import Object, claim, device_class, devices, held, node, template
from tests.tools.watched_reconciler import Answer, Watched, watched

pytestmark = pytest.mark.loopback


def fleet(**counts: int) -> Cluster:
    slices = [devices(name, *(f"d{n}" for n in range(count))) for name, count in counts.items()]
    return Cluster([device_class(), *map(node, counts), *slices])


def request(count: int, **fields: Any) -> str:
    spec = {
        "containers": [{"name": "main", "image": "example.com/main"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }
    asked: Object = {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "FitRequest",
        "podSets": [{"name": "s", "count": count, "template": {"spec": spec}}],
        **fields,
    }
    return yaml.safe_dump_all([asked, template("t")])


async def post(url: str, body: str, kind: str = "application/yaml", **headers: str) -> Answer:
    named = {"Content-Type": kind, **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=BytesIO(body.encode()), headers=named) as response,
    ):
        return Answer(response.status, await response.text(), dict(response.headers))


async def test_an_answer_counts_what_is_held_and_changes_nothing():
    cluster = fleet(a=2, b=2)
    async with watched(cluster, status_what_if=True, events=False) as seen:
        cluster.load(claim("held"))
        await seen.heard(Allocated)
        before, claims = len(seen.faulty.sent), cluster.claims()

        async def told(body: str) -> Any:
            answer = await post(f"{seen.url}/fit", body)
            assert answer.status == 200, answer.text
            return fitting("fit", answer.text)

        (found,) = (await told(request(4)))["podSets"]
        assert (found["fits"], found["short"]["lacks"][0]["amount"]) == (3, 1)
        assert found["nodes"] == [{"node": "a", "pods": 1}, {"node": "b", "pods": 2}]
        assert (await told(request(4, without=["held"])))["fits"] is True
        assert (await told(request(4, withoutNodes=["a"])))["podSets"][0]["fits"] == 2
        assert (await told(request(3)))["fits"] is True
        assert (len(seen.faulty.sent), cluster.claims()) == (before, claims)


async def test_the_endpoint_is_off_by_default():
    async with watched(fleet(a=1)) as seen:
        assert (await post(f"{seen.url}/fit", request(1))).status == 404


async def test_the_endpoint_needs_access_to_the_port_and_refuses_what_it_cannot_read(tmp_path):
    (tmp_path / "token").write_text("secret")
    async with watched(fleet(a=1), status_what_if=True, status_token_file=tmp_path / "token") as seen:
        url, token = f"{seen.url}/fit", {"Authorization": "Bearer secret"}
        assert (await post(url, request(1))).status == 401

        async def ready() -> bool:
            return (await post(url, request(1), **token)).status == 200

        await seen.until(ready)
        for body, kind, status, said in [
            (request(1), "text/plain", 415, "unsupported content type"),
            ("x" * (MAX_BYTES + 1), "application/yaml", 413, "Too Large"),
            ("{", "application/json", 400, "body:2:1"),
            (json.dumps(template("t")), "application/json", 400, "has 0 objects of kind FitRequest"),
            (request(0), "application/yaml", 400, "podSets[0].count: must be a whole number"),
        ]:
            answer = await post(url, body, kind, **token)
            assert (answer.status, said in answer.text) == (status, True), answer.text
        assert (await post(f"{url}?count=1", request(1), **token)).status == 400


async def test_one_question_is_answered_at_a_time_and_none_before_all_is_listed():
    endpoint = FitEndpoint(Store(Semantics()), Nodes(), ready=lambda: True)
    go_on = threading.Event()
    first = asyncio.create_task(endpoint._worker.run(lambda _: go_on.wait(PATIENCE)))
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="another question"):
        await endpoint.ask(request(1))
    go_on.set()
    assert await first
    assert (await endpoint.ask(request(1)))["fits"] is False
    with pytest.raises(Busy, match="not all objects are listed"):
        await FitEndpoint(Store(Semantics()), Nodes(), ready=lambda: False).ask(request(1))


def test_who_asks_while_another_question_is_answered_waits_for_the_refusal_and_takes_no_place():
    """Else a caller that asks again at once takes the time of decisions, or that of other requests."""

    async def busy(_request: web.BaseRequest, _text: str) -> dict[str, Any]:
        raise Busy("another question is in progress")

    port = StatusPort(local_only)
    port.add(question_route("/fit", busy))

    async def asked(method: str, path: str) -> tuple[int, float]:
        headers = {"Content-Type": "application/json", "Host": "localhost"}
        request = make_mocked_request(method, path, headers=headers, payload=aiohttp.EMPTY_PAYLOAD)
        answer = await port.handle(request)
        return answer.status, asyncio.get_running_loop().time()

    async def many() -> list[tuple[int, float]]:
        asking = [asyncio.create_task(asked("POST", "/fit")) for _ in range(2 * AT_ONCE)]
        await asyncio.sleep(0)
        return [await asked("GET", "/other"), *await asyncio.gather(*asking)]

    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        began = runner.get_loop().time()
        (other, soon), *refused = runner.run(many())
    assert (other, soon - began) == (404, 0)
    assert {status for status, _ in refused} == {429}
    assert sum(ended - began >= REFUSAL_SECONDS for _, ended in refused) == AT_ONCE


async def test_objects_that_only_a_question_needs_are_listed_for_the_next_one():
    wanted: list[str] = []
    nodes = Nodes(on_wanted=wanted.append)
    endpoint = FitEndpoint(Store(Semantics()), nodes, ready=lambda: True)
    asked = next(yaml.safe_load_all(request(1)))
    term = {"namespaceSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "rack"}
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked["podSets"][0]["template"]["spec"]["affinity"] = rule
    answer = await endpoint.ask(yaml.safe_dump_all([asked, template("t")]))
    assert answer["podSets"][0]["short"]["reason"] == "ObjectsNotListed"
    assert wanted == ["Namespace"]


# -- What a scrape says of what still fits.


def assert_promtool_finds_nothing(text: str) -> None:
    """Where promtool is installed; test_scraping has its rules about names."""
    if promtool := shutil.which("promtool"):
        command = [promtool, "check", "metrics"]
        done = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


async def test_what_fits_follows_what_is_held():
    whole = resource_slice("e", [device("e0"), device("e1")], driver="e", nodeName="n1")
    cluster = Cluster([node("n1"), *partitioned(), whole])

    async def fits(seen: Watched, driver: str, profile: str) -> float | None:
        return await seen.value("dra_reconciler_profile_fits", driver=driver, profile=profile)

    async with watched(cluster) as seen:

        async def counted() -> bool:
            return await fits(seen, "d", "half") == 2

        await seen.until(counted)
        assert_promtool_finds_nothing((await seen.get("/metrics")).text)
        assert await fits(seen, "d", "whole") == 1
        assert await fits(seen, "e", "device") == 2
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="d") == 0
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="e") is None
        cluster.load({**claim("old"), "status": held("d", "n1", "left")})

        async def taken() -> bool:
            return await fits(seen, "d", "half") == 1

        await seen.until(taken)
        assert await fits(seen, "d", "whole") == 0
        assert await seen.value("dra_reconciler_use_ratio", driver="d") == pytest.approx(0.5)
        assert await seen.value("dra_reconciler_physical_devices", driver="d", state="full") == 0
        assert await seen.value("dra_reconciler_physical_devices", driver="e", state="open") == 2
        for profile, part in (("whole", 1.0), ("half", 0.0)):
            labels = {"driver": "d", "profile": profile}
            assert await seen.value("dra_reconciler_profile_fragmentation_ratio", **labels) == part
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="d") == pytest.approx(2 / 6)
