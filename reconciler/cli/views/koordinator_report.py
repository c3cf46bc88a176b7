"""The output of `allocate` for pods that request Koordinator's devices."""

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.table import Table

from reconciler.api.koordinator.patch import steps
from reconciler.api.manifests.bundle import Bundle
from reconciler.cli.common.output import add_row, bare_table, console_on, print_line
from reconciler.cli.common.plain_text import counted
from reconciler.control.koordinator.offline import DeviceReport, Given


def print_devices(report: DeviceReport, out: TextIO) -> None:
    """Print the allocated devices, why other pods are pending, and invalid objects."""
    console = console_on(out)
    if report.given:
        console.print(_table(report))
    for line in (*lines(report), _summary(report)):
        print_line(console, line)


def _table(report: DeviceReport) -> Table:
    """Each pod with its node and the annotation that records its devices."""
    table = bare_table(("POD", "NODE", "DEVICES ALLOCATED"))
    for given in report.given:
        add_row(table, (str(given.pod.key), given.node, given.text))
    return table


def lines(report: DeviceReport) -> Iterator[str]:
    """Yield why pods are pending, and what could not be read."""
    yield from (f"not allocated: pod {key}: {why.message}" for key, why in report.refused)
    yield from report.notes


def _summary(report: DeviceReport) -> str:
    pending = f", {len(report.refused)} pending" if report.refused else ""
    return f"{counted(len(report.given), 'pod')} allocated{pending}"


def written(bundle: Bundle, report: DeviceReport) -> list[dict[str, Any]]:
    """The pods with devices, as `run` would write them."""
    entries = bundle.entries["Pod"]
    return [_written(entries[given.pod.key].raw, given) for given in report.given]


def _written(raw: Mapping[str, Any], given: Given) -> dict[str, Any]:
    # Late import: the server imports HTTP, which is slow.
    from reconciler.embedded.server.patches import apply_json_patch  # noqa: PLC0415

    pod = apply_json_patch(dict(raw), steps(given.pod, given.node, given.text))
    assert isinstance(pod, dict)
    if pod["spec"].get("schedulingGates") == []:
        del pod["spec"]["schedulingGates"]
    return pod
