"""The public trace openb: nodes, pods, arrival orders and published results. The files are not ours."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernels.types import Rows
from reconciler.errors import Malformed

NODES = "openb_node_list_gpu_node.csv"
PUBLISHED = Path("expected_results") / "analysis_allo_discrete.csv"


class TraceNode(NamedTuple):
    """A node."""

    cores: int
    """Thousandths of a CPU"""
    memory: int
    """MiB"""
    gpus: int
    model: str
    rank: int
    """Place by name"""


class TracePod(NamedTuple):
    """A pod. Equal pods compare equal."""

    cores: int
    memory: int
    gpus: int
    milli: int
    """Thousandths of each GPU"""
    models: tuple[str, ...]
    """Models that it may use; empty for all"""


class Arrivals(NamedTuple):
    """One run: the nodes in order of their names, and the pods in order of arrival."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    """The pods of the trace, in order of their names"""
    order: Rows
    """Positions in `pods`"""


def variants(path: Path) -> tuple[str, ...]:
    """The variants that a file of arrival orders has."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in _orders(path)))


def seeds(path: Path, variant: str) -> tuple[int, ...]:
    """The seeds of a variant in a file of arrival orders."""
    found = (name.split("/") for name in _orders(path))
    return tuple(dict.fromkeys(int(seed) for name, seed, _ in found if name == variant))


def read_arrivals(trace: Path, orders: Path, variant: str, seed: int) -> Arrivals:
    """One run. Raises Malformed if a file does not have it."""
    recorded = _orders(orders)
    where = f"{variant}/{seed}"
    if f"{where}/order" not in recorded:
        raise Malformed(str(orders), where, "is not recorded; choose another variant or seed")
    rank, order = recorded[f"{where}/rank"], recorded[f"{where}/order"]
    nodes = [
        TraceNode(
            int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"], int(rank[number])
        )
        for number, row in enumerate(_rows(trace / NODES, "sn"))
    ]
    pods = tuple(map(_pod, _rows(trace / f"openb_pod_list_{variant}.csv", "name")))
    return Arrivals(tuple(sorted(nodes, key=lambda node: node.rank)), pods, order.astype(np.intp))


def published(trace: Path, variant: str, seed: int) -> dict[str, tuple[float, float]]:
    """Policy -> per cent in use at 100 and at 130 per cent arrived, as published. Empty without the file."""
    path = trace / PUBLISHED
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["workload"] == f"openb_pod_list_{variant}" and row["seed"] == str(seed):
                found[row["sc_policy"].partition("-")[2]] = float(row["100"]), float(row["130"])
    return found


def _pod(row: dict[str, str]) -> TracePod:
    gpus = int(row["num_gpu"])
    return TracePod(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        gpus,
        int(row["gpu_milli"]) if gpus else 0,
        tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model})),
    )


def _rows(path: Path, name: str) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            yield from sorted(csv.DictReader(file), key=lambda row: row[name])
    except (OSError, KeyError) as exc:
        raise Malformed(str(path), name, f"cannot be read: {exc}") from exc


def _orders(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError) as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc}") from exc
