"""The texts of Events."""

import pytest

from reconciler.api.objects.meta import DeviceID
from reconciler.operations.events.recorder import allocated_note


def on(pool: str, number: int, driver: str = "gpu.example.com") -> list[DeviceID]:
    return [DeviceID(driver, pool, f"d{at}") for at in range(number)]


@pytest.mark.parametrize(
    ("devices", "node", "text"),
    [
        (on("n", 1), "n", "Allocated 1 device on node n: gpu.example.com/n: d0."),
        (on("far", 2), "", "Allocated 2 devices: gpu.example.com/far: d0, d1."),
        (
            [*on("n", 2), *on("n", 1, "nic.example.com")],
            "n",
            "Allocated 3 devices on node n: gpu.example.com/n: d0, d1; nic.example.com/n: d0.",
        ),
        (
            on("n", 8),
            "n",
            "Allocated 8 devices on node n: gpu.example.com/n: d0, d1, d2, d3, d4, d5, d6, d7.",
        ),
        (
            on("n", 64),
            "n",
            "Allocated 64 devices on node n: gpu.example.com/n: d0, d1, d2, d3, d4, d5, d6, d7 and 56 more.",
        ),
    ],
)
def test_devices_are_named_by_pool_and_many_are_counted(devices: list[DeviceID], node: str, text: str):
    assert allocated_note(devices, node) == text
