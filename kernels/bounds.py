"""Bounds on a choice of devices: the least that it draws, the most that can be chosen. Sound, not tight."""

import numpy as np

from kernels.types import Amounts, Mask, Rows


def least_draw(draw: Amounts, idle: int, need: int) -> Amounts:
    """The least that any choice of `need` devices draws from each counter. Counters are independent.

    draw (m, C)  draw of each device that draws from the set
    idle         number of further candidates, which draw nothing from the set
    need         number of devices to choose, at most m + idle
    ->   (C,)    lower bound on the draw of every choice
    """
    drawing = need - idle
    if drawing <= 0:
        return np.zeros(draw.shape[1], dtype=np.int64)
    return np.partition(draw, drawing - 1, axis=0)[:drawing].sum(axis=0)


def max_matching(wanted: Rows, options: Mask, room: Rows) -> int:
    """The most wanted devices that can be assigned at once. A maximum flow by augmenting paths.

    wanted  (R,)    number of devices that each request wants
    options (R, Q)  kinds of device that suit each request
    room    (Q,)    number of devices of each kind
    ->              the largest total, at most wanted.sum()
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
    """Steps (request, kind it gets, request that releases it or -1), ending at a kind with spare devices."""
    parent: dict[int, tuple[int, int]] = {}  # request -> (kind it releases, request that wants it)
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
