"""Devices that others would give up, and devices a pod has to be given back."""

from typing import Any

import pytest

from reconciler.plugins.koordinator.choice import Takeover
from reconciler.plugins.koordinator.holdings import Grant
from reconciler.plugins.koordinator.names import GPU_CORE, GPU_MEMORY_RATIO, KOORD_RDMA
from reconciler.plugins.koordinator.rules import Semantics
from tests.tools.koordinator_builders import decide, gpu, holding, machine, minors, nic, pod

FULL = {GPU_CORE: 100, GPU_MEMORY_RATIO: 100, "koordinator.sh/gpu-memory": 80 * 2**30}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("name", "takeover", "expected"),
    [
        ("nothing is given up", Takeover(), "insufficient-devices:gpu"),
        ("one GPU is", Takeover({"gpu": {1: FULL}}), {"gpu": [1]}),
        ("half of one is not enough", Takeover({"gpu": {1: {GPU_CORE: 50}}}), "insufficient-devices:gpu"),
    ],
)
def test_what_holders_give_up_counts_as_free(
    semantics: Semantics, name: str, takeover: Takeover, expected: Any
):
    on = machine(gpu(0), gpu(1), semantics=semantics)
    wants = pod({"gpu-core": 80, "gpu-memory-ratio": 80})
    found = decide(wants, on, holding(gpus=[0, 1]), semantics, takeover=takeover)
    assert minors(found) == expected


def test_who_gives_way_keeps_nobody_out():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "0")))
    held = holding(gpus=[0], hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    wants = pod({"nvidia.com/gpu": 2})
    assert minors(decide(wants, on, held)) == "insufficient-devices:gpu"
    assert minors(decide(wants, on, held, takeover=Takeover({"gpu": {0: FULL}}))) == {"gpu": [0, 1]}


@pytest.mark.parametrize("semantics", Semantics)
def test_named_devices_are_the_only_ones(semantics: Semantics):
    on = machine(nic(0), nic(1), semantics=semantics)
    back = Takeover(designated={"rdma": (Grant(1, {KOORD_RDMA: 50}),)})
    assert minors(decide(pod({"rdma": 50}), on, semantics=semantics, takeover=back)) == {"rdma": [1]}
    more = decide(pod({"rdma": 60}), on, semantics=semantics, takeover=back)
    assert minors(more) == "insufficient-devices:rdma"


def test_preferred_devices_come_first():
    on = machine(nic(0), nic(1), nic(2))
    preferred = Takeover(preferred={"rdma": frozenset({2})})
    assert minors(decide(pod({"rdma": 200}), on, takeover=preferred)) == {"rdma": [0, 2]}
