"""`dra-reconciler whatif` for pods that request Koordinator's devices."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.plugins.koordinator import vocabulary
from tests.tools.koordinator_builders import gpu, nic
from tests.tools.koordinator_cluster import KoordinatorCluster, machine, node, wants
from tests.tools.processes import answered

ONE = {"nvidia.com/gpu": 1}
Object = dict[str, Any]
Ask = Callable[..., Result]


def holder(name: str, on: str, minor: int, **spec: Any) -> Object:
    """A pod as we write it: with the annotation, and pinned to its node."""
    whole = {vocabulary.GPU_CORE: "100", vocabulary.GPU_MEMORY_RATIO: "100", vocabulary.GPU_MEMORY: "80Gi"}
    given = {"minor": minor, "resources": whole}
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pinned = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    annotations = {vocabulary.ALLOCATED: {"gpu": [given]}}
    return wants(name, ONE, gates=(), annotations=annotations, affinity=pinned, nodeName=on, **spec)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs the command on manifests: the question in one file, the cluster in another."""

    def run(
        *arguments: str, pods: list[Object], world: list[Object], added: list[Object] | None = None
    ) -> Result:
        options: list[str] = []
        for name, objects in (("asked", pods), ("world", world)):
            if objects:
                (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(objects))
                options += ["-f", str(tmp_path / f"{name}.yaml")]
        if added:
            (tmp_path / "added.yaml").write_text(yaml.safe_dump_all(added))
            options += ["--add", str(tmp_path / "added.yaml")]
        return CliRunner().invoke(main, ["whatif", *options, *arguments, "-o", "json"])

    return run


def told(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


WORLD = [node("a"), node("b"), machine("a", gpu(0), gpu(1)), machine("b", gpu(0))]


def test_copies_are_placed_until_one_does_not_fit(ask: Ask):
    result = ask(pods=[wants("p", ONE)], world=[*WORLD, holder("held", "a", 0)])
    found = told(result)
    assert (result.exit_code, found["copies"], found["limit"]) == (0, 2, "full")
    assert [(one["node"], one["devices"][0]["device"]) for one in found["placed"]] == [("a", "1"), ("b", "0")]
    assert found["refused"]["reason"] == "InsufficientDevices"


def test_without_a_pod_its_devices_and_its_room_are_free(ask: Ask):
    small = node("b") | {"status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    world = [small, machine("b", gpu(0)), holder("held", "b", 0)]
    busy = wants("p", ONE)
    assert ask("--count", "1", pods=[busy], world=world).exit_code == 1
    result = ask("--count", "1", "--without", "held", pods=[busy], world=world)
    assert result.exit_code == 0, result.output
    assert told(result)["freed"] == ["default/held"]


def test_a_drained_node_moves_its_pods_first(ask: Ask):
    """Our pin to the node is not a wish of the pod; a DaemonSet's is."""
    daemon = holder("daemon", "a", 1)
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
    ]
    result = ask("--drain", "a", pods=[], world=[*WORLD, holder("held", "a", 0), daemon])
    assert result.exit_code == 1, result.output
    lost = {one["pod"]: one for one in told(result)["lost"]}
    assert lost["default/held"]["devices"][0] == {"driver": "gpu", "pool": "a", "device": "0"}
    assert lost["default/held"]["elsewhere"]["node"] == "b"
    assert lost["default/daemon"]["refused"]["reason"] in ("NoSuitableNode", "InsufficientDevices")


def test_a_drained_node_serves_no_copies(ask: Ask):
    result = ask("--drain", "a", pods=[wants("p", ONE)], world=WORLD)
    assert (told(result)["copies"], told(result)["placed"][0]["node"]) == (1, "b")


def test_added_machines_count(ask: Ask):
    result = ask(pods=[wants("p", ONE)], world=WORLD, added=[machine("c", gpu(0), gpu(1)), node("c")])
    assert told(result)["copies"] == 5


def test_what_can_never_be_has_its_reason(ask: Ask):
    never = ask(pods=[wants("p", {"fpga": 1})], world=WORLD)
    assert (never.exit_code, told(never)["refused"]["reason"]) == (1, "NoDevicesOfType")
    bad = wants("p", {"rdma": 1}, annotations={vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "x"}}})
    world = [node("a"), machine("a", nic(0))]
    assert told(ask(pods=[bad], world=world))["refused"]["reason"] == "MalformedAnnotation"
    released = ask("--count", "1", "--koordinator-semantics", "upstream", pods=[bad], world=world)
    assert released.exit_code == 0


def test_the_table_counts_pods(ask: Ask, tmp_path: Path):
    (tmp_path / "w.yaml").write_text(yaml.safe_dump_all([*WORLD, holder("held", "a", 0)]))
    result = CliRunner().invoke(main, ["whatif", "-f", str(tmp_path / "w.yaml"), "--drain", "a"])
    assert result.exit_code == 0, result.output
    assert (
        "lost: 0 claims and 1 pod with Koordinator's devices; 0 cannot be allocated elsewhere"
        in result.stdout
    )
    assert "gpu/b/0 on b" in result.stdout


def test_an_unknown_pod_is_an_error(ask: Ask):
    result = ask("--without", "other", pods=[wants("p", ONE)], world=WORLD)
    assert result.exit_code == 2
    assert "there is no claim default/other" in result.stderr


@pytest.mark.loopback
async def test_a_cluster_is_asked_and_not_changed(tmp_path: Path):
    cluster = KoordinatorCluster([*WORLD, holder("held", "a", 0), holder("other", "b", 0)])
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(wants("p", ONE)))
    options = ["-f", str(tmp_path / "p.yaml"), "-o", "json", "--without", "other"]
    result = await answered(cluster.api, "whatif", *options)
    assert result.exit_code == 0, result.output
    assert told(result)["copies"] == 2
    assert cluster.pod("p") is None
