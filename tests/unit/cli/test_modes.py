"""`dra-reconciler modes`, the example of the documentation, and the proposal's manifests end to end."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.api.manifests.bundle import as_served
from reconciler.cli import main
from reconciler.embedded import ApiServer
from reconciler.plugins.koordinator import vocabulary
from tests.tools.checkout import DOCS
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import KoordinatorCluster, Plain, machine, wants
from tests.tools.processes import answered
from tests.tools.short_manifests import CLASS, gpus, together

GUIDE = DOCS / "exclusive-devices.md"

PROPOSAL = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpu-1}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  sharedCounters:
  - {name: gpu-1-cs, counters: {multiprocessors: {value: "152"}}}
  devices:
  - name: gpu-1
    attributes: {type: gpu}
    consumesCounters: [{counterSet: gpu-1-cs, counters: {multiprocessors: {value: "152"}}}]
  - name: gpu-1-mig1
    attributes: {type: mig}
    consumesCounters:
    - {counterSet: gpu-1-cs, compatibilityGroups: [mig], counters: {multiprocessors: {value: "2"}}}
  - name: gpu-1-foo-part
    attributes: {type: {string: foo}}
    consumesCounters:
    - {counterSet: gpu-1-cs, compatibilityGroups: [foo, bar], counters: {multiprocessors: {value: "17"}}}
  - name: gpu-1-bar-part
    attributes: {type: {string: bar}}
    compatibleOnlyWith: {expression: 'device.attributes["gpu.example.com"].type != "mig"'}
    consumesCounters:
    - {counterSet: gpu-1-cs, compatibilityGroups: [bar], counters: {multiprocessors: {value: "2"}}}
"""


def claim(name: str, kind: str) -> str:
    wanted = {"cel": {"expression": f'device.attributes["gpu.example.com"].type == "{kind}"'}}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [wanted]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    metadata = {"name": name, "namespace": "default"}
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    return str(yaml.safe_dump(made))


def holding(name: str, device: str) -> str:
    made = yaml.safe_load(claim(name, "any"))
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return str(yaml.safe_dump(made))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def write(tmp_path: Path, *documents: str) -> str:
    path = tmp_path / "manifests.yaml"
    path.write_text(together(*documents))
    return str(path)


def test_the_table_has_a_line_for_each_physical_device(tmp_path: Path):
    result = run("modes", "-f", write(tmp_path, PROPOSAL, holding("train-7", "gpu-1-foo-part")))
    assert result.exit_code == 0
    assert [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()] == [
        ["POOL", "COUNTER SET", "HELD", "GROUPS", "CLAIM", "LOCKED OUT"],
        ["gpu.example.com/n1", "gpu-1-cs", "gpu-1-foo-part", "foo, bar", "default/train-7", "gpu-1-mig1"],
        [
            "groups of gpu.example.com are compared pairwise: default for drivers whose devices say "
            "compatibleOnlyWith"
        ],
    ]


@pytest.mark.parametrize(
    ("manifests", "options", "mode", "because"),
    [
        (PROPOSAL, (), "pairwise", "default for drivers whose devices say compatibleOnlyWith"),
        (
            "\n".join(line for line in PROPOSAL.splitlines() if "compatibleOnlyWith" not in line),
            (),
            "kep-5963",
            "default for drivers whose devices do not say compatibleOnlyWith",
        ),
        (PROPOSAL, ("--group-mode", "*=kep-5963"), "kep-5963", "set by --group-mode"),
    ],
)
def test_json_has_the_group_mode_of_each_driver(
    manifests: str, options: tuple[str, ...], mode: str, because: str, tmp_path: Path
):
    result = run("modes", "-o", "json", "-f", write(tmp_path, manifests), *options)
    (found,) = json.loads(result.stdout)["groupModes"]
    assert found == {"driver": "gpu.example.com", "mode": mode, "because": because}


LOCKED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: modes}
spec:
  driver: nic.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  sharingAffinity: [{cel: {subnet: object.subnet}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: nics}
spec:
  driver: nic.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  devices: [{name: eth-0, allowMultipleAllocations: true}, {name: eth-1, allowMultipleAllocations: true}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: default}
spec:
  devices:
    requests: [{name: r, exactly: {deviceClassName: nic, allocationMode: ExactCount, count: 1}}]
status:
  allocation:
    devices:
      results:
      - {request: r, driver: nic.example.com, pool: n1, device: eth-0,
         shareID: 6131a9f3-2289-411e-8a8f-ced0b30f6efd}
      config:
      - {source: FromClaim, opaque: {driver: nic.example.com, parameters: {subnet: blue}}}
"""


def test_the_mode_of_a_shared_device_is_shown_as_a_preview(tmp_path: Path):
    """AFF-3."""
    at, gate = write(tmp_path, LOCKED), "--feature-gates=DRASharingAffinity=true"
    shown = run("modes", "-f", at, gate).stdout
    assert re.search(r"SHARED DEVICE +MODE \(PREVIEW\) +CLAIMS\n", shown)
    assert re.search(r"nic.example.com/n1/eth-0 +subnet=blue +default/a\n", shown)
    assert "eth-1" not in shown
    assert "PREVIEW" not in run("modes", "-f", at).stdout


def test_json_also_has_conflicts(tmp_path: Path):
    held = [holding("a", "gpu-1-mig1"), holding("b", "gpu-1-bar-part")]
    result = run("modes", "-o", "json", "-f", write(tmp_path, PROPOSAL, *held))
    (mode,) = json.loads(result.stdout)["modes"]
    found = (mode["driver"], mode["pool"], mode["counterSet"], mode["node"])
    assert found == ("gpu.example.com", "n1", "gpu-1-cs", "n1")
    told = [(one["device"], one["groups"], one["claims"]) for one in mode["held"]]
    assert told == [("gpu-1-mig1", ["mig"], ["default/a"]), ("gpu-1-bar-part", ["bar"], ["default/b"])]
    assert mode["lockedOut"] == ["gpu-1-foo-part"]
    assert mode["conflicts"] == [
        "gpu-1-mig1 is held by default/a with group mig, "
        "but gpu-1-bar-part is held by default/b with group bar"
    ]


def test_a_fleet_without_exclusive_devices(tmp_path: Path):
    found = run("modes", "-f", write(tmp_path, gpus("n1"))).stdout
    assert found == "no devices exclude each other by groups or expressions\n"


@pytest.mark.parametrize(
    "arguments", [("--server", "http://x", "-f", "-"), ("-f", "-", "--group-mode", "d=none")]
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...]):
    assert run("modes", *arguments).exit_code == 2


def test_invalid_objects_are_reported_and_the_rest_is_shown(tmp_path: Path):
    broken = PROPOSAL.replace("metadata: {name: gpu-1}", "metadata: {name: x}").replace("driver:", "drive:")
    result = run("modes", "-f", write(tmp_path, PROPOSAL, broken))
    assert result.exit_code == 1
    assert "gpu-1-cs" in result.stdout
    assert "refused" in result.stderr


def test_the_manifests_of_the_proposal_are_allocated(tmp_path: Path):
    """Counters and devices in one slice, attributes without a type."""
    path = write(tmp_path, CLASS, PROPOSAL, claim("a", "foo"), claim("b", "bar"), claim("c", "mig"))
    result = run("allocate", "-f", path, "--group-mode", "*=pairwise")
    assert "default/a  r        gpu.example.com/n1/gpu-1-foo-part" in result.stdout
    assert "default/b  r        gpu.example.com/n1/gpu-1-bar-part" in result.stdout
    assert "not allocated: claim default/c" in result.stdout
    assert "gpu-1-foo-part is held by default/a with groups foo, bar" in result.stdout
    assert "read as a typed value" in result.stderr


@pytest.mark.loopback
async def test_the_embedded_server_keeps_the_fields_of_the_proposal():
    api = ApiServer()
    told: list[str] = []
    raws = [yaml.safe_load(text) for text in (PROPOSAL, holding("train-7", "gpu-1-mig1"))]
    api.load(as_served(raws, told.append))
    result = await answered(api, "modes", "-o", "json")
    (mode,) = json.loads(result.stdout)["modes"]
    assert mode["held"][0]["claims"] == ["default/train-7"]
    assert mode["lockedOut"] == ["gpu-1-foo-part", "gpu-1-bar-part"]
    assert any("split into two" in line for line in told)


def test_the_example_of_the_guide_gives_the_output_of_the_guide():
    text = GUIDE.read_text()
    result = run("allocate", "-f", str(DOCS / "examples" / "exclusive.yaml"))
    assert "default/train-7  gpu      gpu.example.com/node-1/gpu-1-mig1" in result.stdout
    (refusal,) = (line for line in result.stdout.splitlines() if line.startswith("not allocated"))
    assert refusal in text


GIVEN = {
    "minor": 1,
    "resources": {
        vocabulary.GPU_CORE: "100",
        vocabulary.GPU_MEMORY_RATIO: "100",
        vocabulary.GPU_MEMORY: "80Gi",
    },
}
ALONE = wants(
    "alone",
    {"nvidia.com/gpu": 1},
    gates=(),
    nodeName="n1",
    annotations={
        vocabulary.ALLOCATED: {"gpu": [GIVEN]},
        "scheduling.koordinator.sh/device-allocate-hint": {"gpu": {"exclusivePolicy": "PCIeLevel"}},
    },
)
MACHINE = machine("n1", *(gpu(minor, (0, "s0")) for minor in range(3)))
USE = {
    "node": "n1",
    "type": "gpu",
    "held": [{"minor": 1, "exclusivePolicy": "PCIeLevel", "pods": ["default/alone"]}],
    "lockedOut": [0, 2],
}


def test_exclusive_use_of_koordinators_devices_has_a_line_for_each_node_and_type(tmp_path: Path):
    path = write(tmp_path, yaml.safe_dump(MACHINE), yaml.safe_dump(ALONE))
    lines = run("modes", "-f", path).stdout.splitlines()
    assert [re.split(r" {2,}", line.strip()) for line in lines] == [
        ["NODE", "TYPE", "HELD", "EXCLUSIVE", "POD", "LOCKED OUT"],
        ["n1", "gpu", "1", "PCIeLevel", "default/alone", "0, 2"],
    ]
    assert json.loads(run("modes", "-o", "json", "-f", path).stdout)["exclusiveUse"] == [USE]


@pytest.mark.loopback
@pytest.mark.parametrize("claims", [True, False], ids=["with claims", "without"])
async def test_exclusive_use_is_read_from_a_cluster(claims: bool):
    found = KoordinatorCluster([MACHINE, ALONE]) if claims else Plain([MACHINE, ALONE])
    result = await answered(found.api, "modes", "-o", "json")
    assert json.loads(result.stdout)["exclusiveUse"] == [USE]
