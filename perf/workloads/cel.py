"""Selectors: compiling one, its mask over a fleet cold and kept, and the same device by device."""

import json
import subprocess
import sys
from time import perf_counter

import numpy as np

from perf.deciding import Decider, Wrong
from perf.fleets import mig
from perf.results import ROOT
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.cel.program import CelError, DeviceView, Selector

A = f"device.attributes['{mig.DRIVER}']"
C = f"device.capacity['{mig.DRIVER}']"
EXPRESSIONS = {
    "driver": f"device.driver == '{mig.DRIVER}'",
    "type": f"device.driver == '{mig.DRIVER}' && {A}.type == 'mig'",
    "profile": f"{A}.profile == '3g.20gb'",
    "presence": f"has({A}.profile) && {A}.profile in ['1g.5gb', '2g.10gb']",
    "capacity": f"{C}.memory.compareTo(quantity('15Gi')) >= 0",
    "range": f"{C}.multiprocessors.isGreaterThan(quantity('40')) && "
    f"{C}.multiprocessors.isLessThan(quantity('60'))",
    "semver": f"{A}.driverVersion.compareTo(semver('550.0.0')) >= 0",
    "regex": f"{A}.productName.lowerAscii().matches('^.*a100.*$') && {A}.parentIndex < 4",
    "unique": f"{A}.uuid == 'GPU-node-00-3'",
    "prefix": f"{A}.parentUUID.startsWith('GPU-node-0')",
}
"""The shapes that published classes and claims have, most frequent first"""
REPEATED = 100


def cel(size: Size, progress: Progress) -> Outcome:
    """Every expression over every device of a fleet of partitions."""
    rows = Decider.over(mig.fleet(size["nodes"])).store.snapshot().fleet.cel
    devices = [rows.device(row) for row in range(rows.size)]
    compiling, cold, kept, plain = [], [], [], []
    figures: list[Figure] = []
    for number, (label, expression) in enumerate(EXPRESSIONS.items()):
        began = perf_counter()
        selector = Selector(expression)
        compiled = perf_counter()
        masks = selector.masks(rows)
        masked = perf_counter()
        for _ in range(REPEATED):
            selector.masks(rows)
        asked = perf_counter()
        answers = [_answer(selector, device) for device in devices]
        done = perf_counter()
        if not np.array_equal(masks.true, [answer is True for answer in answers]):
            raise Wrong(f"{expression}: the mask and the single devices differ")
        compiling.append(compiled - began)
        cold.append(masked - compiled)
        kept.append((asked - masked) / REPEATED)
        plain.append(done - asked)
        figures.append(Figure(f"cold mask, {label}", cold[-1] * 1e6, "us"))
        progress(number + 1, len(EXPRESSIONS))
    slow = _with_cel_python(devices[: size["interpreted"]])
    return Outcome([
        Figure("compile", float(np.mean(compiling)) * 1e6, "us"),
        Figure("cold mask", float(np.mean(cold)) * 1e6, "us"),
        *figures,
        Figure("kept mask", float(np.mean(kept)) * 1e6, "us"),
        Figure("all devices one by one", float(np.mean(plain)) * 1e6, "us"),
        Figure("one by one over cold mask", float(np.mean(plain) / np.mean(cold)), "x", ""),
        Figure("one device", float(np.mean(plain)) / len(devices) * 1e6, "us"),
        Figure("one device, cel-python", slow * 1e6, "us", ""),
    ])  # fmt: skip


def _answer(selector: Selector, device: DeviceView) -> bool | None:
    try:
        return selector.matches(device)
    except CelError:
        return None


def _with_cel_python(devices: list[DeviceView]) -> float:
    """Seconds a device takes the interpreter of cel-python, in a process of its own.

    Building its environment changes settings of the whole process.
    """
    shown = [
        {
            "driver": device.driver,
            "attributes": {domain: {"type": values["type"]} for domain, values in device.attributes.items()},
        }
        for device in devices
    ]
    done = subprocess.run(
        [sys.executable, "-m", "perf.celpython", EXPRESSIONS["type"]],
        cwd=ROOT,
        input=json.dumps(shown),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


WORKLOADS = [
    Workload(
        "cel",
        "one selector over all devices: compiled, cold, kept, and device by device",
        cel,
        {"": {"nodes": 50, "interpreted": 500}},
        tiny={"nodes": 1, "interpreted": 2},
    ),
]
