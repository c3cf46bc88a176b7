"""Nodes of A100 GPUs with every partition published, as KEP-4815 describes them: 26 devices a GPU.

All devices of a GPU draw from its one counter set, memory slices by place included.
"""

from collections.abc import Iterator

from perf.fleets.objects import Json, claim, device_class, exactly, node, node_names
from reconciler.library.making import MIG_PROFILES, mig_gpus

DRIVER = "gpu.nvidia.com"
CLASS = "mig.nvidia.com"
PARENT = f"{DRIVER}/parentUUID"
GPUS_A_NODE = 8
MEMORY_SLICES = 8
PROFILES = MIG_PROFILES


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
        yield from mig_gpus(name, GPUS_A_NODE)


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
