"""Devices that are equal for the purpose of one search: where one fails, so does the other."""

from collections.abc import Sequence

import numpy as np

from kernels.types import Codes
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.exclusion import equality_columns
from reconciler.allocation.dra.state import NodeProblem


def classes_of_equals(problem: NodeProblem, every: Sequence[Candidates]) -> Codes:
    """Devices in one class can be exchanged in any solution without breaking it.

    ->  (n,) class numbers. Two devices are equal if every option treats them alike, every constraint sees
        the same value, and they draw the same from the same counter sets, and other devices go with
        both or with neither. Shared devices are never equal:
        what is consumed of each differs from step to step.
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
            # Where breaking a constraint is an error, which device the list meets first makes a difference.
            ordered = bool(candidates.option.constraints)
            listed[candidates.listed] = 1 + np.arange(candidates.count) if ordered else 1
            columns.append(listed[None])
    if problem.exclusion is not None:
        columns.append(equality_columns(problem.exclusion))
    columns += [c.codes[None] for of_claim in problem.constraints for c in of_claim]
    _, classes = np.unique(np.concatenate(columns).T, axis=0, return_inverse=True)
    return classes.reshape(-1).astype(np.int32)
