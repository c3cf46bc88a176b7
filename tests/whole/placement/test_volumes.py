"""The live loop: storage objects that are listed when a pod needs them, and pods that wait for volumes."""

import json
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import POD, VOLUME_ATTACHMENT, VOLUME_CLAIM
from reconciler.cluster.kinds import STORAGE
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import Allocated, Ungated, Waits
from reconciler.control.decisions.every import GangPlaced
from reconciler.state.on_demand import NOT_LISTED
from tests.tools.faulty_transport import Faulty, Send
from tests.tools.front_ends import served
from tests.tools.gangs import annotated
from tests.tools.pod_scenarios import A, B, apart, near, term, using, web
from tests.tools.running_reconciler import Running, reconciling
from tests.tools.scenario import asking, fleet, running
from tests.tools.small_fleet import Object, claim
from tests.tools.volume_scenarios import (
    NO_PROVISIONER,
    attachment,
    csi_node,
    mounting,
    storage_class,
    volume,
    volume_claim,
)

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}
LOCAL = storage_class("local", NO_PROVISIONER)
MOUNTING = asking("p", "x", **mounting("data"))


class Asked:
    """Which storage objects were listed or watched."""

    def __init__(self, *, denied: bool = False) -> None:
        self.kinds: set[str] = set()
        self._denied = denied

    def prepare(self, faulty: Faulty) -> None:
        for resource in STORAGE:
            faulty.on("GET", f"/{resource.plural}", self._noting(resource.kind))

    def _noting(self, kind: str) -> Any:
        async def note(send: Send) -> Response:
            self.kinds.add(kind)
            if not self._denied:
                return await send()
            status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"}
            return Response(403, {}, json.dumps({**status, "message": f"{kind} is forbidden"}).encode())

        return note


def last_reason(seen: Running, pod: str) -> str:
    return [one.reason for one in seen.of(Waits) if one.pod is not None and one.pod.name == pod][-1]


async def blocked(seen: Running, number: int = 1) -> None:
    await seen.heard(Waits, number, counts=lambda one: one.reason != NOT_LISTED)


async def test_storage_objects_are_not_listed_unless_a_pod_needs_them():
    other = asking("p", "x", volumes=[{"name": "c", "configMap": {"name": "c"}}])
    asked = Asked()
    async with reconciling(served([*fleet(A), claim("x"), other]), prepare=asked.prepare, **SLOW) as seen:
        await seen.heard(Ungated)
    assert asked.kinds == set()


async def test_a_bound_volume_needs_no_capacity():
    objects = [
        *fleet(A, B),
        volume("v", "b", of="data"),
        volume_claim("data", volume="v"),
        claim("x"),
        MOUNTING,
    ]
    asked, cluster = Asked(), served(objects)
    async with reconciling(cluster, prepare=asked.prepare, **SLOW) as seen:
        await seen.heard(Ungated)
    assert cluster.devices("x") == ["b/d0"]
    assert asked.kinds == {one.kind for one in STORAGE} - {"CSIStorageCapacity"}


async def test_an_account_without_the_rights_says_so_and_decides_the_other_pods():
    asked = Asked(denied=True)
    cluster = served([*fleet(A), claim("x"), claim("y"), MOUNTING, asking("q", "y")])
    async with reconciling(cluster, prepare=asked.prepare, **SLOW) as seen:
        await blocked(seen)
        await seen.heard(Allocated)
        assert last_reason(seen, "p") == "ObjectsNotReadable"
        assert [one.pod.name for one in seen.of(Allocated) if one.pod is not None] == ["q"]


async def test_without_volumes_no_right_is_needed_and_the_log_says_so_once(
    capsys: pytest.CaptureFixture[str],
):
    asked = Asked(denied=True)
    cluster = served([*fleet(A), claim("x"), MOUNTING])
    async with reconciling(cluster, prepare=asked.prepare, without_volumes=True, **SLOW) as seen:
        await seen.heard(Ungated)
        cluster.load(claim("y"), asking("q", "y", **mounting("data")))
        await seen.heard(Ungated, 2)
    assert asked.kinds == set()
    lines = [line for line in capsys.readouterr().out.splitlines() if "volumes not considered" in line]
    assert [line.rpartition("pod=")[2] for line in lines] == ["default/p", "default/q"]


async def test_a_claim_that_is_bound_wakes_its_pod():
    cluster = served(
        [*fleet(A, B), storage_class("now", volumeBindingMode="Immediate"), claim("x"), MOUNTING]
    )
    cluster.load(volume_claim("data", "now"), volume("v", "b", "now", of="data"))
    async with reconciling(cluster, **SLOW) as seen:
        await blocked(seen)
        bound = volume_claim("data", "now", volume="v")
        metadata = {"annotations": bound["metadata"]["annotations"]}
        cluster.api.update(
            VOLUME_CLAIM, "default", "data", lambda old: {**old, "spec": {**old["spec"], **bound["spec"]},
                                                          "metadata": {**old["metadata"], **metadata}}
        )  # fmt: skip
        await seen.heard(Allocated)
    assert cluster.devices("x") == ["b/d0"]


async def test_a_volume_that_is_detached_or_unused_wakes_pods():
    cluster = served(
        [*fleet(A), csi_node("a", 1), storage_class(), claim("x"), MOUNTING, volume_claim("data")]
    )
    cluster.load(volume("old", of="old"), volume_claim("old", volume="old"), attachment("a", "old"))
    cluster.load(running("there", "a", "1", **mounting("old")))
    async with reconciling(cluster, **SLOW) as seen:
        await blocked(seen)
        cluster.api.delete(POD, "default", "there")
        cluster.api.delete(VOLUME_ATTACHMENT, "", "old-at-a")
        await seen.heard(Allocated)


def gang_of_two() -> list[Object]:
    """Pods that each need a volume of their own, and devices."""
    pods = [annotated(name, name, size=2, **mounting(f"data-{name}")) for name in "pq"]
    return [*(claim(name, managed=False) for name in "pq"), *pods]


async def test_a_gang_is_decided_when_the_storage_objects_that_it_needs_are_listed():
    cluster = served([*fleet(A, B), LOCAL, *gang_of_two()])
    for name, on in (("p", "a"), ("q", "b")):
        cluster.load(volume_claim(f"data-{name}", "local"), volume(f"v-{name}", on, "local"))
    async with reconciling(cluster, **SLOW) as seen:
        placed = await seen.heard(GangPlaced)
    assert sorted(placed[0].on) == ["a", "b"]


async def test_a_volume_that_is_created_wakes_a_gang():
    cluster = served([*fleet(A, B), LOCAL, volume("v", "a", "local"), *gang_of_two()])
    cluster.load(*(volume_claim(f"data-{name}", "local") for name in "pq"))
    async with reconciling(cluster, **SLOW) as seen:
        await blocked(seen)
        cluster.load(volume("w", "b", "local"))
        placed = await seen.heard(GangPlaced)
    assert sorted(placed[0].on) == ["a", "b"]


# -- The live loop: namespaces that are listed when a pod needs them, and pods that wait for other pods.


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
