"""Volumes of pods in `explain` and `whatif` on a cluster: storage objects are listed if a pod needs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.processes import answered
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod, template
from tests.tools.volume_scenarios import volume, volume_claim

pytestmark = pytest.mark.loopback


def data(on: str) -> list[Object]:
    """A claim of a volume, and the volume that it has, on one node."""
    return [volume("pv", on, of="data"), volume_claim("data", volume="pv") | {"status": {"phase": "Bound"}}]


def fleet() -> list[Object]:
    """Two nodes with a device each; the volume is on the second."""
    nodes = [node(name, **{"kubernetes.io/hostname": name}) for name in ("n1", "n2")]
    return [device_class(), *nodes, devices("n1", "d0"), devices("n2", "d0"), *data("n2")]


def with_volume(name: str, *claims: str, **fields: Any) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return pod(name, *claims, volumes=volumes, **fields)


async def run(api: ApiServer, *arguments: str) -> str:
    return (await answered(api, *arguments)).output


async def test_explain_leaves_out_nodes_that_cannot_use_the_volume():
    api = ApiServer()
    api.load([*fleet(), claim("c", 2), with_volume("p", "c")])
    output = await run(api, "explain", "--pod", "p")
    assert "1 of 2 nodes suit the pod" in output
    assert "outside the node affinity of the volume of default/data" in output


async def test_whatif_places_a_pod_where_its_volume_is(tmp_path: Path):
    api = ApiServer()
    api.load(fleet())
    path = tmp_path / "pod.json"
    asked = [template("t"), with_volume("p", templates=("t",))]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": asked}))
    answer = json.loads(await run(api, "whatif", "-f", str(path), "--count", "1", "-o", "json"))
    assert [one["node"] for one in answer["placed"]] == ["n2"]
