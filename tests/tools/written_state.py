"""What a version leaves on a server and in a journal, recorded so that later ones are tested with it.

usage, in a checkout of the version: python -m tests.tools.written_state FILE.json.gz
"""

import asyncio
import base64
import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from reconciler.api.validation.served_kinds import CLAIM, CONFIG_MAP, LEASE, POD
from reconciler.control import demand
from tests.tools.checkout import ROOT
from tests.tools.gangs import annotated
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod, template

RECORDS = ROOT / "tests" / "tools" / "written"
"""One file for each version, with its name"""
FLAGS: dict[str, Any] = {
    "leader_elect": True,
    "lease_namespace": "default",
    "koordinator": True,
    "policy": ["least-loss"],
    "demand_config_map": "default/demand",
    "backoff_base_seconds": 0.01,
    "backoff_cap_seconds": 0.2,
}
"""The settings under which states are recorded, and read by the next version"""
_KINDS = {"ResourceClaim": CLAIM, "Pod": POD, "ConfigMap": CONFIG_MAP, "Lease": LEASE}


class Written(NamedTuple):
    """The record of one version."""

    fleet: list[Object]
    objects: list[Object]
    """Claims, pods, ConfigMaps and Leases, as they were at the end"""
    journal: dict[str, bytes]
    """File name -> content"""


def read(path: Path) -> Written:
    """A record."""
    raw = json.loads(gzip.decompress(path.read_bytes()))
    files = {name: base64.b64decode(text) for name, text in raw["journal"].items()}
    return Written(raw["fleet"], raw["objects"], files)


def fleet() -> list[Object]:
    """Two nodes in a rack with four devices each, one of Koordinator's."""
    nodes = [node(name, rack="r") for name in ("a", "b", "k")]
    held = [devices(name, "d0", "d1", "d2", "d3") for name in ("a", "b")]
    metadata = {"name": "demand", "namespace": "default"}
    demand = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return [device_class(), template("t", 2), *nodes, *held, machine("k", gpu(0), gpu(1)), demand]


async def record(folder: Path) -> list[Object]:
    """All objects at the end. The journal is written into the folder."""
    demand.EVERY = 0.05
    cluster = Cluster(fleet())

    async def until_learnt() -> None:
        shelf = cluster.api.store[CONFIG_MAP]
        while not any(
            '"count": 4' in found.object.get("data", {}).get("demand", "") for found in shelf.scan("")
        ):
            await shelf.wait(shelf.end)

    async with reconciling(cluster, controllers=True, journal=str(folder), **FLAGS):
        cluster.load(claim("c"), pod("plain", "c"))
        await cluster.until(lambda: not cluster.gated("plain"))
        cluster.load(pod("templated", templates=("t",)))
        await cluster.until(lambda: not cluster.gated("templated"))
        cluster.load(claim("g0"), claim("g1"))
        cluster.load(*(annotated(f"gang-{n}", f"g{n}", size=2, topology="rack") for n in range(2)))
        await cluster.until(lambda: not cluster.gated("gang-0") and not cluster.gated("gang-1"))
        cluster.load(wants("shared", {"gpu": 50}))
        await cluster.until(lambda: not cluster.gated("shared"))
        cluster.load(claim("large", 4), pod("waits", "large"))
        await until_learnt()
    shelves = ((name, cluster.api.store[kind]) for name, kind in _KINDS.items())
    return [
        {"apiVersion": str(_KINDS[name].stored), "kind": name, **found.object}
        for name, shelf in shelves
        for found in shelf.scan("")
    ]


def write(path: Path) -> None:
    """Record this version."""
    with TemporaryDirectory() as text:
        folder = Path(text)
        objects = asyncio.run(record(folder))
        files = {one.name: base64.b64encode(one.read_bytes()).decode() for one in sorted(folder.iterdir())}
    whole = {"fleet": fleet(), "objects": objects, "journal": files}
    path.write_bytes(gzip.compress(json.dumps(whole).encode(), mtime=0))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
