"""The end of a run: nothing new is begun, what was begun is finished, but not for ever."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.decisions.allocating import Allocated
from tests.tools.faulty_transport import Faulty, Held
from tests.tools.patience import PATIENCE
from tests.tools.processes import assert_refused, finished, start, written
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

LONG: dict[str, Any] = {"drain_seconds": 10 * PATIENCE}
"""Who waits for the end of these fails the test"""


def fleet() -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", "d0", "d1"), claim("a"), claim("b")])


async def test_writes_under_way_are_finished_and_nothing_new_is_begun():
    cluster, write = fleet(), Held()
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a", write), writers=1) as running:
        await write.arrived.wait()
        running.stop.set()
        write.go.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert cluster.devices("a") == ["n/d0"]
    assert cluster.devices("b") == []


async def test_a_write_that_does_not_end_is_cut_off_when_the_time_is_over():
    cluster, write = fleet(), Held()

    def prepare(faulty: Faulty) -> None:
        faulty.on("PATCH", "/a", write)

    async with reconciling(cluster, prepare=prepare, drain_seconds=0.05) as running:
        await write.arrived.wait()
        await running.heard(Allocated)
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert cluster.devices("a") == []
    assert cluster.devices("b") == ["n/d1"]


async def test_it_can_be_stopped_before_it_saw_everything():
    cluster, listing = fleet(), Held()
    async with reconciling(cluster, prepare=lambda f: f.on("GET", "/pods", listing), **LONG) as running:
        await listing.arrived.wait()
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert running.decisions == []


async def test_it_can_be_stopped_while_the_server_does_not_answer():
    cluster, question = fleet(), Held()
    async with reconciling(
        cluster, prepare=lambda f: f.on("GET", "/apis/resource.k8s.io", question), **LONG
    ) as running:
        await question.arrived.wait()
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert running.decisions == []


# -- `dra-reconciler run` as a process: what it prints, how it ends, and with which code.


@pytest.mark.loopback
async def test_it_allocates_says_so_in_json_and_ends_cleanly_when_told(tmp_path: Path):
    manifest = written(
        tmp_path / "all.yaml", node("n"), device_class(), devices("n", "d0"), claim("a"), claim("b")
    )
    process = await start("run", "--embedded", "-f", manifest)
    assert process.stderr is not None
    told: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE):
        while not {"claim allocated", "claim pending"} <= told.keys():
            line = json.loads(await process.stderr.readline())
            told[line["event"]] = line
    process.send_signal(signal.SIGINT)
    code, out, _ = await finished(process)
    assert code == 0
    assert "embedded API server on http://127.0.0.1:" in out
    allocated, waits = told["claim allocated"], told["claim pending"]
    assert (allocated["claim"], allocated["devices"]) == ("default/a", ["gpu.example.com/n/d0"])
    assert (allocated["node"], allocated["level"]) == ("n", "info")
    assert allocated["duration_ms"] > 0
    assert (waits["claims"], waits["reason"]) == (["default/b"], "DevicesInUse")
    assert waits["counts"][0]["request"] == "r"


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("arguments", "environment", "code", "message"),
    [
        pytest.param((), {}, 2, "--own-driver", id="nothing is owned"),
        pytest.param(
            ("--own-driver", "d", "--server", "http://127.0.0.1:1"), {}, 3, "127.0.0.1", id="no server"
        ),
        pytest.param(
            ("--own-driver", "d", "--kubeconfig", "/no/file"), {}, 3, "/no/file", id="no kubeconfig"
        ),
        pytest.param(("--config", "/no/file"), {}, 2, "/no/file", id="no settings file"),
        pytest.param(
            ("--embedded",), {"DRA_RECONCILER_SEARCH_STEPS": "0"}, 2, "SEARCH_STEPS", id="a bad setting"
        ),
        pytest.param(("--embedded", "--feature-gates", "X=true"), {}, 2, "'X'", id="an unknown feature gate"),
        pytest.param(
            ("--own-driver", "d", "-f", "/dev/null"), {}, 2, "--embedded", id="manifests, no server"
        ),
        pytest.param(("--semantics", "1.2"), {}, 2, "--semantics", id="an unknown release"),
        pytest.param(("--no-such-flag",), {}, 2, "--no-such-flag", id="an unknown flag"),
    ],
)
def test_what_keeps_it_from_starting_is_said_in_one_line(
    arguments: tuple[str, ...], environment: dict[str, str], code: int, message: str
):
    assert_refused(("run", *arguments), environment, code, message)
