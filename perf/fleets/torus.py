"""One pool for a whole TPU network: every sub-slice of every torus, at every place it can have.

A host is a counter of four chips; a sub-slice draws all chips of its hosts and is reachable from
exactly those. A torus of 4 x 8 hosts fills one counter set, the 32 counters that the API allows.
"""

from collections.abc import Iterator

from perf.fleets.objects import Json, device_class, exactly, node, node_names, pool

DRIVER = "tpu.example.com"
CLASS = "tpu.example.com"
ROWS, COLUMNS = 4, 8
HOSTS = ROWS * COLUMNS
CHIPS_A_HOST = 4
SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 4), (4, 8))
"""Rows and columns of hosts"""
SIZES = tuple(sorted({rows * columns * CHIPS_A_HOST for rows, columns in SHAPES}))
"""Chips that can be asked for"""


def fleet(tori: int) -> Iterator[Json]:
    """Hosts, the class of all sub-slices, and the one pool: 169 devices a torus."""
    names = node_names(tori * HOSTS)
    yield device_class(CLASS, f"device.driver == '{DRIVER}'")
    for name in names:
        yield node(name)
    parts = [names[start : start + HOSTS] for start in range(0, len(names), HOSTS)]
    devices = [device for number, hosts in enumerate(parts) for device in _torus(number, hosts)]
    chips = {"value": str(CHIPS_A_HOST)}
    sets = [
        {"name": f"torus-{number}", "counters": dict.fromkeys(hosts, chips)}
        for number, hosts in enumerate(parts)
    ]
    yield from pool(DRIVER, "network", devices, reach={"perDeviceNodeSelection": True}, counter_sets=sets)


def sub_slice(name: str, chips: int) -> Json:
    """A request for one sub-slice of so many chips."""
    return exactly(name, CLASS, f"device.capacity['{DRIVER}'].chips == quantity('{chips}')")


def _torus(number: int, hosts: list[str]) -> Iterator[Json]:
    for rows, columns in SHAPES:
        # Round the torus, a shape as long as a dimension looks the same from every place in it.
        for top in range(ROWS if rows < ROWS else 1):
            for left in range(COLUMNS if columns < COLUMNS else 1):
                members = [
                    hosts[(top + down) % ROWS * COLUMNS + (left + right) % COLUMNS]
                    for down in range(rows)
                    for right in range(columns)
                ]
                yield _device(f"torus-{number}-{rows}x{columns}-{top}-{left}", number, members)


def _device(name: str, torus: int, members: list[str]) -> Json:
    inside = {"key": "kubernetes.io/hostname", "operator": "In", "values": members}
    chips = {"value": str(CHIPS_A_HOST)}
    return {
        "name": name,
        "attributes": {"torus": {"int": torus}, "hosts": {"int": len(members)}},
        "capacity": {"chips": {"value": str(len(members) * CHIPS_A_HOST)}},
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [inside]}]},
        "consumesCounters": [{"counterSet": f"torus-{torus}", "counters": dict.fromkeys(members, chips)}],
    }
