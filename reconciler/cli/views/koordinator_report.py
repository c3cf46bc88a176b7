"""The output of `allocate` for pods that request Koordinator's devices."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from reconciler.api.manifests.bundle import Bundle
from reconciler.cli.output import Console, Table, counted, object_name, print_line, print_table
from reconciler.plugins.koordinator.annotations import AllocatedDevice, allocated, allocation_patch
from reconciler.plugins.koordinator.names import ALLOCATED

if TYPE_CHECKING:
    from reconciler.plugins.koordinator.offline import DeviceReport, Given


def print_devices(report: "DeviceReport", out: TextIO, *, wide: bool) -> None:
    """Print the allocated devices, why other pods are pending, and invalid objects."""
    console = Console(out)
    if report.given:
        print_table(console, _table(report, wide=wide), wide=wide)
    for line in (*lines(report), _summary(report)):
        print_line(console, line)


def _table(report: "DeviceReport", *, wide: bool) -> Table:
    """Each device of each pod; wide also has the annotation that records all devices of the pod."""
    table = Table(("POD", "NODE", "DEVICE", "SHARE", *(["ANNOTATION"] if wide else [])), names=2)
    for given in report.given:
        pod = str(given.pod.key)
        for kind, devices in allocated(f"Pod {pod}", {ALLOCATED: given.text}).items():
            for device in devices:
                more = (given.text,) if wide else ()
                table.add((pod, given.node, f"{kind}/{device.minor}", _share(device), *more))
    return table


def _share(device: AllocatedDevice) -> str:
    """What the pod gets of a device: amounts by resource, without domains, and virtual functions."""
    parts = [f"{name.rpartition('/')[2]} {amount}" for name, amount in device.resources.items()]
    if device.extension is not None:
        parts += [f"virtual function {function.bus_id}" for function in device.extension.vfs]
    return ", ".join(parts) or "-"


def names_of(report: "DeviceReport") -> Iterator[str]:
    """The pods that get devices, as kubectl names them."""
    yield from (object_name("Pod", given.pod.key.name) for given in report.given)


def lines(report: "DeviceReport") -> Iterator[str]:
    """Yield why pods are pending, and what could not be read."""
    yield from (f"not allocated: pod {key}: {why.message}" for key, why in report.refused)
    yield from report.notes


def _summary(report: "DeviceReport") -> str:
    pending = f", {len(report.refused)} pending" if report.refused else ""
    return f"{counted(len(report.given), 'pod')} allocated{pending}"


def written(bundle: Bundle, report: "DeviceReport") -> list[dict[str, Any]]:
    """The pods with devices, as `run` would write them."""
    entries = bundle.entries["Pod"]
    return [_written(entries[given.pod.key].raw, given) for given in report.given]


def _written(raw: Mapping[str, Any], given: "Given") -> dict[str, Any]:
    # Late import: the server imports HTTP, which is slow.
    from reconciler.embedded.patches import apply_json_patch  # noqa: PLC0415

    pod = apply_json_patch(dict(raw), allocation_patch(given.pod, given.node, given.text))
    assert isinstance(pod, dict)
    if pod["spec"].get("schedulingGates") == []:
        del pod["spec"]["schedulingGates"]
    return pod
