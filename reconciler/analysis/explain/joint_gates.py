"""The gates that look at several devices, in order, and the one at which a refusal leaves nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask
from reconciler.allocation.reasons.explanation import Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain import partitions
from reconciler.analysis.explain.alignment import Joint
from reconciler.analysis.explain.constraints import Tied
from reconciler.analysis.explain.funnel import Sieve
from reconciler.analysis.explain.groups import Masks
from reconciler.analysis.explain.places import Places
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Beyond:
    """What all requests have in common."""

    together: Mask
    """(N,) nodes with enough for every request, each request on its own"""
    joint: Joint
    empty: Kind | None
    """The gate that search says refuses: together, alignment or partition. None if nothing does"""
    left: Masks
    """By option, what passes the gates of single devices"""
    meant: Masks
    """By option, what is of the kind asked for, whoever holds it"""

    def steps(self, sieve: Sieve, ties: Sequence[Tied], places: Places, world: Snapshot) -> Iterator[Step]:
        """The gates for one option. What counting lets through, but the search has refused, is left out."""
        option, enough = sieve.option, sieve.nodes.enough
        alive = sieve.left & places.reached(enough)
        amount = "all" if option.all else str(option.source.wanted)
        yield _step(Kind.ENOUGH, f"{amount} of them on one node", alive, nodes=enough)
        for tied in ties:
            alive &= tied.passes(sieve.left)
            yield _step(Kind.CONSTRAINT, f"constraint on {tied.constraint.attribute}", alive)
        able = self.together if self.empty is not Kind.TOGETHER else np.zeros_like(self.together)
        alive &= places.reached(able)
        yield _step(Kind.TOGETHER, "all requests together", alive, nodes=able)
        for near in self.joint.near:
            if near.concerns(option):
                failed = near is self.joint.failed
                alive &= near.passes(self.left) & (not failed)
                nodes = None
                if near.countable:
                    short = places.by_code(near.lacking(self.left), 1)
                    nodes = able = able & (short == 0) & (not failed)
                never = failed and near.countable and near.lacking(self.meant).min(initial=1) > 0
                detail = "even if nothing were held" if never else ""
                yield _step(Kind.ALIGNMENT, near.about, alive, detail, nodes)
        for request in self.joint.partitioned:
            if request.at == (option.claim, option.request):
                failed = self.empty is Kind.PARTITION
                alive &= partitions.passes(request, world.fleet) & (not failed)
                short = places.by_code(partitions.lacking(request, sieve.left, places.codes), 1)
                able = able & (short == 0) & (not failed)
                yield _step(
                    Kind.PARTITION, partitions.ABOUT, alive, partitions.never(request) if failed else "", able
                )


def _step(kind: Kind, about: str, alive: Mask, detail: str = "", nodes: Mask | None = None) -> Step:
    able = None if nodes is None else int(np.count_nonzero(nodes))
    return Step(kind, about, int(np.count_nonzero(alive)), detail=detail, nodes=able)
