"""The process under the rights that `deploy` gives it, by a real token: they are enough, and no more."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from reconciler import app
from reconciler.api.objects.gangs import COSCHEDULING_LABEL
from reconciler.api.validation.served_kinds import CONFIG_MAP, DEVICE_CLASS, POD
from reconciler.cluster.client import Client
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Response, Transport
from reconciler.control import demand
from reconciler.control.decisions.allocating import Allocated, Compared, Freed, Ungated, WritesPaused
from reconciler.control.decisions.every import Evicted, RoomPlanned
from reconciler.control.relocation import rebalancer
from reconciler.control.relocation.evictor import AGAIN
from reconciler.control.relocation.moves import MovesAdvice, StandingAdvice
from reconciler.embedded import serve
from reconciler.errors import Undecided
from reconciler.operations import findings
from reconciler.operations.findings import DoctorSchedule
from reconciler.operations.serving.access import CACHE_SECONDS
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.server import access_for, serving
from reconciler.plugins.koordinator.vocabulary import ALLOCATED
from reconciler.settings import Settings
from tests.tools import deployed_rights
from tests.tools.deployed_rights import DEPLOY, Granted, bound
from tests.tools.enforced_rights import PROMETHEUS, cluster, kubeconfig
from tests.tools.faulty_transport import Faulty, Send
from tests.tools.gangs import child_of, pod_group
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.patience import PATIENCE
from tests.tools.pod_scenarios import apart, term
from tests.tools.rights_session import Noting, Rights, as_deployed, asked
from tests.tools.running_reconciler import Cluster, Running
from tests.tools.small_fleet import claim, device_class, devices, node, pod
from tests.tools.tuned import tuned
from tests.tools.volume_scenarios import mounting, storage_class, volume_claim

pytestmark = pytest.mark.loopback

STARTED = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
APART = apart(term("kubernetes.io/hostname", namespaceSelector={"matchLabels": {"team": "x"}}))
"""An affinity for which namespaces must be listed"""


async def lost_request(_: Send) -> Response:
    """It never reached the server, but who sent it cannot know."""
    raise Undecided("the request got lost")


class Deployed:
    """What runs as `deploy` says, and its status port."""

    def __init__(self, running: Running, url: str) -> None:
        self.running = running
        self._url = url

    async def status(self, path: str, token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}{path}", headers=headers, ssl=False) as response,
        ):
            return response.status, await response.text()


@asynccontextmanager
async def running(
    found: Cluster, folder: Path, rights: Rights, *faults: str, **flags: Any
) -> AsyncIterator[Deployed]:
    """Run with the settings of `deploy`, the token of its account and whatever the flags add."""
    set_there = deployed_rights.settings().model_dump(exclude_unset=True)
    here = {
        "status_address": "127.0.0.1",
        "status_port": 0,
        "koordinator": True,
        "event_delay_seconds": 0.0,
        "rebalance_calm_seconds": 0.01,
    }
    here |= {"lease_seconds": 4.5, "renew_seconds": 3.0, "retry_seconds": 0.5, "write_seconds": 1.5}
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    async with serve(found.api) as server:
        config = kubeconfig(folder, server)
        fields = {**set_there, **here, "backoff_base_seconds": 0.01, "kubeconfig": str(config), **flags}
        settings = tuned(**fields)

        def note(request: Any) -> None:
            modes = deployed_rights.modes_of(settings)
            rights.note(modes, as_deployed(request, settings, deployed_rights.settings()))

        async with connect(kubeconfig=str(config)) as transport:
            faulty = Faulty(transport)
            for end in faults:
                faulty.on("PATCH", end, lost_request)
            noting: Transport = Noting(faulty, note)
            port = StatusPort(access_for(settings, Client(transport), loop.time))
            run = Running(faulty, stop)
            async with (
                serving(port, settings, now=lambda: datetime.now(UTC)) as url,
                asyncio.TaskGroup() as group,
            ):
                group.create_task(
                    app.run(settings, noting, stop=stop, on_decision=run.on_decision, port=port)
                )
                try:
                    yield Deployed(run, url)
                finally:
                    stop.set()


def switch(**data: str) -> Any:
    namespace, _, name = (deployed_rights.settings().pause_config_map or "").partition("/")
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def kept() -> list[Any]:
    """The ConfigMaps that are deployed."""
    return [one for one in deployed_rights.documents("base") if one["kind"] == "ConfigMap"]


@pytest.fixture
def rights(monkeypatch: pytest.MonkeyPatch) -> Rights:
    """Notes what this test asks for, besides what the session notes."""
    made = Rights({"allocate": deployed_rights.granted("allocate")})
    made.watch_servers(monkeypatch)
    return made


@pytest.fixture
def round_made(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the doctor looked at the cluster, in a process of its own, and came back with findings.

    In tests without it, the first round would be later than their end.
    """
    made, take = asyncio.Event(), DoctorSchedule._take

    def taken(made_by: DoctorSchedule, findings: Any) -> None:
        take(made_by, findings)
        made.set()

    monkeypatch.setattr(DoctorSchedule, "_take", taken)
    monkeypatch.setattr(findings, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(findings, "NICENESS", 0)  # beside other tests it would hardly get a turn
    return made


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when there is advice which pods to move; whether budgets may be read was asked before."""
    made, note = asyncio.Event(), StandingAdvice.note

    def noted(standing: StandingAdvice, found: tuple[MovesAdvice, ...]) -> list[MovesAdvice]:
        made.set()
        return note(standing, found)

    monkeypatch.setattr(StandingAdvice, "note", noted)
    monkeypatch.setattr(rebalancer, "LOOK", 0.1)
    return made


async def test_the_deployed_rights_are_enough_for_everything_and_for_nothing_else(
    tmp_path: Path,
    rights: Rights,
    round_made: asyncio.Event,
    advised: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(demand, "EVERY", 0.1)  # it has nothing to write until it leads
    found, api = cluster()
    found.load(device_class(), node("a"), devices("a", "d0", "d1"), switch(pause="true"))
    found.load(claim("alone", 1), claim("shared", 1), pod("p", "shared", **APART, **mounting("data")))
    found.load(storage_class(), volume_claim("data"))
    found.load(machine("a", gpu(0)), wants("equipped", {"nvidia.com/gpu": 1}))
    labelled = pod("labelled")
    labelled["metadata"]["labels"] = {COSCHEDULING_LABEL: "group"}
    found.load(child_of("tree", pod_group("group")))
    found.load(pod("grouped", schedulingGroup={"podGroupName": "group"}), labelled)
    found.load(*kept())
    async with running(found, tmp_path, rights, "/status", "/equipped", policy=["least-loss"]) as there:
        run = there.running
        await run.heard(WritesPaused, 2)  # before the ConfigMap was read, and because of it
        paused = switch()["metadata"]
        found.api.delete(CONFIG_MAP, paused["namespace"], paused["name"])
        await run.heard(Ungated, 2)
        await found.until(lambda: found.devices("alone") and found.devices("shared"))
        found.delete("alone")
        await run.heard(Freed)
        found.load(claim("waits", 1, device_class="none"))
        await found.until(lambda: found.events("waits"))
        found.load(device_class("none", "nobody.example.com"))
        await found.until(lambda: len(found.events("waits")) > 1)
        found.api.delete(DEVICE_CLASS, "", "none")
        await found.until(lambda: any("series" in event for event in found.events("waits")))
        assert (await there.status("/metrics", PROMETHEUS))[0] == 200
        assert (await there.status("/statusz", PROMETHEUS))[0] == 403
        assert (await there.status("/metrics", "nobody's"))[0] == 401
        async with asyncio.timeout(PATIENCE):
            await round_made.wait()
            await advised.wait()
    assert api.refused == []
    assert ALLOCATED in found.pod("equipped")["metadata"]["annotations"]
    assert {(one.resource, one.subresource) for one in api.judged} >= {
        ("pods", ""), ("resourceclaims", ""), ("resourceclaims", "status"),
    }  # fmt: skip
    assert run.of(Allocated)
    assert rights.judge(whole=True) == []


async def test_the_rights_of_shadow_mode_are_enough_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, round_made: asyncio.Event
):
    granted = deployed_rights.granted("shadow")
    assert {right.verb for right in granted.rights} <= {"get", "list", "watch"}
    rights = Rights({"shadow": granted})
    rights.watch_servers(monkeypatch)
    found, api = cluster("shadow")
    found.load(device_class(), node("a"), devices("a", "d0"), claim("c", 1), machine("a", gpu(0)))
    found.load(pod("p", "c", gates=(), **APART, **mounting("data")))
    found.load(storage_class(), volume_claim("data"))
    flags: dict[str, Any] = {"mode": "shadow", "pause_config_map": None, "shadow_pending_seconds": 0.01}
    async with running(found, tmp_path, rights, **flags) as there:
        await there.running.heard(Compared)
        async with asyncio.timeout(PATIENCE):
            await round_made.wait()
    assert api.refused == []
    assert api.judged == []
    assert rights.judge(whole=True) == []


async def test_the_rights_to_evict_are_enough_and_bound_for_that_alone(tmp_path: Path):
    rights = Rights({mode: deployed_rights.granted(mode) for mode in ("evict", "ask first")})
    found, api = cluster("ask first")
    low, high = pod("low", "first"), pod("high", "second", priority=1, priorityClassName="urgent")
    found.load(device_class(), node("a"), devices("a", "d0"), low, switch(pause="false"))
    found.load(claim("first"), *kept())
    flags: dict[str, Any] = {
        "preemption": "evict",
        "preempting_classes": {"urgent"},
        "eviction_cooldown_seconds": 0.0,
        "eviction_request_seconds": 2.5 * AGAIN,  # asks more than once
    }
    async with running(found, tmp_path, rights, **flags) as there:
        await there.running.heard(Ungated)
        found.api.bind("default", "low", "a")
        found.api.update(
            POD, "default", "low", lambda shown: shown | {"status": STARTED}, subresource="status"
        )
        found.load(claim("second"), high)
        await there.running.heard(Evicted)
        found.api.delete(POD, "default", "high")  # so that the plan ends
        async with asyncio.timeout(PATIENCE):
            while not any(  # noqa: ASYNC110
                one.verb == "delete" and one.resource == "evictionrequests" for _, one in rights.seen
            ):
                await asyncio.sleep(0.05)  # withdrawing sends no event
    assert api.refused == []
    assert {("pods", "status")} <= {(one.resource, one.subresource) for one in api.judged}
    assert rights.judge(whole=True) == []


async def test_plans_that_are_shown_need_to_read_budgets_and_nothing_more(tmp_path: Path):
    rights = Rights({mode: deployed_rights.granted(mode) for mode in ("allocate", "advise")})
    found, api = cluster("advise")
    found.load(device_class(), node("a"), devices("a", "d0"), pod("low", "first"), claim("first"))
    found.load(switch(pause="false"))
    flags: dict[str, Any] = {"preemption": "advise", "preempting_classes": {"urgent"}}
    async with running(found, tmp_path, rights, **flags, eviction_cooldown_seconds=0.0) as there:
        await there.running.heard(Ungated)
        found.api.bind("default", "low", "a")
        found.api.update(
            POD, "default", "low", lambda shown: shown | {"status": STARTED}, subresource="status"
        )
        found.load(claim("second"), pod("high", "second", priority=1, priorityClassName="urgent"))
        await there.running.heard(RoomPlanned)
        async with asyncio.timeout(PATIENCE):  # the first plan may come before the watch of budgets
            while not any(mode == "advise" and one.verb == "watch" for mode, one in rights.seen):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert api.refused == []
    assert rights.judge(whole=False) == []
    needed = {deployed_rights.right(one) for mode, one in rights.seen if mode == "advise"}
    assert needed == deployed_rights.granted("advise").rights
    assert {(one.verb, one.resource) for one in needed} == {
        ("list", "poddisruptionbudgets"), ("watch", "poddisruptionbudgets"),
    }  # fmt: skip


async def test_without_the_role_it_does_not_start_and_says_what_is_missing(tmp_path: Path):
    found, _ = cluster()
    rights = Rights({mode: deployed_rights.granted(mode) for mode in ("allocate", "evict")})
    found.load(device_class())

    async def run() -> None:
        async with running(found, tmp_path, rights, preemption="evict"):
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as stopped:
        await run()
    (refused,) = stopped.value.exceptions
    assert "list poddisruptionbudgets.policy, watch poddisruptionbudgets.policy, create pods" in str(refused)
    assert "patch pods/status. Add deploy/components/rebalance" in str(refused)


@pytest.mark.parametrize(
    ("method", "path", "query", "wanted"),
    [
        ("GET", "/api/v1/pods", (), ("list", "", "pods", "", "")),
        ("GET", "/api/v1/pods", (("watch", "true"),), ("watch", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces/n/pods/p", (), ("get", "", "pods", "n", "p")),
        ("PATCH", "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c/status", (),
         ("patch", "resource.k8s.io", "resourceclaims/status", "n", "c")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/n/events", (),
         ("create", "events.k8s.io", "events", "n", "")),
        ("GET", "/api/v1/namespaces/n/configmaps", (("fieldSelector", "metadata.name=s"),),
         ("list", "", "configmaps", "n", "s")),
        ("DELETE", "/api/v1/nodes/a", (), ("delete", "", "nodes", "", "a")),
    ],
)  # fmt: skip
def test_a_request_is_known_by_its_verb_and_resource(method: str, path: str, query: Any, wanted: Any):
    found = asked(method, path, query)
    assert (found.verb, found.group, found.resource, found.namespace, found.name) == wanted


def test_names_that_settings_choose_are_taken_for_those_of_deploy():
    there = deployed_rights.settings()
    settings = Settings(pause_config_map="ops/switch", demand_config_map="ops/demand", lease_namespace="ops")
    listing = (("fieldSelector", "metadata.name=switch"),)
    same = as_deployed(asked("GET", "/api/v1/namespaces/ops/configmaps", listing), settings, there)
    assert f"{same.namespace}/{same.name}" == there.pause_config_map
    kept = as_deployed(asked("GET", "/api/v1/namespaces/ops/configmaps/demand"), settings, there)
    assert f"{kept.namespace}/{kept.name}" == there.demand_config_map
    other = asked("GET", "/api/v1/namespaces/ops/configmaps/other")
    assert as_deployed(other, settings, there) == other


def test_what_is_not_granted_and_what_is_not_needed_are_both_told(monkeypatch: pytest.MonkeyPatch):
    rights = Rights({"allocate": deployed_rights.granted("allocate")})
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/x.py::test_y (call)")
    rights.note(("allocate",), asked("DELETE", "/api/v1/nodes/a"))
    rights.note(("allocate",), asked("GET", "/api/v1/nodes"))
    rights.note(("allocate",), asked("GET", "/api/v1/namespaces/n/configmaps/other"))
    rights.note(("allocate",), asked("GET", "/apis/resource.k8s.io/v1"))
    nodes, maps = rights.judge(whole=False)
    assert nodes == "tests/x.py::test_y: the role for allocate does not grant delete nodes a"
    assert maps.endswith("does not grant get configmaps other in n")
    unused = rights.judge(whole=True)[2:]
    assert "the role for allocate grants patch pods, which no test needs" in unused
    assert "the role for allocate grants list nodes, which no test needs" not in unused


# -- What the page on security says of rights is so.


PAGE = (DEPLOY.parent / "docs" / "security.md").read_text()


def test_the_rights_are_those_of_the_roles():
    rights = Granted(bound("allocate")).rights
    wanted: dict[str, set[str]] = {}
    for right in rights:
        wanted.setdefault(f"{right.resource}.{right.group}".rstrip("."), set()).add(right.verb)
    rows = re.findall(r"^\| `([a-z0-9/.-]+)` \| ([a-z, ]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert {resource: set(verbs.split(", ")) for resource, verbs in rows} == wanted
    assert len(rows) == len(wanted)


def test_answers_are_remembered_as_long_as_the_page_says():
    assert f"remembered for {CACHE_SECONDS:.0f} s" in PAGE


def test_every_file_and_setting_that_is_named_exists():
    for path in re.findall(r"`(deploy/[A-Za-z/.]+)`", PAGE):
        assert (DEPLOY.parent / path).exists(), path
    for name in re.findall(r"`(status_[a-z_]+|search_steps|own_[a-z]+|insecure_[a-z_]+)`", PAGE):
        assert name in Settings.model_fields
