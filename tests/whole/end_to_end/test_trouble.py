"""Conflicts, refusals and silence: nothing is lost, nothing is given twice."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from reconciler.api.validation.served_kinds import DEVICE_CLASS
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.errors import Inconsistent
from tests.tools.faulty_transport import Late, Send, after, answer
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node, pod


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


async def test_a_claim_edited_between_decision_and_write_is_decided_afresh():
    cluster = fleet("d0")
    cluster.load(claim("a"))

    def edit() -> None:
        cluster.edit("a", annotations={"somebody": "was here"})

    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a", after(edit))) as running:
        await running.heard(Allocated)
    assert cluster.devices("a") == ["n/d0"]
    assert cluster.claim("a")["metadata"]["annotations"]["somebody"] == "was here"


async def test_a_write_that_arrives_after_it_was_given_up_takes_nothing():
    """By then its device may be another claim's; so giving up makes a version that it cannot hit."""
    cluster = fleet("d0")
    late = Late(lambda: cluster.api.delete(DEVICE_CLASS, "", "gpu"))
    cluster.load(claim("a"), device_class("also-gpu"))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a/status", late)) as running:
        await running.heard(Waits)
        cluster.load(claim("b", device_class="also-gpu"))
        await running.heard(Allocated)
        assert (await late.arrive()).status == 409
    assert cluster.devices("a") == []
    assert cluster.devices("b") == ["n/d0"]


async def test_a_server_that_refuses_for_good_is_asked_again_later_only():
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"), claim("b"))
    async with reconciling(
        cluster,
        prepare=lambda f: f.on("PATCH", "/a/status", answer(422)),
        backoff_base_seconds=600.0,
        backoff_cap_seconds=600.0,
    ) as running:
        await running.heard(Allocated)
        cluster.load(claim("c"))
        await running.heard(Allocated, 2)
    assert cluster.devices("a") == []
    assert sorted([*cluster.devices("b"), *cluster.devices("c")]) == ["n/d0", "n/d1"]


async def test_the_first_claim_of_a_pod_is_taken_back_when_the_second_is_refused():
    """There are no transactions; holding half a decision would only block others."""
    cluster = fleet("d0", "d1")
    cluster.load(claim("one"), claim("two"), pod("p", "one", "two"))
    async with reconciling(
        cluster,
        prepare=lambda f: f.on("PATCH", "/two/status", answer(422)),
        backoff_base_seconds=600.0,
        backoff_cap_seconds=600.0,
    ):
        await cluster.until(lambda: cluster.devices("one"))
        await cluster.until(lambda: not cluster.devices("one"))
    assert cluster.gated("p")
    assert "finalizers" not in cluster.claim("one")["metadata"]


async def test_a_server_that_refuses_for_good_is_not_flooded():
    """Taking the first claim back changes it; that must not be a reason to try again at once."""
    cluster = fleet("d0", "d1", "d2")
    cluster.load(claim("one"), claim("two"), pod("p", "one", "two"))
    async with reconciling(
        cluster,
        prepare=lambda f: f.on("PATCH", "/two/status", *[answer(422)] * 100),
        backoff_base_seconds=600.0,
        backoff_cap_seconds=600.0,
    ) as running:
        await cluster.until(lambda: cluster.devices("one"))
        await cluster.until(lambda: not cluster.devices("one"))
        await asyncio.sleep(SETTLED)
        assert len(running.faulty.faults) == 99


async def test_an_error_nobody_expected_stops_one_turn_and_not_the_others():
    async def bug(_: Send) -> Response:
        raise ZeroDivisionError

    cluster = fleet("d0", "d1")
    cluster.load(claim("a"), claim("b"))
    with capture_logs() as lines:
        async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a", bug)):
            await cluster.until(lambda: cluster.devices("a") and cluster.devices("b"))
    (line,) = [line for line in lines if line["event"] == "reconcile failed"]
    assert (line["log_level"], line["unit"], line["exc_info"]) == ("error", "claim default/a", True)


async def test_a_broken_promise_of_our_own_ends_the_run():
    """A server that answers with a pod where a claim was written: nothing that follows could be trusted."""

    async def nonsense(_: Send) -> Response:
        body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}}
        return Response(200, {}, json.dumps(body).encode())

    cluster = fleet("d0")
    cluster.load(claim("a"))
    with pytest.raises(ExceptionGroup) as raised:
        async with (
            asyncio.timeout(PATIENCE),
            reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a", nonsense)) as running,
        ):
            await running.done.wait()
    assert raised.group_contains(Inconsistent)


async def test_having_waited_long_does_not_make_a_failed_write_wait_long():
    """Else a claim that was told no all night would lie idle for a minute after one busy answer."""
    cluster = fleet("d0")
    cluster.load(claim("holds"))
    async with reconciling(cluster, backoff_base_seconds=0.01) as running:
        await running.heard(Allocated)
        cluster.load(claim("waits"))
        await running.heard(Waits)
        for told in range(2, 18, 2):
            cluster.api.delete(DEVICE_CLASS, "", "gpu")
            await running.heard(Waits, told)
            cluster.load(device_class())
            await running.heard(Waits, told + 1)
        running.faulty.on("PATCH", "/waits", answer(503))
        cluster.delete("holds")
        await running.heard(Allocated, 2)
