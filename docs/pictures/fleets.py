"""The fleets of the screenshots as manifests: nodes with A100 in racks and zones, and claims of teams.

Some racks have a model of which more is asked for than there is; the others are partly used.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from perf.fleets import mig
from perf.fleets.objects import claim, exactly, node, node_names
from reconciler.control.ownership import MANAGED
from reconciler.library.making import mig_gpus

MODELS = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB")
"""Of the racks, in turns"""
NODES_A_RACK = 8
TAINTED = 42
"""The number of a node whose GPUs are tainted; its rack has the scarce model"""
TEAMS = ("ads", "climate", "genomics", "inference", "notebooks", "research", "speech", "training", "vision")
SMALL = 2.6
"""Claims of partitions for each GPU of the model that is not scarce"""


def write(path: Path, nodes: int, pending: int) -> None:
    """A fleet of 208 devices a node with so many claims that cannot be allocated; always the same."""
    random = Random(7)
    items = [*mig.fleet(0), *machines(nodes), *claims(nodes, pending, random)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def model(at: int) -> str:
    """The model of a node."""
    return MODELS[at // NODES_A_RACK % len(MODELS)]


def machines(nodes: int) -> Iterator[dict[str, Any]]:
    """Nodes and their slices."""
    for at, name in enumerate(node_names(nodes)):
        rack, made = at // NODES_A_RACK, node(name)
        made["metadata"]["labels"] |= {
            "topology.example.com/rack": f"rack-{rack + 1}",
            "topology.kubernetes.io/zone": f"eu-west-{'abc'[rack % 3]}",
        }
        yield made
        for piece in mig_gpus(name, mig.GPUS_A_NODE):
            for device in piece["spec"].get("devices", ()):
                device["attributes"]["productName"] = {"string": model(at)}
                if at == TAINTED:
                    device["taints"] = [{"key": "example.com/xid", "value": "79", "effect": "NoSchedule"}]
            yield piece


def claims(nodes: int, pending: int, random: Random) -> Iterator[dict[str, Any]]:
    """Partitions of the model that is not scarce; whole GPUs of the other; some that nothing can meet."""
    gpus = [model(at) for at in range(nodes) if at != TAINTED for _ in range(mig.GPUS_A_NODE)]
    scarce = gpus.count(MODELS[-1])
    typo, never = pending // 25, pending // 16
    small = random.choices(list(mig.SHARE), list(mig.SHARE.values()), k=int(SMALL * (len(gpus) - scarce)))
    wanted = [
        *small,
        *["whole"] * (scarce + pending - typo - never),
        *["typo"] * typo,
        *["never"] * never,
    ]
    random.shuffle(wanted)
    for at, profile in enumerate(wanted):
        team = random.choices(TEAMS, range(1, len(TEAMS) + 1))[0]
        match profile:
            case "typo":
                request = exactly("gpu", "mig.nvidia.con")
            case "never":
                request = mig.partition("gpu", "7g.40gb", mig.GPUS_A_NODE + 1)
            case "whole":
                request = exactly("gpu", mig.CLASS, mig.profile_is("7g.40gb"), _is(MODELS[-1]))
            case _:
                request = exactly("gpu", mig.CLASS, mig.profile_is(profile), _is(MODELS[0]))
        made = claim(f"{team}-{at:05}", [request])
        made["metadata"] |= {"namespace": team, "labels": {MANAGED: "true"}}
        yield made


def _is(wanted: str) -> str:
    return f"device.attributes['{mig.DRIVER}'].productName == '{wanted}'"
