"""One file of a journal under another policy: how its decisions differ from the recorded ones."""

from collections import Counter
from pathlib import Path

from reconciler.allocation.policies.selection import parse_policies
from reconciler.control.demand import read_demand_file
from reconciler.errors import Malformed, Rejected
from reconciler.operations.journal.replaying import Again, replay

RECORDED = "recorded"
"""The policies of the journal itself: then all decisions must be the same"""


def compare(file: Path, policy: str, demand: Path | None) -> dict[str, int]:
    """Decisions by how they differ. Raises Malformed for a file that is no journal or no demand."""
    counts: Counter[str] = Counter()

    def count(again: Again) -> None:
        counts[_difference(again)] += 1

    wanted = None if demand is None else read_demand_file(demand).demand
    try:
        replay(
            file,
            names=None if policy == RECORDED else parse_policies((policy,)),
            demand=wanted,
            seen=count,
        )
    except Rejected as exc:
        raise Malformed(str(file), "", f"cannot be replayed: {exc}") from exc
    return {"decisions": counts.total(), **{name: counts[name] for name in DIFFERENCES}}


DIFFERENCES = (
    "same",
    "other_devices",
    "other_node",
    "refused_instead",
    "granted_instead",
    "other_reason",
    "unknown",
)
"""`unknown`: the file does not have the inputs of the decision"""


def _difference(again: Again) -> str:
    then, now = again.then, again.now
    if now is None:
        return "unknown"
    if again.same:
        return "same"
    match bool(then.reason), bool(now.reason):
        case True, True:
            return "other_reason"
        case True, False:
            return "granted_instead"
        case False, True:
            return "refused_instead"
        case _:
            return "other_devices" if then.node == now.node else "other_node"
