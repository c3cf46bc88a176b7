"""The doctor's rounds on a live server: findings as metrics and Events, with the rights of our role alone."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.embedded import ApiServer, serve
from reconciler.embedded.accounts import Roles, account, service_account
from reconciler.embedded.guard import Guard
from reconciler.operations import findings
from reconciler.settings import Settings
from tests.tools.checkout import ROOT
from tests.tools.doctor_manifests import part
from tests.tools.http_servers import write_kubeconfig
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.watched_reconciler import watched

pytestmark = pytest.mark.loopback

BASE = ROOT / "deploy" / "base"


@pytest.fixture(autouse=True)
def _as_important_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that gives way to all other processes takes minutes on a busy machine."""
    monkeypatch.setattr(findings, "NICENESS", 0)


async def test_findings_become_metrics_and_events_on_slices():
    cluster = Cluster([device_class(), node("a"), devices("a", "d0")])
    cluster.api.load([part("half", {"name": "x"}, count=2)])
    cluster.load(claim("c", 1, device_class="nowhere", managed=False))
    async with watched(cluster, doctor_seconds=0.01) as seen:
        await cluster.until(lambda: cluster.events("half"))
        assert (
            await seen.value("dra_reconciler_doctor_findings", check="pool-incomplete", severity="error") == 1
        )
        assert (
            await seen.value("dra_reconciler_doctor_findings", check="missing-class", severity="warning") == 1
        )
        (event,) = cluster.events("half")
        assert event["reason"] == "PoolIncomplete"
        assert "1 of 2 slices" in (event.get("message") or event["note"])


@pytest.mark.parametrize("role", ["ours", "none"])
async def test_the_deployed_role_has_all_permissions_of_the_doctor(tmp_path: Path, role: str):
    documents = [one for path in BASE.glob("rbac.yaml") for one in yaml.safe_load_all(path.read_text())]
    ours = service_account("dra-reconciler", "dra-reconciler")
    tokens = {"t": ours if role == "ours" else account("somebody")}
    server = ApiServer(guard=Guard(tokens, Roles.read(documents)))
    server.load([part("half", {"name": "x"}, count=2)])
    async with serve(server) as url:
        path = write_kubeconfig(tmp_path / "config", {"server": url}, u={"token": "t"})
        command = findings.command(Settings(kubeconfig=path))
        if role == "ours":
            found = await findings.examine(command)
            assert [one["check"] for one in found] == ["pool-incomplete"]
        else:
            with pytest.raises(ValueError, match="cannot list"):
                await findings.examine(command)


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path):
    started = tmp_path / "pid"
    os.mkfifo(started)
    script = f"import os, time\nopen({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    task = asyncio.create_task(findings.examine((sys.executable, "-c", script)))
    pid = int(await asyncio.to_thread(started.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("stream", [1, 2], ids=["findings", "complaints"])
async def test_a_run_with_endless_output_uses_bounded_memory(tmp_path: Path, stream: int):
    """What it finds is bounded; of what it complains about the end is kept."""
    started = tmp_path / "pid"
    os.mkfifo(started)
    script = f"""
import os
open({str(started)!r}, "w").write(str(os.getpid()))
for _ in range(1000):
    os.write({stream}, b"x" * 4096)
os.write(2, b"\\nthe last words")
"""
    task = asyncio.create_task(findings.examine((sys.executable, "-c", script), most=100_000))
    pid = int(await asyncio.to_thread(started.read_text))
    with pytest.raises(ValueError, match="wrote more than 100000 bytes" if stream == 1 else "the last words"):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_command_names_the_cluster_of_the_settings():
    by_driver = {"group_modes": {"d": "pairwise"}, "exclusion_scopes": {"d": "pool"}}
    settings = Settings.model_validate({"kubeconfig": "/k", "context": "c", **by_driver})
    wanted = "doctor --cluster -o json --kubeconfig /k --context c --group-mode d=pairwise"
    wanted += " --exclusion-scope d=pool"
    assert findings.command(settings)[3:] == tuple(wanted.split())
