"""A pod goes while its claims are written: what becomes of them is not forgotten."""

import asyncio

import pytest

from reconciler.cluster.transport import Response
from reconciler.embedded.builtin import POD
from reconciler.errors import Retry, Undecided
from tests.simulation import demand, fleet
from tests.simulation.schedule import SETTINGS
from tests.simulation.stage import LONG, Stage, staged, wanted


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Undecided("no answer"), id="no answer"),
        pytest.param(Retry("connection refused"), id="not sent"),
        pytest.param(Response(503, {}, b"{}"), id="too busy"),
        pytest.param(Response(403, {}, b"{}"), id="refused"),
    ],
)
def test_a_claim_whose_pod_goes_while_it_is_written_is_decided_on_its_own(answer: Response | Exception):
    async def play(stage: Stage) -> list[str]:
        pod = demand.pod("pod", ["c"], [], zone=None, priority=0)
        stage.api.load([fleet.device_class("gpu"), demand.claim("c", wanted("gpu")), pod])
        wire, _ = stage.start(SETTINGS)
        wire.loses = True
        await stage.until(lambda: wire.lost)
        wire.loses = False
        stage.api.delete(POD, "default", "pod")
        await asyncio.sleep(0.1)
        wire.answer.set_result(answer)
        await asyncio.sleep(LONG)
        return stage.held()

    assert staged(play) == ["c"]
