"""The live loop: namespaces that are listed when a pod needs them, and pods that wait for other pods."""

import json
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import POD
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import Allocated, Ungated, Waits
from tests.tools.faulty_transport import Faulty, Send
from tests.tools.front_ends import served
from tests.tools.pod_scenarios import A, B, apart, near, term, using, web
from tests.tools.running_reconciler import Running, reconciling
from tests.tools.scenario import asking, fleet, running
from tests.tools.small_fleet import Object, claim

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}
TEAM = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


def reasons(seen: Running) -> list[str]:
    return [one.reason for one in seen.of(Waits)]


async def test_namespaces_are_not_listed_unless_a_pod_needs_them():
    cluster = served([*fleet(A), claim("x"), asking("p", "x", **apart(term("zone")))])
    asked: list[str] = []

    async def noted(send: Send) -> Response:
        asked.append("namespaces")
        return await send()

    async with reconciling(cluster, prepare=_on_namespaces(noted), **SLOW) as seen:
        await seen.heard(Ungated)
    assert asked == []


async def test_an_account_without_the_right_says_so_and_decides_the_other_pods():
    cluster = served(
        [*fleet(A), claim("x"), claim("y"), asking("p", "x", **apart(term("zone", **TEAM))), asking("q", "y")]
    )

    async def forbidden(_: Send) -> Response:
        message = "namespaces is forbidden: cannot list resource namespaces"
        status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"}
        return Response(403, {}, json.dumps({**status, "message": message}).encode())

    async with reconciling(cluster, prepare=_on_namespaces(forbidden), **SLOW) as seen:
        await seen.heard(Waits, 2)
        await seen.heard(Allocated)
        assert reasons(seen) == ["ObjectsNotListed", "ObjectsNotReadable"]
        assert "namespaces is forbidden" in seen.of(Waits)[1].message
        assert [one.pod.name for one in seen.of(Allocated) if one.pod is not None] == ["q"]


async def test_a_pod_that_arrives_wakes_those_that_require_its_company():
    cluster = served([*fleet(A, B), claim("x"), asking("p", "x", **near(term("zone")))])
    async with reconciling(cluster, **SLOW) as seen:
        await seen.heard(Waits)
        cluster.load(web(running("there", "b", "1")))
        await seen.heard(Allocated)
        assert cluster.devices("x") == ["b/d0"]


@pytest.mark.parametrize(
    ("busy", "pod"),
    [
        (using(running("busy", "a", "1"), 80), using(asking("p", "x"), 80)),
        (web(running("busy", "a", "1")), asking("p", "x", **apart(term("zone")))),
        (running("busy", "a", "1", **apart(term("zone"))), web(asking("p", "x"))),
    ],
)
async def test_a_pod_that_ends_wakes_those_that_it_kept_away(busy: Object, pod: Object):
    cluster = served([*fleet(A), busy, claim("x"), pod])
    async with reconciling(cluster, **SLOW) as seen:
        await seen.heard(Waits)
        cluster.api.delete(POD, "default", "busy")
        await seen.heard(Allocated)


def _on_namespaces(answer: Any) -> Any:
    def prepare(faulty: Faulty) -> None:
        faulty.on("GET", "/namespaces", answer)

    return prepare
