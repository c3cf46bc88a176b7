"""How the parts of a run are put together: by constructors alone, and without running any of them."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reconciler.app.build import Parts, build
from reconciler.cluster.http import connect
from reconciler.control.decisions.allocating import WritesPaused
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import serve
from reconciler.operations.serving.access import Local
from reconciler.operations.serving.port import StatusPort
from reconciler.settings import Settings
from tests.tools.checkout import ROOT
from tests.tools.faulty_transport import Faulty
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node

APP = sorted((ROOT / "reconciler" / "app").glob("*.py"))
MOST_LINES = 60
MOVING = ("watch poddisruptionbudgets", "rebalance")
WATCHES = [
    "watch nodes", "watch pods", "watch resourceslices", "watch resourceclaims", "watch deviceclasses",
    "watch devicetaintrules", "watch namespaces on demand", "watch podgroups.scheduling.k8s.io on demand",
    "watch podgroups.scheduling.x-k8s.io on demand",
    "watch persistentvolumes on demand", "watch persistentvolumeclaims on demand",
    "watch storageclasses.storage.k8s.io on demand", "watch csinodes.storage.k8s.io on demand",
    "watch csidrivers.storage.k8s.io on demand", "watch csistoragecapacities.storage.k8s.io on demand",
    "watch volumeattachments.storage.k8s.io on demand",
]  # fmt: skip


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            yield found


def attributes_set(function: ast.AST) -> Iterator[str]:
    """Every `thing.name = ...` in a function."""
    for found in ast.walk(function):
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Store):
            yield ast.unparse(found)


@pytest.mark.parametrize("path", APP, ids=lambda path: path.name)
def test_nothing_is_set_on_a_part_after_it_was_built(path: Path):
    late = [
        name
        for function in functions(path)
        for name in attributes_set(function)
        if function.name != "__init__" or not name.startswith("self.")
    ]
    assert late == []


@pytest.mark.parametrize("path", APP, ids=lambda path: path.name)
def test_no_function_is_longer_than_a_screen(path: Path):
    lengths = {one.name: (one.end_lineno or one.lineno) - one.lineno + 1 for one in functions(path)}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


class Built(NamedTuple):
    parts: Parts
    writes: list[str]
    decisions: list[Decision]


async def built(*, port: bool = False, **flags: Any) -> Built:
    """The parts of a process with these settings, and what was written and decided while it was built."""
    cluster = Cluster([node("n"), device_class(), devices("n", "d0"), claim("a")])
    async with serve(cluster.api) as url, connect(server=url) as transport:
        faulty = Faulty(transport)
        settings = Settings(embedded=True, **flags)
        status = StatusPort(Local()) if port else None
        told: list[Decision] = []
        parts = await build(settings, faulty, stop=asyncio.Event(), on_decision=told.append, port=status)
        return Built(parts, faulty.sent, told)


@pytest.mark.loopback
async def test_building_starts_no_task_and_writes_nothing():
    before = asyncio.all_tasks()
    parts, writes, decisions = await built()
    assert (writes, decisions) == ([], [])
    names = {task.get_name() for task in asyncio.all_tasks() - before}
    assert names.isdisjoint(job.name for job in parts.jobs)
    assert not any(name.startswith("worker") for name in names)


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("flags", "jobs"),
    [
        pytest.param(
            {},
            ["audit", "notices", "unmanaged claims", *MOVING, "expire nominations", "spare the collector"],
            id="no port",
        ),
        pytest.param(
            {"events": False},
            ["audit", "unmanaged claims", *MOVING, "expire nominations", "spare the collector"],
            id="no Events",
        ),
        pytest.param(
            {"port": True},
            [
                "audit",
                "heartbeat",
                "notices",
                "unmanaged claims",
                "rounds of the doctor",
                *MOVING,
                "expire nominations",
                "spare the collector",
            ],
            id="port",
        ),
        pytest.param(
            {"port": True, "doctor_seconds": 0},
            [
                "audit",
                "heartbeat",
                "notices",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "spare the collector",
            ],
            id="no doctor",
        ),
        pytest.param(
            {"pause_config_map": "ns/switch"},
            [
                "audit",
                "watch the switch",
                "notices",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "spare the collector",
            ],
            id="switch",
        ),
        pytest.param(
            {"events": False, "kueue_check": "room", "provisioning_requests": "class"},
            [
                "audit",
                "unmanaged claims",
                *MOVING,
                "watch provisioning requests",
                "provisioning",
                "watch workloads.kueue.x-k8s.io for Kueue",
                "watch admissionchecks.kueue.x-k8s.io for Kueue",
                "watch resourceflavors.kueue.x-k8s.io for Kueue",
                "watch resourceclaimtemplates.resource.k8s.io for Kueue",
                "admission check",
                "expire nominations",
                "spare the collector",
            ],
            id="Kueue and autoscalers",
        ),
        pytest.param(
            {"mode": "shadow", "pause_config_map": "ns/switch", "kueue_check": "room"},
            ["audit", "expire nominations", "spare the collector"],
            id="shadow",
        ),
    ],
)
async def test_what_runs_beside_the_workers_follows_from_the_settings(flags: dict[str, Any], jobs: list[str]):
    parts = (await built(**flags)).parts
    assert [job.name for job in parts.jobs] == [*WATCHES, *jobs]
    assert (parts.shadow is not None) == (flags.get("mode") == "shadow")


@pytest.mark.loopback
async def test_what_is_paused_by_a_setting_is_paused_before_anything_runs():
    (paused,) = (await built(pause=True)).decisions
    assert isinstance(paused, WritesPaused)
