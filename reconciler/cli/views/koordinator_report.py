"""What `allocate` makes of Koordinator's Device objects and the pods that request their devices."""

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.table import Table

from reconciler.api.koordinator.patch import steps
from reconciler.api.manifests.bundle import Bundle
from reconciler.cli.common.output import add_row, bare_table, console_on, say
from reconciler.control.koordinator.offline import DeviceReport, Given


def print_devices(report: DeviceReport, out: TextIO) -> None:
    """What pods are given, why others are not, and what could not be read."""
    console = console_on(out)
    if report.given:
        console.print(_table(report))
    for line in (*lines(report), _summary(report)):
        say(console, line)


def _table(report: DeviceReport) -> Table:
    """Each pod with its node and the annotation that records its devices."""
    found = bare_table(("POD", "NODE", "DEVICES ALLOCATED"))
    for given in report.given:
        add_row(found, (str(given.pod.key), given.node, given.text))
    return found


def lines(report: DeviceReport) -> Iterator[str]:
    """Why pods got no devices, and what could not be read."""
    yield from (f"not given devices: pod {key}: {why.message}" for key, why in report.refused)
    yield from report.notes


def _summary(report: DeviceReport) -> str:
    told = f"{len(report.given)} pod{'' if len(report.given) == 1 else 's'} given devices"
    return f"{told}, {len(report.refused)} not" if report.refused else told


def written(bundle: Bundle, report: DeviceReport) -> list[dict[str, Any]]:
    """The pods that got devices, as a live run would leave them on the server."""
    entries = bundle.entries["Pod"]
    return [_written(entries[given.pod.key].raw, given) for given in report.given]


def _written(raw: Mapping[str, Any], given: Given) -> dict[str, Any]:
    # The server comes with HTTP, which takes longer to import than all else here.
    from reconciler.embedded.server.patches import apply_json_patch  # noqa: PLC0415

    found = apply_json_patch(dict(raw), steps(given.pod, given.node, given.text))
    assert isinstance(found, dict)
    if found["spec"].get("schedulingGates") == []:
        del found["spec"]["schedulingGates"]
    return found
