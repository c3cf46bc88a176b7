"""Nodes of A100 GPUs with every partition published, as KEP-4815 describes them: 26 devices a GPU.

All devices of a GPU draw from its one counter set, memory slices by place included.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perf.fleets.objects import Json, claim, device_class, exactly, node, node_names, pool

DRIVER = "gpu.nvidia.com"
CLASS = "mig.nvidia.com"
PARENT = f"{DRIVER}/parentUUID"
GPUS_A_NODE = 8
MEMORY_SLICES = 8


class Profile(NamedTuple):
    """A shape of partition: what it draws, how many memory slices it spans and where it may start."""

    memory_mi: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpeg_and_ofa_engines: int
    span: int
    starts: Sequence[int]


PROFILES = {
    "1g.5gb": Profile(4864, 14, 1, 0, 0, 1, range(7)),
    "1g.5gb+me": Profile(4864, 14, 1, 1, 1, 1, range(7)),
    "1g.10gb": Profile(9856, 14, 1, 1, 0, 2, (0, 2, 4, 6)),
    "2g.10gb": Profile(9856, 28, 2, 1, 0, 2, (0, 2, 4)),
    "3g.20gb": Profile(19968, 42, 3, 2, 0, 4, (0, 4)),
    "4g.20gb": Profile(19968, 56, 4, 2, 0, 4, (0,)),
    "7g.40gb": Profile(40192, 98, 7, 5, 1, 8, (0,)),
}
WHOLE = PROFILES["7g.40gb"]
SHARE = {
    "1g.5gb": 40,
    "2g.10gb": 20,
    "1g.10gb": 15,
    "3g.20gb": 15,
    "1g.5gb+me": 5,
    "4g.20gb": 3,
    "7g.40gb": 2,
}
"""Percent of claims that ask for a profile"""


def fleet(nodes: int) -> Iterator[Json]:
    """Nodes, the class of all partitions, and 208 devices a node in five slices."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'mig'")
    for name in node_names(nodes):
        yield node(name)
        yield from node_slices(name)


def node_slices(name: str, gpus: int = GPUS_A_NODE) -> Iterator[Json]:
    """The pool of one node."""
    devices = [device for number in range(gpus) for device in _gpu(name, number)]
    sets = [{"name": f"gpu-{number}", "counters": _counters(WHOLE, 0)} for number in range(gpus)]
    return pool(DRIVER, name, devices, reach={"nodeName": name}, counter_sets=sets)


def profile_is(profile: str) -> str:
    """The selector of one profile."""
    return f"device.attributes['{DRIVER}'].profile == '{profile}'"


def partition(name: str, profile: str, count: int = 1) -> Json:
    """A request for partitions of one profile."""
    return exactly(name, CLASS, profile_is(profile), count=count)


def four_partitions(name: str) -> Json:
    """KEP-4815's example: two 1g.5gb, a 2g.10gb and a 3g.20gb of one parent."""
    requests = [
        partition("mig-1g-5gb-0", "1g.5gb"),
        partition("mig-1g-5gb-1", "1g.5gb"),
        partition("mig-2g-10gb", "2g.10gb"),
        partition("mig-3g-20gb", "3g.20gb"),
    ]
    return claim(name, requests, match=PARENT)


def _gpu(node_name: str, number: int) -> Iterator[Json]:
    uuid = f"GPU-{node_name}-{number}"
    own = {"type": {"string": "gpu"}, "index": {"int": number}, "uuid": {"string": uuid}}
    yield _device(f"gpu-{number}", number, own, WHOLE, 0)
    for profile, shape in PROFILES.items():
        for start in shape.starts:
            part = {
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "parentIndex": {"int": number},
                "parentUUID": {"string": uuid},
            }
            name = f"gpu-{number}-mig-{profile.replace('.', '-').replace('+', '-')}-{start}"
            yield _device(name, number, part, shape, start)


def _device(name: str, gpu: int, attributes: Json, shape: Profile, start: int) -> Json:
    return {
        "name": name,
        "attributes": {
            "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "550.54.15"},
            **attributes,
        },
        "capacity": {
            "memory": {"value": f"{shape.memory_mi}Mi"},
            "multiprocessors": {"value": str(shape.multiprocessors)},
        },
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": _counters(shape, start)}],
    }


def _counters(shape: Profile, start: int) -> Json:
    amounts = {
        "memory": f"{shape.memory_mi}Mi",
        "multiprocessors": str(shape.multiprocessors),
        "copy-engines": str(shape.copy_engines),
        "decoders": str(shape.decoders),
        "jpeg-engines": str(shape.jpeg_and_ofa_engines),
        "ofa-engines": str(shape.jpeg_and_ofa_engines),
        **{f"memory-slice-{at}": "1" for at in range(start, start + shape.span)},
    }
    return {name: {"value": value} for name, value in amounts.items()}
