"""What schedules seldom meet, since several things have to coincide: played by hand, step by step.

A successor must not believe what it saw, nor let arrive what was sent before it; and nobody waits in vain.
Each is played as it is, and with its protection broken.
"""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from random import Random

import pytest

from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cluster.transport import Response
from reconciler.errors import Retry, Undecided
from reconciler.settings import Settings
from tests.tools.admission_policies import announce
from tests.tools.gangs import annotated
from tests.tools.simulation import demand, fleet
from tests.tools.simulation.configured import PAIR, SETTINGS
from tests.tools.simulation.mutants import EVERY
from tests.tools.simulation.stage import LONG, Stage, staged, wanted
from tests.tools.small_fleet import Object


def broken(name: str | None) -> AbstractContextManager[object]:
    return nullcontext() if name is None else EVERY[name]()


async def deaf(stage: Stage) -> list[str]:
    """A standby hears nothing of a claim that is allocated; then it leads, and is asked for the device."""
    stage.api.load([fleet.device_class("gpu"), demand.claim("late", wanted("late"))])
    _, leader = stage.start(PAIR)
    await asyncio.sleep(LONG)
    wire, _ = stage.start(PAIR)
    await asyncio.sleep(LONG)
    wire.deaf = True
    stage.api.load([demand.claim("early", wanted("gpu"))])
    await stage.until(lambda: stage.held() == ["early"])
    leader.cancel()
    stage.api.load([{**fleet.device_class("gpu"), "metadata": {"name": "late"}}])
    await asyncio.sleep(LONG)
    return stage.held()


async def late(stage: Stage, settings: Settings, policy: bool = False) -> list[str]:
    """A process dies with an allocation on its way. Nobody wants it any more, and it arrives in the end.

    `policy`: claims are announced as they are created.
    """
    if policy:
        announce(stage.api, Random(0), in_force=1.0)
    pod = demand.pod("pod", ["early"], [], zone=None, priority=0)
    stage.api.load([fleet.device_class("gpu"), demand.claim("early", wanted("gpu"), managed=False), pod])
    wire, first = stage.start(settings)
    wire.loses = "/status"
    await stage.until(lambda: wire.lost)
    first.cancel()
    stage.api.load([demand.claim("late", wanted("gpu"))])
    stage.api.delete(POD, "default", "pod")
    stage.start(settings)
    await stage.until(lambda: stage.held() == ["late"])
    await wire.lost[0]()
    return stage.held()


@pytest.mark.parametrize("name", [None, "standby pictures are believed"])
def test_the_picture_of_a_standby_is_not_believed(name: str | None):
    with broken(name):
        assert staged(deaf) == (["early"] if name is None else ["early", "late"])


@pytest.mark.parametrize("settings", [SETTINGS, PAIR], ids=["alone", "by a Lease"])
@pytest.mark.parametrize("name", [None, "nothing is fenced off at the start"])
def test_what_a_predecessor_sent_hits_a_version_that_is_gone(name: str | None, settings: Settings):
    with broken(name):
        assert staged(partial(late, settings=settings)) == (["late"] if name is None else ["early", "late"])


@pytest.mark.parametrize("settings", [SETTINGS, PAIR], ids=["alone", "by a Lease"])
@pytest.mark.parametrize("name", [None, "announced claims are not fenced off"])
def test_so_it_is_if_nothing_was_written_before_the_allocation(name: str | None, settings: Settings):
    with broken(name):
        held = staged(partial(late, settings=settings, policy=True))
    assert held == (["late"] if name is None else ["early", "late"])


async def freed(stage: Stage, first: list[Object]) -> list[str]:
    """A claim that waited long for a device whose allocation was refused. Who holds it a second later."""
    stage.api.load([fleet.device_class("gpu"), *first])
    wire, _ = stage.start(SETTINGS)
    wire.loses = "/first/status"
    await stage.until(lambda: wire.lost)
    stage.api.load([demand.claim("second", wanted("gpu"))])
    await asyncio.sleep(LONG)  # it is tried again ever more seldom
    wire.answer.set_result(Response(503, {"Retry-After": "60"}, b"{}"))
    await asyncio.sleep(1.0)
    return stage.held()


CLAIM_ALONE = [demand.claim("first", wanted("gpu"))]
OF_GANG = [demand.claim("first", wanted("gpu"), managed=False), annotated("pod", "first", size=1)]


@pytest.mark.parametrize("first", [CLAIM_ALONE, OF_GANG], ids=["of a claim", "of a gang"])
@pytest.mark.parametrize("name", [None, "freed plans wake nobody"])
def test_who_waits_gets_what_a_refused_write_was_about_at_once(name: str | None, first: list[Object]):
    with broken(name):
        assert staged(partial(freed, first=first)) == (["second"] if name is None else [])


NOTED: Object = {"annotations": {"noted": "by somebody"}}


async def resolved(stage: Stage, pods: list[Object]) -> list[str]:
    """A pod finds out that a write did not arrive, and decides nothing then; its claim is another's, too."""
    stage.api.load([fleet.device_class("gpu"), demand.claim("c", wanted("gpu"), managed=False), *pods])
    wire, _ = stage.start(SETTINGS)
    wire.loses = "/c/status"
    await stage.until(lambda: wire.lost)
    wire.loses = "/c"
    wire.answer.set_result(Undecided("no answer"))
    wire.answer = asyncio.get_running_loop().create_future()
    await stage.until(lambda: len(wire.lost) == 2)
    wire.loses = ""
    answer = await wire.lost[1]()
    # The watch shows a later version before the answer comes, so that the answer is no news.
    stage.api.update(
        CLAIM, "default", "c", lambda shown: {**shown, "metadata": {**shown["metadata"], **NOTED}}
    )
    stage.api.delete(POD, "default", "goes")
    await asyncio.sleep(0.1)
    wire.answer.set_result(answer)
    await asyncio.sleep(LONG)
    return stage.held()


GOES = demand.pod("goes", ["c"], [], zone=None, priority=1000)
STAYS = demand.pod("stays", ["c"], [], zone=None, priority=0)


@pytest.mark.parametrize(
    "pods", [[GOES, STAYS], [GOES, annotated("stays", "c", size=1)]], ids=["a pod", "a gang"]
)
@pytest.mark.parametrize("name", [None, "resolved writes wake nobody"])
def test_who_left_a_claim_to_a_turn_that_found_out_about_a_write_has_one_afterwards(
    name: str | None, pods: list[Object]
):
    with broken(name):
        assert staged(partial(resolved, pods=pods)) == (["c"] if name is None else [])


async def cleared(stage: Stage) -> list[str]:
    """Somebody takes back the allocation of a pod that has its gate: kube-scheduler does not see the pod."""
    pod = demand.pod("pod", ["early"], [], zone=None, priority=0)
    stage.api.load([fleet.device_class("gpu"), demand.claim("early", wanted("gpu")), pod])
    wire, _ = stage.start(SETTINGS)
    wire.loses = "/pods/pod"
    await stage.until(lambda: wire.lost)  # the gate stays
    wire.loses = ""
    stage.api.update(CLAIM, "default", "early", lambda shown: {**shown, "status": {}}, subresource="status")
    wire.answer.set_result(Response(503, {}, b"{}"))
    await asyncio.sleep(LONG)
    return stage.held()


@pytest.mark.parametrize("name", [None, "gated pods are left to kube-scheduler"])
def test_what_is_taken_from_a_pod_with_a_gate_is_allocated_again(name: str | None):
    with broken(name):
        assert staged(cleared) == (["early"] if name is None else [])


# -- A pod or a claim goes while claims are written: what becomes of the claims is not forgotten.


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
