"""What `allocate` makes of Koordinator's Device objects and the pods that request their devices."""

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.table import Table

from reconciler.cli.output import add_row, bare_table, console_on, say
from reconciler.errors import Malformed, Rejected
from reconciler.inventory.reach import NodeInfo
from reconciler.koordinator.device import Device
from reconciler.koordinator.offline import Given, Report, decide
from reconciler.koordinator.patch import steps
from reconciler.koordinator.rules import Rules, Semantics
from reconciler.manifests.bundle import Bundle
from reconciler.objects.core import Node, Pod
from reconciler.objects.pinning import pinned
from reconciler.offline import turn
from reconciler.reconcile.placement import candidates


def decide_devices(bundle: Bundle, semantics: Semantics) -> Report | None:
    """Which pods get which devices; None where there is no Device object."""
    devices = bundle.of(Device)
    if not devices:
        return None
    nodes = {node.key.name: node for node in bundle.of(Node)}
    entries = sorted(bundle.entries.get("Pod", {}).values(), key=turn)
    pods = [entry.object for entry in entries if isinstance(entry.object, Pod)]

    def suits(pod: Pod, name: str) -> bool:
        labels = nodes[name].metadata.labels if name in nodes else {}
        if name in nodes and nodes[name].spec.unschedulable and pinned(pod) != name:
            return False
        try:
            return candidates(pod, (), {name: NodeInfo(name, labels)}) != ()
        except Rejected as exc:
            raise Malformed(f"Pod {pod.key}", "spec", str(exc)) from exc

    labels = {name: node.metadata.labels for name, node in nodes.items()}
    return decide(devices, labels, pods, suits, Rules(semantics))


def print_devices(report: Report, out: TextIO) -> None:
    """What pods are given, why others are not, and what could not be read."""
    console = console_on(out)
    if report.given:
        console.print(_table(report))
    for line in (*lines(report), _summary(report)):
        say(console, line)


def _table(report: Report) -> Table:
    """Each pod with its node and the annotation that records its devices."""
    found = bare_table(("POD", "NODE", "DEVICES ALLOCATED"))
    for given in report.given:
        add_row(found, (str(given.pod.key), given.node, given.text))
    return found


def lines(report: Report) -> Iterator[str]:
    """Why pods got no devices, and what could not be read."""
    yield from (f"not given devices: pod {key}: {why}" for key, why in report.refused)
    yield from report.notes


def _summary(report: Report) -> str:
    told = f"{len(report.given)} pod{'' if len(report.given) == 1 else 's'} given devices"
    return f"{told}, {len(report.refused)} not" if report.refused else told


def written(bundle: Bundle, report: Report) -> list[dict[str, Any]]:
    """The pods that got devices, as a live run would leave them on the server."""
    entries = bundle.entries["Pod"]
    return [_written(entries[given.pod.key].raw, given) for given in report.given]


def _written(raw: Mapping[str, Any], given: Given) -> dict[str, Any]:
    # The server comes with HTTP, which takes longer to import than all else here.
    from reconciler.embedded.patches import apply_json_patch  # noqa: PLC0415

    found = apply_json_patch(dict(raw), steps(given.pod, given.node, given.text))
    assert isinstance(found, dict)
    if found["spec"].get("schedulingGates") == []:
        del found["spec"]["schedulingGates"]
    return found
