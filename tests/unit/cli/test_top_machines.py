"""`dra-reconciler top --koordinator`, on manifests and on a cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.cli.connection import Connection
from reconciler.cli.top_extras import follow
from reconciler.control.decisions.allocating import DevicesGiven
from reconciler.embedded import serve
from reconciler.plugins.koordinator import Koordinator
from reconciler.plugins.plugin import Usage
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import KoordinatorCluster, Plain, machine, node, wants
from tests.tools.patience import PATIENCE
from tests.tools.watched_reconciler import watched

HALF = {"gpu-core": 50, "gpu-memory-ratio": 50}


def holding(name: str, on: str, minor: int, share: int) -> Any:
    """A pod that is bound and holds a part of a GPU."""
    resources = {"koordinator.sh/gpu-core": str(share), "koordinator.sh/gpu-memory-ratio": str(share)}
    text = json.dumps({"gpu": [{"minor": minor, "resources": resources}]})
    said = {"scheduling.koordinator.sh/device-allocated": text}
    return wants(name, HALF, gates=(), annotations=said, nodeName=on)


def fleet() -> list[Any]:
    machines = [machine("b", gpu(0), gpu(1), nic(0, vfs=4)), machine("a", gpu(0), gpu(1, health=False))]
    return [node("a"), node("b"), *machines, holding("p", "b", 0, 100), holding("q", "b", 1, 30)]


def run(path: Path, *flags: str) -> Result:
    path.write_text(yaml.safe_dump_all(fleet()))
    return CliRunner().invoke(main, ["top", "--koordinator", "-f", str(path), *flags])


def test_manifests_are_shown_by_type(tmp_path: Path):
    result = run(tmp_path / "m.yaml")
    assert result.exit_code == 0, result.output
    head, cards, nics = [line.rstrip().split(None, 6) for line in result.output.splitlines()]
    assert head[:6] == ["TYPE", "DEVICES", "HELD", "SHARED", "FREE", "BLOCKED"]
    assert cards[:6] == ["gpu", "4", "0", "2", "1", "1"]
    assert cards[6].startswith("gpu-core 170 of 300, gpu-memory 240Gi of 240Gi")
    assert nics == ["rdma", "1", "0", "0", "1", "0", "rdma 100 of 100, virtual functions 4 of 4"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--by", "node"), [("a", "gpu"), ("b", "gpu"), ("b", "rdma")]),
        (("--node", "b"), [("b", "gpu"), ("b", "rdma")]),
        (("--by", "node", "--driver", "rdma"), [("b", "rdma")]),
        (("--by", "node", "--sort", "devices"), [("a", "gpu"), ("b", "gpu"), ("b", "rdma")]),
        (("--driver", "fpga"), []),
    ],
)
def test_lines_are_filtered_in_json_and_yaml(tmp_path: Path, flags: tuple[str, ...], expected: Any):
    result = run(tmp_path / "m.yaml", "-o", "json", *flags)
    assert [(item["node"], item["type"]) for item in json.loads(result.stdout)["items"]] == expected
    told = yaml.safe_load(run(tmp_path / "m.yaml", "-o", "yaml", *flags).stdout)
    assert told == json.loads(result.stdout)


@pytest.mark.parametrize("flags", [("--by", "pool"), ("--sort", "fits")])
def test_options_that_do_not_apply_are_wrong_usage(tmp_path: Path, flags: tuple[str, ...]):
    assert run(tmp_path / "m.yaml", *flags).exit_code == 2


def test_a_fleet_without_devices(tmp_path: Path):
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(node("a")))
    result = CliRunner().invoke(main, ["top", "--koordinator", "-f", str(tmp_path / "m.yaml")])
    assert result.output == "no device is published that a node can use\n"


@pytest.mark.loopback
async def test_a_cluster_without_claims_is_watched():
    cluster = Plain(fleet())
    seen: list[int] = []
    changed, plugin = asyncio.Event(), Koordinator()

    async def show(found: Usage) -> None:
        seen.append(found.lines(nodes=False)[0].states[1])
        if seen[-1] == 1:
            changed.set()
        elif len(seen) == 1:
            cluster.remove("q")

    async with serve(cluster.api) as url:
        connection = Connection(named=True, server=url, kubeconfig=None, context=None, insecure=False)
        following = asyncio.create_task(follow(plugin, plugin.usage(), connection, show, 0.01))
        async with asyncio.timeout(PATIENCE):
            await changed.wait()
        following.cancel()
        await asyncio.wait([following])
        once: list[int] = []

        async def count(found: Usage) -> None:
            once.append(sum(line.devices for line in found.lines(nodes=False)))

        await follow(plugin, plugin.usage(), connection, count, None)
    assert seen[0] == 2
    assert once == [5]


@pytest.mark.loopback
async def test_metrics_have_the_same_numbers():
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0), gpu(1), nic(0, vfs=4))])
    cluster.load(wants("p", {"nvidia.com/gpu": 1}))
    async with watched(cluster, koordinator=True) as running:
        await running.heard(DevicesGiven)
        of = {"driver": "koordinator.sh/gpu"}
        assert await running.value("dra_reconciler_devices", state="held", **of) == 1
        assert await running.value("dra_reconciler_devices", state="allocatable", **of) == 1
        core = {**of, "counter": "koordinator.sh/gpu-core"}
        assert await running.value("dra_reconciler_counters_capacity", **core) == 200
        assert await running.value("dra_reconciler_counters_available", **core) == 100
        functions = {"driver": "koordinator.sh/rdma", "counter": "virtual-functions"}
        assert await running.value("dra_reconciler_counters_available", **functions) == 4
