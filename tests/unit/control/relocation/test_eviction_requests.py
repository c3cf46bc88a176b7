"""Asking others to end a pod before it is evicted (EVR-1 to EVR-4), a preview."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.pod_writer import EvictionRequests, Evictions
from reconciler.cluster.transport import PauseReasons
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted
from reconciler.control.pausing import Pause
from reconciler.control.relocation.evictor import AGAIN, Evictor, Rates
from reconciler.control.relocation.ground import Victim
from reconciler.embedded import ApiServer
from reconciler.errors import Gone, Retry
from reconciler.state.nominations import of_pod
from tests.tools.driving import PODS, call, ok
from tests.tools.simulation.memory import InMemory

REQUESTS = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests"
PATIENCE = 12.0


class Asking:
    """An evictor on the embedded server, with one pod."""

    def __init__(self, **options: Any) -> None:
        self.api = ApiServer(**options)
        self.now = 0.0
        self.said: list[Decision] = []
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        self.uid = ok(self.api, "POST", PODS, pod)["metadata"]["uid"]
        self.victim = Victim(ObjectKey("default", "p"), self.uid, ())
        self.granted = Evicted(self.victim.key, self.uid, of_pod(ObjectKey("default", "q")))
        self.client = Client(InMemory(self.api))
        self.evictor = self.another()

    def another(self) -> Evictor:
        return Evictor(
            Evictions(self.client),
            Rates(10, 100),
            Pause(PauseReasons(), self.said.append, lambda _: None),
            clock=lambda: self.now,
            report=self.said.append,
            requests=EvictionRequests(self.client),
            patience=PATIENCE,
        )

    async def evict(self, after: float = 0.0) -> float | None:
        self.now += after
        return await self.evictor.evict(self.victim, self.granted)

    @property
    def requests(self) -> list[Any]:
        found: list[Any] = ok(self.api, "GET", REQUESTS)["items"]
        return found

    @property
    def is_there(self) -> bool:
        return call(self.api, "GET", f"{PODS}/p")[0] == 200


async def test_others_are_asked_first_and_the_eviction_api_at_the_deadline():
    made = Asking()
    with capture_logs() as logs:
        assert [await made.evict(), await made.evict(5.0), await made.evict(5.0)] == [AGAIN, AGAIN, 2.0]
    assert [line["event"] for line in logs] == ["others asked to end the pod (preview)"]
    (request,) = made.requests
    assert request["spec"] == {
        "target": {"pod": {"name": "p", "uid": made.uid}},
        "requester": "dra-reconciler.io/relocation",
        "intent": "Eviction",
    }
    assert made.is_there
    assert made.said == []
    assert await made.evict(2.0) is None
    assert not made.is_there
    assert made.said == [made.granted]


async def test_a_pod_that_others_end_counts_as_evicted():
    made = Asking()
    await made.evict()
    ok(made.api, "DELETE", f"{PODS}/p")
    made.evictor.leaves(made.victim)
    assert made.said == [made.granted]


@pytest.mark.parametrize("failed", [True, False], ids=["it failed", "not served"])
async def test_a_request_that_failed_or_is_not_served_is_not_waited_for(failed: bool):
    made = Asking() if failed else Asking(release=36)
    if failed:
        await made.evict()
        condition = {"type": "Failed", "status": "True", "reason": "EvictionInvalid", "message": "m"}
        status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        path = f"{REQUESTS}/dra-reconciler-{made.uid}/status"
        ok(made.api, "PUT", path, {**made.requests[0], "status": status})
    assert await made.evict(1.0) is None
    assert not made.is_there


async def test_a_pod_is_evicted_where_requests_are_not_served_any_more(monkeypatch: pytest.MonkeyPatch):
    made = Asking()
    await made.evict()
    monkeypatch.setattr(made.client, "create", AsyncMock(side_effect=Gone("no such kind")))
    monkeypatch.setattr(made.evictor, "_evictions", Evictions(Client(InMemory(made.api))))
    assert await made.evict(1.0) is None
    assert not made.is_there


async def test_what_no_plan_needs_is_withdrawn():
    made = Asking()
    await made.evict()
    await made.evictor.withdraw()
    assert made.requests == []
    assert made.is_there
    await made.evictor.withdraw()


async def test_two_plans_that_end_withdraw_a_request_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    made = Asking()
    await made.evict()
    delete = made.client.delete

    async def slowly(*args: Any) -> None:
        await asyncio.sleep(0)
        await delete(*args)

    monkeypatch.setattr(made.client, "delete", slowly)
    await asyncio.gather(made.evictor.withdraw(), made.evictor.withdraw())
    assert made.requests == []


async def test_a_request_that_could_not_be_withdrawn_is_withdrawn_later(monkeypatch: pytest.MonkeyPatch):
    made = Asking()
    await made.evictor.withdraw()  # nothing is left of an earlier process
    await made.evict()
    with monkeypatch.context() as busy:
        busy.setattr(made.client, "delete", AsyncMock(side_effect=Retry("busy")))
        await made.evictor.withdraw()
    assert len(made.requests) == 1
    await made.evictor.withdraw()
    assert made.requests == []


async def test_what_an_earlier_process_asked_for_is_withdrawn():
    made = Asking()
    await made.evict()
    others = {**made.requests[0], "metadata": {"name": "others"}}
    others["spec"] = {**others["spec"], "requester": "acme.io/drain"}
    ok(made.api, "POST", REQUESTS, others)
    await made.another().withdraw()
    assert [one["metadata"]["name"] for one in made.requests] == ["others"]


async def test_who_leads_again_withdraws_what_the_leader_in_between_asked_for():
    made = Asking()
    await made.evictor.withdraw()
    await made.another().evict(made.victim, made.granted)
    made.evictor.stand_by()
    await made.evictor.withdraw()
    assert made.requests == []


async def test_who_leads_again_asks_again():
    made = Asking()
    await made.evict()
    made.evictor.stand_by()
    assert await made.evict(PATIENCE) == AGAIN


SPEC = {"target": {"pod": {"name": "p", "uid": "u"}}, "requester": "acme.io/drain", "intent": "Eviction"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": {"pod": {"name": "p"}}}, "spec.target.pod.uid"),
        ({"requester": "drain"}, "spec.requester"),
        ({"intent": "Perhaps"}, "spec.intent"),
    ],
)
def test_the_embedded_server_checks_requests(change: dict[str, Any], field: str):
    body = {"metadata": {"name": "r"}, "spec": {**SPEC, **change}}
    status, found = call(ApiServer(), "POST", REQUESTS, body)
    assert status == 422
    assert [cause["field"] for cause in found["details"]["causes"]] == [field]
