"""What a gang sees of nodes, as plain data, if its pods mind nothing of one another but room.

From this and the devices the gang can be decided again without the pods and the storage of the cluster.
"""

from collections.abc import Mapping

from msgspec import Struct

from kernels.types import Amounts, Mask
from reconciler.allocation.gangs.kinds import company_of, kinds_of
from reconciler.allocation.gangs.places import Places, leave
from reconciler.allocation.gangs.question import GangQuestion
from reconciler.errors import Rejected
from reconciler.state.nodes.room import Wanted
from reconciler.state.trial import Trial


class PodsSeen(Struct, frozen=True, eq=False):
    """Members that are alike."""

    positions: tuple[int, ...]
    """In the question"""
    wanted: Wanted
    """What each takes of its node"""
    allowed: Mask
    """(N,) nodes that suit them, in the order of the topology"""


class Picture(Struct, frozen=True, eq=False):
    """N nodes, in the order of the topology."""

    kinds: tuple[PodsSeen, ...]
    free: Mapping[str, Amounts]
    """Resource that a member takes -> (N,) what is left of it without the members"""


def picture_of(question: GangQuestion, trial: Trial) -> Picture | None:
    """What the gang sees in the state of a trial, which is as before on return.

    None if more counts: affinity, spread, ports or volumes among the members, or extended resources that a
    node need not offer; also if the question is refused before nodes are looked at.
    """
    mark = trial.mark()
    try:
        leave(question, trial)
        snapshot, nodes = trial.snapshot, trial.nodes
        company = company_of(question.members, nodes)
        kinds = kinds_of(question.members, snapshot, nodes, company)
        if company.crowding or company.ordered or any(kind.waived for kind in kinds):
            return None
        places = Places(kinds, company, trial)
        resources = dict.fromkeys(name for kind in kinds for name in kind.wanted)
        free = {name: nodes.in_order(nodes.room.free_of(name), snapshot.topology.order) for name in resources}
        seen = (
            PodsSeen(kind.positions, kind.wanted, allowed)
            for kind, allowed in zip(kinds, places.at_first, strict=True)
        )
        return Picture(tuple(seen), free)
    except Rejected:
        return None
    finally:
        trial.back_to(mark)
