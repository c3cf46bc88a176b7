"""Lower bounds on what a choice must consume, and on how many choices there are. Sound, not tight."""

import numpy as np

from kernels.types import Amounts, Mask, Rows


def cheapest(draw: Amounts, idle: int, need: int) -> Amounts:
    """The least that `need` devices can draw of each counter, each counter judged on its own.

    draw (m, C)  what each of the devices that draw from the set takes
    idle         further devices to choose from, which draw nothing from it
    need         devices to choose, at most m + idle
    ->   (C,)    no choice draws less
    """
    drawing = need - idle
    if drawing <= 0:
        return np.zeros(draw.shape[1], dtype=np.int64)
    return np.partition(draw, drawing - 1, axis=0)[:drawing].sum(axis=0)


def matching(wanted: Rows, options: Mask, room: Rows) -> int:
    """How many of the wanted devices can be had at once, each request from its own options.

    wanted  (R,)    devices each request wants
    options (R, Q)  which kinds of device would do for it
    room    (Q,)    devices there are of each kind
    ->              the largest total, at most wanted.sum(); a maximum flow by augmenting paths
    """
    flow = np.zeros(options.shape, dtype=np.int64)
    spare = room.astype(np.int64).copy()
    total = 0
    for request in range(len(wanted)):
        for _ in range(int(wanted[request])):
            path = _augmenting_path(request, options, flow, spare)
            if path is None:
                break
            for giving, kind, taking in path:
                flow[giving, kind] += 1
                if taking >= 0:
                    flow[taking, kind] -= 1
                else:
                    spare[kind] -= 1
            total += 1
    return total


def _augmenting_path(
    start: int, options: Mask, flow: Amounts, spare: Amounts
) -> list[tuple[int, int, int]] | None:
    """Steps (request, kind it gets, request that gives it up or -1) that end at a kind with room left."""
    parent: dict[int, tuple[int, int]] = {}  # request -> (kind it gives up, request that wants it)
    seen = np.zeros(options.shape[1], dtype=np.bool_)
    queue = [start]
    for request in queue:
        reach = options[request] & ~seen
        free = np.flatnonzero(reach & (spare > 0))
        if len(free):
            return _unwind(start, request, int(free[0]), parent)
        seen |= reach
        for kind in np.flatnonzero(reach).tolist():
            for giver in np.flatnonzero(flow[:, kind] > 0).tolist():
                if giver != start and giver not in parent:
                    parent[giver] = (kind, request)
                    queue.append(giver)
    return None


def _unwind(
    start: int, request: int, kind: int, parent: dict[int, tuple[int, int]]
) -> list[tuple[int, int, int]]:
    path = [(request, kind, -1)]
    while request != start:
        given, wanting = parent[request]
        path.append((wanting, given, request))
        request = wanting
    return path
