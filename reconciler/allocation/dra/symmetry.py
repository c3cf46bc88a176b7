"""Devices that are equal in one search: where one fails, the other fails too."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Codes
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.exclusion import equality_columns
from reconciler.allocation.dra.state import NodeProblem


def equality_classes(problem: NodeProblem, every: Sequence[Candidates], reach: Codes | None = None) -> Codes:
    """(n,) class numbers. Devices of one class can replace each other in any solution.

    Two devices are equal if all options have equal masks for them, all constraints see the same value, they
    draw the same from the same counter sets, and they exclude the same devices. Shared devices are never
    equal, because the capacity consumed of each changes from step to step. `reach` (n,) are the nodes that
    use a device, if they matter.
    """
    fleet, rows = problem.snapshot.fleet, problem.rows
    count = len(rows)
    columns = [
        problem.sets.T,
        problem.draws.T,
        fleet.codes["shape"][rows][None],
        fleet.codes["selector"][rows][None],
    ]
    alone = problem.shared | problem.snapshot.occupancy.sharing[rows]
    columns.append(np.where(alone, np.arange(count, dtype=np.int32), -1)[None])
    for candidates in every:
        columns.append((candidates.available * 1 + candidates.fatal * 2).astype(np.int32)[None])
        if candidates.listed is not None:
            listed = np.zeros(count, dtype=np.int32)
            # Where a violated constraint is an error, the order of the listed devices matters.
            ordered = bool(candidates.option.constraints)
            listed[candidates.listed] = 1 + np.arange(candidates.count) if ordered else 1
            columns.append(listed[None])
    if problem.exclusion is not None:
        columns.append(equality_columns(problem.exclusion))
    if reach is not None:
        columns.append(reach[None])
    columns += [c.codes[None] for of_claim in problem.constraints for c in of_claim]
    _, classes = np.unique(np.concatenate(columns).T, axis=0, return_inverse=True)
    return classes.reshape(-1).astype(np.int32)
