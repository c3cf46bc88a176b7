"""A pod or a claim goes while claims are written: what becomes of the claims is not forgotten."""

import asyncio

import pytest

from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cluster.transport import Response
from reconciler.errors import Retry, Undecided
from tests.tools.simulation import demand, fleet
from tests.tools.simulation.configured import SETTINGS
from tests.tools.simulation.stage import LONG, Stage, staged, wanted

ANSWERS = [
    pytest.param(Undecided("no answer"), id="no answer"),
    pytest.param(Retry("connection refused"), id="not sent"),
    pytest.param(Response(503, {}, b"{}"), id="too busy"),
    pytest.param(Response(403, {}, b"{}"), id="refused"),
]


async def held_after_losing(pod: str, stage: Stage, answer: Response | Exception) -> list[str]:
    """What is held long after a pod went, while the write of its claim waited for an answer."""
    wire, _ = stage.start(SETTINGS)
    wire.loses = "/status"
    await stage.until(lambda: wire.lost)
    wire.loses = ""
    stage.api.delete(POD, "default", pod)
    await asyncio.sleep(0.1)
    wire.answer.set_result(answer)
    await asyncio.sleep(LONG)
    return stage.held()


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_claim_whose_pod_goes_while_it_is_written_is_decided_on_its_own(answer: Response | Exception):
    async def play(stage: Stage) -> list[str]:
        pod = demand.pod("pod", ["c"], [], zone=None, priority=0)
        stage.api.load([fleet.device_class("gpu"), demand.claim("c", wanted("gpu")), pod])
        return await held_after_losing("pod", stage, answer)

    assert staged(play) == ["c"]


def test_so_it_is_where_the_pod_was_finding_out_about_an_earlier_write():
    async def play(stage: Stage) -> list[str]:
        stage.api.load([fleet.device_class("gpu"), demand.claim("c", wanted("gpu"))])
        wire, _ = stage.start(SETTINGS)
        wire.loses = "/c/status"
        await stage.until(lambda: wire.lost)
        stage.api.load([demand.pod("pod", ["c"], [], zone=None, priority=1000)])
        wire.loses = "/c"
        await asyncio.sleep(0.1)
        wire.answer.set_result(Undecided("no answer"))
        wire.answer = asyncio.get_running_loop().create_future()
        await stage.until(lambda: len(wire.lost) == 2)  # the mark is being taken back
        wire.loses = ""
        stage.api.delete(POD, "default", "pod")
        await asyncio.sleep(0.1)
        wire.answer.set_result(Undecided("no answer"))
        await asyncio.sleep(LONG)
        return stage.held()

    assert staged(play) == ["c"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_claim_whose_pod_goes_while_it_is_written_is_decided_for_another_pod(answer: Response | Exception):
    async def play(stage: Stage) -> list[str]:
        goes = demand.pod("goes", ["c"], [], zone=None, priority=1000)
        stays = demand.pod("stays", ["c"], [], zone=None, priority=0)
        stage.api.load(
            [fleet.device_class("gpu"), demand.claim("c", wanted("gpu"), managed=False), goes, stays]
        )
        return await held_after_losing("goes", stage, answer)

    assert staged(play) == ["c"]


def test_a_claim_is_decided_for_another_pod_when_one_that_was_decided_with_it_is_gone():
    async def play(stage: Stage) -> list[str]:
        claims = [demand.claim(name, wanted("gpu"), managed=False) for name in ("goes", "stays")]
        both = demand.pod("both", ["goes", "stays"], [], zone=None, priority=1000)
        one = demand.pod("one", ["stays"], [], zone=None, priority=0)
        stage.add_device("another")
        stage.api.load([fleet.device_class("gpu"), *claims, both, one])
        wire, _ = stage.start(SETTINGS)
        wire.loses = "/goes"
        await stage.until(lambda: wire.lost)
        wire.loses = ""
        stage.api.delete(CLAIM, "default", "goes")
        wire.answer.set_result(await wire.lost[0]())
        await asyncio.sleep(LONG)
        return stage.held()

    assert staged(play) == ["stays"]
