"""The same fleet and claims, decided by another allocator: a program that answers scenario files.

`README.md` has the format. The program of Kubernetes' own allocator fills the column `Kubernetes`.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perf.fleets.objects import Json
from perf.workload import Figure, OracleTask, Size

PATIENCE = 3600.0
"""Seconds for one scenario"""
_FIELDS = {"DeviceClass": "deviceClasses", "ResourceSlice": "resourceSlices", "Node": "nodes"}


class Unanswered(Exception):
    """The program cannot be run, or its answer is not one."""


def scenario(name: str, fleet: Iterable[Json], claims: Sequence[Json]) -> Json:
    """A scenario in mode `bench`: the claims one after another, each on the first node where it fits."""
    found: dict[str, list[Json]] = {field: [] for field in _FIELDS.values()}
    for raw in fleet:
        found[_FIELDS[raw["kind"]]].append(raw)
    return {"name": name, "mode": "bench", **found, "claims": list(claims)}


def ask(program: Path, name: str, task: OracleTask, size: Size) -> Sequence[Figure]:
    """What the program needs for each claim, as the figures of the workload. Raises Unanswered."""
    fleet, claims = task.problem(size)
    text = json.dumps(scenario(name, fleet, claims)) + "\n"
    try:
        done = subprocess.run(
            [program], input=text, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        return task.figures(_seconds(json.loads(done.stdout), claims))
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        raise Unanswered(f"--oracle {program}: {name}: {exc}") from exc


def _seconds(answer: Mapping[str, Any], claims: Sequence[Json]) -> list[float]:
    """Seconds of each claim. Raises ValueError if the answer is not about these claims, or is an error."""
    micros, picks = answer.get("perClaimMicros"), answer.get("picks")
    if not isinstance(micros, list) or not isinstance(picks, list) or len(micros) != len(claims):
        raise ValueError(f"{len(claims)} claims were asked; perClaimMicros and picks must have as many")
    devices = [device for pick in picks for device in pick or ()]
    failed = [device for device in devices if str(device).startswith("error ")]
    if failed:
        raise ValueError(failed[0])
    if len(devices) != len(set(devices)):
        raise ValueError("a device is given out twice")
    return [max(one, 1) / 1e6 for one in micros]
