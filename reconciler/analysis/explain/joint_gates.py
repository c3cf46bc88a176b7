"""The gates on several devices at once, in order."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.allocation.reasons.explanation import Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain import partitions
from reconciler.analysis.explain.alignment import JointRequirements
from reconciler.analysis.explain.constraints import ConstraintGate
from reconciler.analysis.explain.funnel import GateResult
from reconciler.analysis.explain.groups import Masks
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.state.devices.snapshot.snapshot import Snapshot


class MultiDeviceGates(Struct, frozen=True, eq=False):
    """The state that the gates of all requests share."""

    together: Mask
    """(N,) nodes with enough devices for each request alone"""
    joint: JointRequirements
    refusing: Kind | None
    """The gate at which the search fails: together, alignment or partition. None if the claims fit"""
    left: Masks
    """Devices that pass all gates on single devices"""
    selected: Masks
    """Devices that pass the selection gates, even if they are held"""

    def steps(
        self, result: GateResult, constraints: Sequence[ConstraintGate], reach: NodeReach, snapshot: Snapshot
    ) -> Iterator[Step]:
        """The gates for one request. No device passes the refusing gate, whatever counting says."""
        option, enough = result.option, result.nodes.enough
        alive = result.left & reach.reached(enough)
        wanted = option.source.wanted
        amount = "all devices" if option.all else f"{wanted} device{'' if wanted == 1 else 's'}"
        yield _step(Kind.ENOUGH, f"{amount} on one node", alive, nodes=enough)
        for gate in constraints:
            alive &= gate.passes(result.left)
            yield _step(Kind.CONSTRAINT, f"constraint on {gate.constraint.attribute}", alive)
        able = self.together if self.refusing is not Kind.TOGETHER else np.zeros_like(self.together)
        alive &= reach.reached(able)
        yield _step(Kind.TOGETHER, "all requests together", alive, nodes=able)
        for alignment in self.joint.alignments:
            if alignment.concerns(option):
                failed = alignment is self.joint.failed
                alive &= alignment.passes(self.left) & (not failed)
                nodes = None
                if alignment.countable:
                    short = reach.by_code(alignment.lacking(self.left), 1)
                    nodes = able = able & (short == 0) & (not failed)
                never = failed and alignment.countable and alignment.lacking(self.selected).min(initial=1) > 0
                detail = "even if all devices were free" if never else ""
                yield _step(Kind.ALIGNMENT, alignment.about, alive, detail, nodes)
        for request in self.joint.partitions:
            if request.at == (option.claim, option.request):
                failed = self.refusing is Kind.PARTITION
                alive &= partitions.passes(request, snapshot.fleet) & (not failed)
                short = reach.by_code(partitions.lacking(request, result.left, reach.code_count), 1)
                able = able & (short == 0) & (not failed)
                yield _step(
                    Kind.PARTITION,
                    partitions.ABOUT,
                    alive,
                    partitions.impossible(request) if failed else "",
                    able,
                )


def _step(kind: Kind, about: str, alive: Mask, detail: str = "", nodes: Mask | None = None) -> Step:
    able = None if nodes is None else int(np.count_nonzero(nodes))
    return Step(kind, about, int(np.count_nonzero(alive)), detail=detail, nodes=able)
